//! Prompts for the agent loop: their list, and how the texts of several toolsets become one message. The words of each
//! toolset are in its `prompts.rs`, the facts in `moment.rs`.

mod moment;
mod own;

use callboard_engine::context::{OpContext, Principal};
use serde_json::{Map, Value};

use crate::front::{Front, PromptArgument, PromptInfo, Unknown};
use crate::lookup::LookupError;
use crate::task_name;
use crate::tool::Toolset;

pub(crate) use moment::NOTHING_READY;
pub use moment::{ListedTask, Moment};
pub use own::{OWN_BYTES_MAX, OwnPrompts};

/// The prompts of one toolset, in names of its own tools.
/// One function for each prompt: it gets the facts of the moment and writes them in the toolset's words.
pub struct Prompts {
    pub start_work: Words,
    pub review_queue: Words,
    pub plan: Words,
    pub diagnose: Words,
}

/// The text of a prompt at a moment.
pub type Words = fn(&Moment) -> String;

const TASK: PromptArgument =
    PromptArgument { name: "task", description: "Id of the task", required: false };

/// A prompt as clients list it, and which words of a toolset it takes.
struct Prompt {
    info: PromptInfo,
    words: fn(&Prompts) -> Words,
}

const PROMPTS: &[Prompt] = &[
    Prompt {
        info: PromptInfo {
            name: "start-work",
            title: "Start work",
            description: "Take a task (yours, else the next one), work on it and hand it over.",
            arguments: &[TASK],
        },
        words: |prompts| prompts.start_work,
    },
    Prompt {
        info: PromptInfo {
            name: "review-queue",
            title: "Review queue",
            description: "Look at every task in review and close it or send it back.",
            arguments: &[],
        },
        words: |prompts| prompts.review_queue,
    },
    Prompt {
        info: PromptInfo {
            name: "plan",
            title: "Plan",
            description: "Split a goal into tasks with dependencies and checks.",
            arguments: &[PromptArgument {
                name: "goal",
                description: "What should be reached",
                required: false,
            }],
        },
        words: |prompts| prompts.plan,
    },
    Prompt {
        info: PromptInfo {
            name: "diagnose",
            title: "Diagnose",
            description: "Find out why a task, or the work as a whole, does not move.",
            arguments: &[TASK],
        },
        words: |prompts| prompts.diagnose,
    },
];

pub(crate) fn list() -> Vec<PromptInfo> {
    PROMPTS.iter().map(|prompt| prompt.info.clone()).collect()
}

/// The possible names of files in `.callboard/prompts/`, without `.md`.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROMPTS.iter().map(|prompt| prompt.info.name)
}

/// The text of a prompt for this caller now. A file of the project replaces the usual words and may include them.
pub(crate) async fn text(
    front: &Front,
    principal: &Principal,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<String, LookupError> {
    let Some(prompt) = PROMPTS.iter().find(|prompt| prompt.info.name == name) else {
        return Err(Unknown(name.into()).into());
    };
    let mut arguments = Value::Object(arguments.clone());
    let op = OpContext::new(principal.clone(), "prompt");
    // People name tasks by short names here as in tools.
    task_name::resolve(front.engine(), &op, &mut arguments).await?;
    let moment = Moment::of(front, &op, &arguments).await?;
    let usual = joined(front.toolsets(), &moment, prompt.words);
    let text = match front.own_prompts().get(prompt.info.name) {
        Some(own) => own::filled(own, &moment, &usual),
        None => usual,
    };
    Ok(match &moment.task_blank {
        // The argument is no task's name; the model decides whether its text means one.
        Some(blank) => format!(
            "{text}\n\n\
             If these quotes contain a task, use that task instead: \"{blank}\"."
        ),
        None => text,
    })
}

/// The words of one toolset stand alone. Words of several toolsets get a heading with the toolset's name.
fn joined(toolsets: &[&'static Toolset], moment: &Moment, words: fn(&Prompts) -> Words) -> String {
    let said = |toolset: &&'static Toolset| {
        toolset.prompts.map(|prompts| (toolset.name, words(prompts)(moment)))
    };
    let parts: Vec<(&str, String)> = toolsets.iter().filter_map(said).collect();
    let told = match parts.as_slice() {
        [(_, only)] => only.clone(),
        several => {
            let parts: Vec<String> =
                several.iter().map(|(name, text)| format!("## {name}\n{text}")).collect();
            format!(
                "This server has the tools of several toolsets. Choose the section whose tools fit \
                 and keep to them.\n\n{}",
                parts.join("\n\n")
            )
        }
    };
    // Said before the toolsets' words: those describe the work of an agent with all tasks.
    match moment.bound {
        Some(bound) => format!(
            "This connection is bound to task {bound}; it cannot change other tasks or create tasks.\n\n\
             {told}"
        ),
        None => told,
    }
}
