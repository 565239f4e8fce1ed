//! A kanban board for coding agents: tasks with a status and a mode, waits instead of polling, and
//! answers that say what to call next. The table is in the reference's order.

mod envelope;
mod tasks;
mod view;
mod words;

use callboard_domain::rights::Profile;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::tool::{Tool, Toolset, handler};
use envelope::answered;

pub static TOOLSET: Toolset = Toolset {
    name: "board",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: "DISCONNECTED",
        unavailable_hint: Some("start or restart the core, then retry"),
        canceled: "CANCELED",
        internal: "INTERNAL_ERROR",
    },
    instructions: "Callboard keeps a kanban board. status is BACKLOG, IN_PROGRESS, REVIEW or DONE; \
        task_type says whether an agent runs it (AUTO) or works on it with a person (PAIR). Wait \
        with tasks_wait instead of polling. When an answer names next_tool and next_arguments, call \
        that tool once with them before any retry.",
    audit: Some(envelope::said_no),
};

/// What the answer of every tool with the envelope ends with.
macro_rules! with_envelope {
    ($($key:literal),*) => {
        &[$($key,)* "success", "message", "code", "hint", "next_tool", "next_arguments"]
    };
}

/// A description that ends with the rule for going on.
macro_rules! and_next {
    ($text:literal) => {
        concat!($text, " If next_tool and next_arguments are set, call that once before any retry.")
    };
}

const DESTRUCTIVE: Hints = Hints { destructive: true, ..Hints::WRITE };

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("get_task", "Get task",
        "Reads one task.",
        Hints::READ, schema_of::<tasks::TaskArgument>,
        &["task_id", "title", "status", "runtime", "updated_at", "task_type"],
        handler!(tasks::get_task)).for_profile(Profile::Viewer),
    Tool::new("tasks_move", "Tasks move",
        and_next!("Moves a task to another column. Starts no agent."),
        Hints::WRITE, schema_of::<tasks::Move>, with_envelope!("task_id", "new_status"),
        answered!(tasks::tasks_move)).for_profile(Profile::Operator).on_task(),
    Tool::new("tasks_delete", "Tasks delete",
        and_next!("Deletes a task that nothing open depends on."),
        DESTRUCTIVE, schema_of::<tasks::TaskArgument>, with_envelope!("task_id"),
        answered!(tasks::tasks_delete)).for_profile(Profile::Maintainer).on_task(),
];
