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
use crate::hooks::Hooks;
use crate::tool::{NoArguments, Tool, Toolset, handler};

/// The instructions, in the project's own words for a status.
fn instructions(policy: &Policy) -> String {
    // A project may rename every status, and an agent can only use words that the server knows.
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
    // A refused call of this toolset leaves a line in the server's log alone.
    audit: None,
    hooks: Hooks::NONE,
};

// The list has 8 kB for 17 tools, too little for all keys of a task and their types in each. A tool names only the keys
// that its call is made for.
#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("identity", "Who am I",
        "Your actor and project.",
        Hints::READ, schema_of::<NoArguments>, "actor:string", handler!(tools::identity)),
    Tool::new("list", "List tasks",
        "Tasks, oldest first. ready + status {initial}: what can start, urgent first.",
        Hints::READ, schema_of::<tools::TaskListRequest>, "tasks:array next:string|null", handler!(tools::list)),
    Tool::new("get", "Get task",
        "One task with body and history.",
        Hints::READ, schema_of::<tools::TaskIdRequest>, "status:string", handler!(tools::get)),
    Tool::new("create", "Create task",
        "Adds a task; deps must exist.",
        Hints::WRITE, schema_of::<tools::TaskCreateRequest>, "id:string", handler!(tools::create)),
    Tool::new("claim", "Claim task",
        "Makes you the assignee.",
        Hints::WRITE_AGAIN, schema_of::<tools::TaskIdRequest>, "assignee:string", handler!(tools::claim)),
    Tool { may_be_long: true, ..Tool::new("transition", "Move task",
        "Sets the status. Starting needs closed deps; closing runs the checks.",
        Hints::WRITE_OUTSIDE, schema_of::<tools::Transition>, "status:string", handler!(tools::transition)) },
    Tool { may_be_long: true, ..Tool::new("run_checks", "Run checks",
        "Runs command checks.",
        Hints::WRITE_OUTSIDE, schema_of::<tools::RunChecks>, "checks:array", handler!(tools::run_checks)) },
    Tool::new("note", "Add note",
        "Adds to the history.",
        Hints::WRITE, schema_of::<tools::Note>, "provenance:array", handler!(tools::note)),
    Tool { aliases: &[("task", "id")], ..Tool::new("begin", "Begin session",
        "Claims and starts a task; same key, same session.",
        Hints::WRITE_AGAIN, schema_of::<tools::Begin>, "id:string", handler!(tools::begin)) },
    Tool::new("heartbeat", "Heartbeat",
        "Says that you still work.",
        Hints::WRITE, schema_of::<tools::Heartbeat>, "health:string", handler!(tools::heartbeat)),
    Tool::new("finish", "Finish session",
        "Ends a session; the task goes to review.",
        Hints::WRITE_AGAIN, schema_of::<tools::Finish>, "status:string", handler!(tools::finish)),
    Tool::new("cancel", "Cancel session",
        "Ends a session without a result; frees the task.",
        Hints::WRITE_AGAIN, schema_of::<tools::Cancel>, "status:string", handler!(tools::cancel)),
    Tool::new("get_session", "Get session",
        "One session.",
        Hints::READ, schema_of::<tools::GetSession>, "health:string", handler!(tools::get_session)),
    Tool::new("list_sessions", "List sessions",
        "Sessions, newest first.",
        Hints::READ, schema_of::<tools::ListSessions>, "sessions:array next:string|null", handler!(tools::list_sessions)),
    Tool::new("attest", "Attest check",
        "Judges a manual check.",
        Hints::WRITE_AGAIN, schema_of::<tools::Attest>, "checks:array", handler!(tools::attest)),
    Tool::new("update", "Update task",
        "Mends an open task you made.",
        Hints::WRITE_AGAIN, schema_of::<tools::TaskUpdateRequest>, "checks:array", handler!(tools::update)),
    Tool::new("release", "Release task",
        "Gives up your claim.",
        Hints::WRITE_AGAIN, schema_of::<tools::TaskIdRequest>, "status:string", handler!(tools::release)),
];
