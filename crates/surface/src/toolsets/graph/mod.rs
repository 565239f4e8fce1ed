//! A task graph with two gates: nothing starts before its deps are closed, nothing closes before
//! its checks pass. The table below is the whole vocabulary, in the reference's order.

mod prompts;
mod tools;
pub mod view;
mod words;

use callboard_domain::policy::{Phase, Policy};

use crate::args::schema_of;
use crate::error::{STORE_DAMAGED, Voice};
use crate::front::Hints;
use crate::tool::{NoArguments, Tool, Toolset, handler};

/// In the project's own words for a status.
fn instructions(policy: &Policy) -> String {
    let initial = &policy.initial().name;
    let review = policy.review().map(|label| format!(" The task then goes to {}.", label.name));
    let done = policy.first_of(Phase::ClosedDone).map(|label| label.name.as_str());
    format!(
        "Callboard hands out tasks. Find work with list {{\"ready\": true, \"status\": \"{initial}\", \
         \"assignee\": \"\"}}, the most urgent first; begin a session on one task before you edit, with \
         worktree \"new\" for files of your own; send a heartbeat while you work, run its checks, and \
         finish with a summary for the reviewer.{} A task closes as {} only when its dependencies are \
         closed and its checks pass. update mends the title, deps and checks of a task you made.",
        review.unwrap_or_default(),
        done.unwrap_or_default(),
    )
}

pub static TOOLSET: Toolset = Toolset {
    name: "graph",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: "UNAVAILABLE",
        unavailable_hint: None,
        damaged: STORE_DAMAGED,
        canceled: "CANCELED",
        internal: "INTERNAL_ERROR",
    },
    instructions,
    prompts: Some(&prompts::PROMPTS),
    audit: None,
};

// The keys a client may rely on; replies hold more than fits in a small tool list.
const TASK: &[&str] = &["id", "status"];
const SESSION: &[&str] = &["id", "status"];

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("identity", "Who am I",
        "Your actor, client and project.",
        Hints::READ, schema_of::<NoArguments>, &["actor"], handler!(tools::identity)),
    Tool::new("list", "List tasks",
        "Tasks, oldest first. {\"ready\":true,\"status\":\"{initial}\"}: what can start now, urgent first.",
        Hints::READ, schema_of::<tools::List>, &["tasks", "next"], handler!(tools::list)),
    Tool::new("get", "Get task",
        "One task with body and history.",
        Hints::READ, schema_of::<tools::Get>, TASK, handler!(tools::get)),
    Tool::new("create", "Create task",
        "Adds a task; deps must exist.",
        Hints::WRITE, schema_of::<tools::Create>, TASK, handler!(tools::create)),
    Tool::new("claim", "Claim task",
        "Makes you the assignee.",
        Hints::WRITE_AGAIN, schema_of::<tools::Get>, TASK, handler!(tools::claim)),
    Tool { may_be_long: true, ..Tool::new("transition", "Move task",
        "Sets the status. Starting needs closed deps; closing runs the checks.",
        Hints::WRITE_OUTSIDE, schema_of::<tools::Transition>, TASK, handler!(tools::transition)) },
    Tool { may_be_long: true, ..Tool::new("run_checks", "Run checks",
        "Runs command checks.",
        Hints::WRITE_OUTSIDE, schema_of::<tools::RunChecks>, TASK, handler!(tools::run_checks)) },
    Tool::new("note", "Add note",
        "Adds a note to the history.",
        Hints::WRITE, schema_of::<tools::Note>, TASK, handler!(tools::note)),
    Tool { aliases: &[("task", "id")], ..Tool::new("begin", "Begin session",
        "Claims and starts a task. The same key returns the same session.",
        Hints::WRITE_AGAIN, schema_of::<tools::Begin>, SESSION, handler!(tools::begin)) },
    Tool::new("heartbeat", "Heartbeat",
        "Shows that you still work on it.",
        Hints::WRITE, schema_of::<tools::Heartbeat>, SESSION, handler!(tools::heartbeat)),
    Tool::new("finish", "Finish session",
        "Ends a session; the task goes to review.",
        Hints::WRITE_AGAIN, schema_of::<tools::Finish>, SESSION, handler!(tools::finish)),
    Tool::new("cancel", "Cancel session",
        "Ends a session without a result; releases the task.",
        Hints::WRITE_AGAIN, schema_of::<tools::Cancel>, SESSION, handler!(tools::cancel)),
    Tool::new("get_session", "Get session",
        "One session with its health.",
        Hints::READ, schema_of::<tools::GetSession>, SESSION, handler!(tools::get_session)),
    Tool::new("list_sessions", "List sessions",
        "Sessions, newest first.",
        Hints::READ, schema_of::<tools::ListSessions>, &["sessions", "next"], handler!(tools::list_sessions)),
    Tool::new("attest", "Attest manual check",
        "Says that a manual check passes.",
        Hints::WRITE_AGAIN, schema_of::<tools::Attest>, TASK, handler!(tools::attest)),
    Tool::new("update", "Update task",
        "Mends an open task you made.",
        Hints::WRITE_AGAIN, schema_of::<tools::Update>, TASK, handler!(tools::update)),
    Tool::new("release", "Release task",
        "Gives up your claim.",
        Hints::WRITE_AGAIN, schema_of::<tools::Get>, TASK, handler!(tools::release)),
];
