//! A queue of work under leases: ask what can start, take it, keep it alive, hand it over; the
//! task's contract decides whether it is done. The table is in the reference's order, our own
//! tools behind it.

mod tools;
mod view;
mod words;

use callboard_engine::context::Scope;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::tool::{Run, Tool, Toolset, handler};

pub static TOOLSET: Toolset = Toolset {
    name: "execution",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: "system.unavailable",
        canceled: "system.unavailable",
        internal: "system.internal",
    },
};

const READ: Hints =
    Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
const WRITE: Hints =
    Hints { read_only: false, destructive: false, idempotent: false, open_world: false };
const WRITE_AGAIN: Hints = Hints { idempotent: true, ..WRITE };
const HANDS_OVER: Hints = Hints { open_world: true, ..WRITE };

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
    tool("get_next_actionable", "Get next actionable tasks",
        "Ready tasks, most urgent first, each with what was learned about it.",
        READ, schema_of::<tools::NextActionable>, &["tasks"], handler!(tools::get_next_actionable)),
    tool("claim_task", "Claim task",
        "Takes a ready task under a lease. Claiming again returns your lease.",
        WRITE_AGAIN, schema_of::<tools::Claim>,
        &["taskId", "state", "holder", "fence", "leaseExpiresAt"], handler!(tools::claim_task)),
    tool("update_task_status", "Update task status",
        "in_progress starts the work and is the heartbeat; ready gives it back; cancelled gives it up.",
        WRITE, schema_of::<tools::Update>,
        &["taskId", "state", "previousState", "leaseExpiresAt"], handler!(tools::update_task_status)),
    tool("complete_task", "Complete task",
        "Hands over the output; the task's contract decides whether it is done.",
        HANDS_OVER, schema_of::<tools::Complete>,
        &["taskId", "state", "verificationStatus", "verificationEtaSec"],
        handler!(tools::complete_task)),
    tool("add_task", "Add task",
        "Adds a task; what it depends on must exist.",
        WRITE, schema_of::<tools::Add>, &["taskId", "state", "created"], handler!(tools::add_task)),
    tool("set_dependency", "Set dependency",
        "Makes a task wait for another, or no longer.",
        WRITE_AGAIN, schema_of::<tools::SetDependency>, &["taskId", "dependsOn", "state", "changed"],
        handler!(tools::set_dependency)),
    tool("comment_on_task", "Comment on task",
        "Says something about a task. An open blocker keeps it from being claimed.",
        WRITE, schema_of::<tools::Comment>, &["commentId", "taskId", "kind", "open"],
        handler!(tools::comment_on_task)),
    tool("resolve_comment", "Resolve comment",
        "Closes a comment; only its author or a human may.",
        WRITE_AGAIN, schema_of::<tools::Resolve>, &["commentId", "taskId", "open"],
        handler!(tools::resolve_comment)),
];
