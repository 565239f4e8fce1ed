//! A kanban board for coding agents: tasks with a status and a mode, waits instead of polling, and
//! answers that say what to call next. The table is in the reference's order.

mod audit;
mod envelope;
mod plans;
mod projects;
mod settings;
mod tasks;
mod view;
mod words;

use callboard_domain::rights::Profile;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::tool::{NoArguments, Tool, Toolset, handler};
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
    Tool::new("propose_plan", "Propose plan",
        and_next!("Proposes tasks. Nothing is made of them before a person approves the plan."),
        Hints::WRITE, schema_of::<plans::Propose>,
        with_envelope!("status", "task_count", "todo_count", "tasks", "todos", "plan_id"),
        plans::PROPOSE_PLAN).for_profile(Profile::Planner),
    Tool::new("get_task", "Get task",
        "Reads one task.",
        Hints::READ, schema_of::<tasks::TaskArgument>,
        &["task_id", "title", "status", "runtime", "updated_at", "task_type"],
        handler!(tasks::get_task)).for_profile(Profile::Viewer),
    Tool::new("projects_list", "Projects list",
        "Lists projects, those opened last first; new tasks go to the open one.",
        Hints::READ, schema_of::<projects::List>, &["projects", "count"],
        handler!(projects::projects_list)).for_profile(Profile::Viewer),
    Tool::new("repos_list", "Repos list",
        "Lists the repositories of a project, the primary one first.",
        Hints::READ, schema_of::<projects::ProjectArgument>, &["repos", "count"],
        handler!(projects::repos_list)).for_profile(Profile::Viewer),
    Tool::new("audit_tail", "Audit tail",
        "Who did what, the newest first: every write of any toolset and every refused call of this one.",
        Hints::READ, schema_of::<audit::Tail>, &["events", "count", "next_cursor"],
        handler!(audit::audit_tail)).for_profile(Profile::Viewer),
    Tool::new("tasks_move", "Tasks move",
        and_next!("Moves a task to another column. Starts no agent."),
        Hints::WRITE, schema_of::<tasks::Move>, with_envelope!("task_id", "new_status"),
        answered!(tasks::tasks_move)).for_profile(Profile::Operator).on_task(),
    Tool::new("tasks_delete", "Tasks delete",
        and_next!("Deletes a task that nothing open depends on."),
        DESTRUCTIVE, schema_of::<tasks::TaskArgument>, with_envelope!("task_id"),
        answered!(tasks::tasks_delete)).for_profile(Profile::Maintainer).on_task(),
    Tool::new("projects_create", "Projects create",
        and_next!("Makes a project, with repositories if any are named. Opens it only if it is the first."),
        Hints::WRITE, schema_of::<projects::Create>,
        with_envelope!("project_id", "name", "description", "repo_count"),
        answered!(projects::projects_create)).for_profile(Profile::Maintainer),
    Tool::new("projects_open", "Projects open",
        and_next!("Makes a project the one that your new tasks go to."),
        Hints::WRITE, schema_of::<projects::ProjectArgument>, with_envelope!("project_id", "name"),
        answered!(projects::projects_open)).for_profile(Profile::Maintainer),
    Tool::new("settings_get", "Settings get",
        "Reads the board's settings as they hold now.",
        Hints::READ, schema_of::<NoArguments>, &["settings"],
        handler!(settings::settings_get)).for_profile(Profile::Maintainer),
    Tool { aliases: settings::ALIASES, ..Tool::new("settings_update", "Settings update",
        and_next!("Changes settings, all of those named or none, at once in every process."),
        Hints::WRITE, settings::input, with_envelope!("updated", "settings"),
        settings::SETTINGS_UPDATE).for_profile(Profile::Maintainer) },
];
