//! A task graph with two gates: nothing starts before its deps are closed, nothing closes before
//! its checks pass. The table below is the whole vocabulary, in the reference's order.

mod tools;
pub mod view;
mod words;

use callboard_engine::context::Scope;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::tool::{NoArguments, Run, Tool, Toolset, handler};

pub static TOOLSET: Toolset = Toolset {
    name: "graph",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: "UNAVAILABLE",
        canceled: "CANCELED",
        internal: "INTERNAL_ERROR",
    },
};

// The keys a client may rely on; replies hold more than fits in a small tool list.
const TASK: &[&str] = &["id", "title", "status", "assignee", "ready"];
const SESSION: &[&str] = &["id", "task", "status", "health"];

const READ: Hints =
    Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
const WRITE: Hints =
    Hints { read_only: false, destructive: false, idempotent: false, open_world: false };
const WRITE_AGAIN: Hints = Hints { idempotent: true, ..WRITE };
const RUNS: Hints = Hints { open_world: true, ..WRITE };

const fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    hints: Hints,
    input: fn() -> serde_json::Map<String, serde_json::Value>,
    output: &'static [&'static str],
    run: Run,
) -> Tool {
    let scope = if hints.read_only { Scope::TasksRead } else { Scope::TasksWrite };
    Tool { name, title, description, scope, hints, aliases: &[], input, output, run }
}

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    tool("identity", "Who am I",
        "Your actor, client and project.",
        READ, schema_of::<NoArguments>, &["actor", "client", "version"], handler!(tools::identity)),
    tool("list", "List tasks",
        "Tasks, oldest first. {\"ready\":true,\"status\":\"backlog\"}: what can start now.",
        READ, schema_of::<tools::List>, &["tasks", "next"], handler!(tools::list)),
    tool("get", "Get task",
        "One task with body and history.",
        READ, schema_of::<tools::Get>, TASK, handler!(tools::get)),
    tool("create", "Create task",
        "Adds a task; deps must exist.",
        WRITE, schema_of::<tools::Create>, TASK, handler!(tools::create)),
    tool("claim", "Claim task",
        "Makes you the assignee.",
        WRITE_AGAIN, schema_of::<tools::Get>, TASK, handler!(tools::claim)),
    tool("transition", "Move task",
        "Sets the status. Starting needs closed deps; closing runs the checks.",
        RUNS, schema_of::<tools::Transition>, TASK, handler!(tools::transition)),
    tool("run_checks", "Run checks",
        "Runs command checks and records results.",
        RUNS, schema_of::<tools::RunChecks>, TASK, handler!(tools::run_checks)),
    tool("note", "Add note",
        "Adds a note to the history.",
        WRITE, schema_of::<tools::Note>, TASK, handler!(tools::note)),
    Tool { aliases: &[("task", "id")], ..tool("begin", "Begin session",
        "Claims and starts a task. The same key returns the same session.",
        WRITE_AGAIN, schema_of::<tools::Begin>, SESSION, handler!(tools::begin)) },
    tool("heartbeat", "Heartbeat",
        "Shows that you still work on it.",
        WRITE, schema_of::<tools::Heartbeat>, SESSION, handler!(tools::heartbeat)),
    tool("finish", "Finish session",
        "Ends a session; the task goes to review.",
        WRITE_AGAIN, schema_of::<tools::Finish>, SESSION, handler!(tools::finish)),
    tool("cancel", "Cancel session",
        "Ends a session without a result; releases the task.",
        WRITE_AGAIN, schema_of::<tools::Cancel>, SESSION, handler!(tools::cancel)),
    tool("get_session", "Get session",
        "One session with its health.",
        READ, schema_of::<tools::GetSession>, SESSION, handler!(tools::get_session)),
    tool("list_sessions", "List sessions",
        "Sessions, newest first.",
        READ, schema_of::<tools::ListSessions>, &["sessions", "next"], handler!(tools::list_sessions)),
    tool("attest", "Attest manual check",
        "Says that a manual check passes.",
        WRITE_AGAIN, schema_of::<tools::Attest>, TASK, handler!(tools::attest)),
    tool("release", "Release task",
        "Gives up your claim.",
        WRITE_AGAIN, schema_of::<tools::Get>, TASK, handler!(tools::release)),
];
