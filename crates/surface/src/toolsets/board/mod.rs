//! A kanban board for coding agents: tasks with a status and a mode, waits instead of polling, and answers that name
//! the next call. The table is in the reference's order.

mod audit;
mod edit;
mod envelope;
mod job_view;
mod jobs;
mod plans;
mod projects;
mod prompts;
mod review;
mod sessions;
mod settings;
mod tasks;
mod ticket;
mod view;
mod wait;
mod words;

use callboard_domain::board::audit::REVIEW_ACTIONS;
use callboard_domain::rights::{PersonVerb, Profile};

use crate::args::schema_of;
use crate::error::{STORE_DAMAGED, Voice};
use crate::front::Hints;
use crate::hooks::Hooks;
use crate::tool::{NoArguments, Tool, Toolset, handler};
use envelope::answered;

const INSTRUCTIONS: &str = "Callboard keeps a kanban board. status is BACKLOG, IN_PROGRESS, REVIEW or DONE; \
    task_type says whether an agent runs it (AUTO) or works on it with a person (PAIR). Wait \
    with tasks_wait instead of polling. A client that ends a call after a short time, such as 60 seconds, gives \
    window_seconds below that to tasks_wait and jobs_wait; on WAIT_TIMEOUT it calls again with cursor and \
    seconds_left. When an answer names next_tool and next_arguments, call \
    that tool once with them before any retry.";

pub static TOOLSET: Toolset = Toolset {
    name: "board",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        // The reference's client talks to a "core", and reports a lost one by this code.
        unavailable: "DISCONNECTED",
        unavailable_hint: Some("start or restart the core, then retry"),
        damaged: STORE_DAMAGED,
        canceled: "CANCELED",
        internal: "INTERNAL_ERROR",
    },
    instructions: |_| INSTRUCTIONS.into(),
    prompts: Some(&prompts::PROMPTS),
    // Refusals are answers here, so the audit has to look for them in the answer.
    audit: Some(envelope::said_no),
    hooks: HOOKS,
};

/// Jobs are tickets for clients that know tasks of the protocol; `started` says which calls begin one.
const HOOKS: Hooks =
    Hooks { tickets: Some(&ticket::JobTickets), started: Some(ticket::started), ..Hooks::NONE };

/// The keys of a tool, and those that the answer of every tool with the envelope ends with.
macro_rules! with_envelope {
    ($keys:expr) => {
        concat!(
            $keys,
            " success:boolean message:string code:string|null hint:string|null next_tool:string|null ",
            "next_arguments:object|null"
        )
    };
}

/// A description that ends with the rule for going on.
macro_rules! and_next {
    ($text:literal) => {
        concat!($text, " If next_tool and next_arguments are set, call that once before any retry.")
    };
}

/// An answer about a job. A refused call has the same keys; unknown values are null.
macro_rules! job {
    ($more:literal) => {
        with_envelope!(concat!(
            "job_id:string|null task_id:string|null action:string|null status:string|null timed_out:boolean|null ",
            "timeout_metadata:object|null created_at:string|null updated_at:string|null result:object|null ",
            "runtime:object|null current_task_type:string|null",
            $more
        ))
    };
}

/// Clients may ask a person before they call a tool with this hint.
/// Removes something that cannot be brought back.
const DESTRUCTIVE: Hints = Hints { destructive: true, ..Hints::WRITE };

/// Also acts outside the board: a merge changes a repository.
const DESTRUCTIVE_OUTSIDE: Hints = Hints { open_world: true, ..DESTRUCTIVE };

#[rustfmt::skip]
// `on_task` closes a tool to callers that work on another task; `long` marks one that may take longer than a client
// should wait.
// `for_profile` is the least profile that may call the tool.
static TOOLS: &[Tool] = &[
    Tool::new("propose_plan", "Propose plan",
        and_next!("Proposes tasks. No task is created before a person approves the plan."),
        Hints::WRITE, schema_of::<plans::Propose>,
        with_envelope!("status:string task_count:integer|null todo_count:integer|null tasks:[object]|null \
            todos:[object]|null plan_id:string|null"),
        plans::PROPOSE_PLAN).for_profile(Profile::Planner),
    Tool::new("get_task", "Get task",
        "Reads one task, with its notes, logs or review if wanted.",
        Hints::READ, schema_of::<tasks::TaskGetRequest>,
        "task_id:string number:integer title:string status:string description:string acceptance_criteria:[string] \
            scratchpad:string|null review_feedback:string|null logs:[object]|null runtime:object updated_at:string \
            priority:string task_type:string project_id:string created_at:string parent_id:string|null \
            base_branch:string|null agent_backend:string|null terminal_backend:string|null closed_as:string|null \
            review:object|null scratchpad_truncated:boolean|null logs_truncated:boolean|null",
        handler!(tasks::get_task)).for_profile(Profile::Viewer),
    Tool::new("tasks_list", "Tasks list",
        "Lists tasks by column, priority and age, all or those with the words of query. Paged: while \
            has_more, go on with offset = next_offset. Fields that are null, false or empty are left out.",
        Hints::READ, schema_of::<tasks::TasksListRequest>, "tasks:[object] count:integer total:integer has_more:boolean next_offset:integer|null",
        handler!(tasks::tasks_list)).for_profile(Profile::Viewer),
    Tool::new("tasks_wait", "Tasks wait",
        "Waits until a task (or any of task_ids) changes its status, or gets to one of wait_for_status. Use it instead of polling. If your client gives up after 60 s, set window_seconds to 50 and call again on WAIT_TIMEOUT.",
        Hints::READ, schema_of::<wait::Wait>,
        "changed:boolean timed_out:boolean task_id:string|null previous_status:string|null current_status:string|null \
            changed_at:string|null task:object|null code:string message:string cursor?:string|null \
            seconds_left?:number tasks?:[object]",
        wait::TASKS_WAIT).for_profile(Profile::Viewer).long(),
    Tool::new("projects_list", "Projects list",
        "Lists projects, those opened last first; new tasks go to the open one. Paged: while has_more, \
            go on with offset = next_offset.",
        Hints::READ, schema_of::<projects::ProjectsListRequest>,
        "projects:[object] count:integer has_more:boolean next_offset:integer|null",
        handler!(projects::projects_list)).for_profile(Profile::Viewer),
    Tool::new("repos_list", "Repos list",
        "Lists all repositories of a project, the primary one first.",
        Hints::READ, schema_of::<projects::ProjectArgument>, "repos:[object] count:integer",
        handler!(projects::repos_list)).for_profile(Profile::Viewer),
    Tool::new("audit_tail", "Audit tail",
        "Who did what, the newest first: every write of any toolset and every refused call of this one. \
            Paged: go on with cursor = next_cursor until that is null.",
        Hints::READ, schema_of::<audit::Tail>, "events:[object] count:integer next_cursor:string|null",
        handler!(audit::audit_tail)).for_profile(Profile::Viewer),
    Tool::new("get_context", "Get context",
        "What is needed to work on a task: text, notes, workspace, repos, tasks it mentions.",
        Hints::READ, schema_of::<tasks::TaskArgument>,
        "task_id:string number:integer title:string description:string acceptance_criteria:[string] \
            task_type:string scratchpad:string \
            workspace_id:string|null workspace_branch:string|null workspace_path:string|null \
            working_dir:string|null repos:[object] repo_count:integer linked_tasks:[object] runtime:object",
        handler!(tasks::get_context)).for_profile(Profile::Viewer),
    Tool::new("update_scratchpad", "Update scratchpad",
        and_next!("Appends to a task's notes."),
        Hints::WRITE, schema_of::<edit::Scratchpad>, with_envelope!("task_id:string|null"),
        answered!(edit::update_scratchpad)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("tasks_create", "Tasks create",
        and_next!("Creates a task, or all of tasks or none. Starts no agent."),
        Hints::WRITE, schema_of::<edit::TasksCreateRequest>,
        with_envelope!("task_id:string|null title:string|null status:string|null tasks?:[object]"),
        answered!(edit::tasks_create)).for_profile(Profile::Operator),
    Tool::new("tasks_update", "Tasks update",
        and_next!("Changes fields of a task, all or nothing; an empty text clears a field."),
        Hints::WRITE, schema_of::<edit::TasksUpdateRequest>,
        with_envelope!("task_id:string|null current_task_type:string|null checks?:[object]"),
        answered!(edit::tasks_update)).for_profile(PersonVerb::Edit.least_profile()).on_task().long(),
    Tool::new("tasks_move", "Tasks move",
        and_next!("Moves a task to another column. Starts no agent."),
        Hints::WRITE, schema_of::<edit::Move>,
        with_envelope!("task_id:string|null new_status:string|null checks?:[object]"),
        answered!(edit::tasks_move)).for_profile(PersonVerb::Edit.least_profile()).on_task().long(),
    Tool::new("tasks_delete", "Tasks delete",
        and_next!("Deletes a task that nothing open depends on."),
        DESTRUCTIVE, schema_of::<tasks::TaskArgument>, with_envelope!("task_id:string|null"),
        answered!(edit::tasks_delete)).for_profile(PersonVerb::Remove.least_profile()).on_task(),
    Tool::new("projects_create", "Projects create",
        and_next!("Makes a project, with repositories if any are named. Opens it only if it is the first."),
        Hints::WRITE, schema_of::<projects::ProjectsCreateRequest>,
        with_envelope!("project_id:string|null name:string|null description:string|null repo_count:integer|null"),
        answered!(projects::projects_create)).for_profile(Profile::Maintainer),
    Tool::new("projects_open", "Projects open",
        and_next!("Makes a project the one that your new tasks go to."),
        Hints::WRITE, schema_of::<projects::ProjectArgument>,
        with_envelope!("project_id:string|null name:string|null"),
        answered!(projects::projects_open)).for_profile(Profile::Maintainer),
    Tool::new("jobs_list_actions", "Jobs list actions",
        "Lists the actions that jobs_submit takes.",
        Hints::READ, schema_of::<NoArguments>, "actions:[string]",
        handler!(jobs::jobs_list_actions)).for_profile(Profile::PairWorker),
    Tool::new(ticket::SUBMIT, "Jobs submit",
        and_next!("Starts an agent on an AUTO task, or stops it. Answers at once; confirm with jobs_wait."),
        Hints::WRITE_OUTSIDE, schema_of::<jobs::Submit>, job!(""),
        answered!(jobs::jobs_submit)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("jobs_get", "Jobs get",
        and_next!("Reports the state and the result of a job."),
        Hints::READ, schema_of::<jobs::JobArgument>, job!(""),
        answered!(jobs::jobs_get)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("jobs_wait", "Jobs wait",
        and_next!("Waits until a job is decided: the agent runs, is stopped, or did not start. If your client gives up after 60 s, set window_seconds to 50."),
        Hints::READ, schema_of::<jobs::Wait>, job!(" cursor?:string seconds_left?:number"),
        jobs::JOBS_WAIT).for_profile(Profile::PairWorker).on_task().long(),
    Tool::new("jobs_events", "Jobs events",
        "What happened to a job, oldest first. Paged: while has_more, go on with offset = next_offset.",
        Hints::READ, schema_of::<jobs::Events>,
        "job_id:string task_id:string events:[object] total_events:integer returned_events:integer offset:integer \
            limit:integer has_more:boolean next_offset:integer|null",
        handler!(jobs::jobs_events)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("jobs_cancel", "Jobs cancel",
        and_next!("Cancels a job before it is decided. Does not stop a running agent."),
        Hints::WRITE, schema_of::<jobs::JobArgument>, job!(""),
        answered!(jobs::jobs_cancel)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("sessions_create", "Sessions create",
        and_next!("Opens a session on a PAIR task in a worktree of its own: a terminal, or an editor's command."),
        Hints::WRITE_OUTSIDE, schema_of::<sessions::SessionsCreateRequest>,
        with_envelope!("task_id:string|null session_name:string|null backend:string|null already_exists:boolean|null \
            worktree_path:string|null prompt_path:string|null primary_command:string|null commands:[string]|null \
            links:object|null instructions:string|null next_step:string|null current_task_type:string|null"),
        answered!(sessions::sessions_create)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("sessions_exists", "Sessions exists",
        "Says whether a task's session is open, and where.",
        Hints::READ, schema_of::<tasks::TaskArgument>,
        "task_id:string exists:boolean session_name:string backend:string|null worktree_path:string|null \
            prompt_path:string|null",
        handler!(sessions::sessions_exists)).for_profile(Profile::PairWorker),
    Tool::new("sessions_kill", "Sessions kill",
        and_next!("Ends a task's session with every process in it. Worktree and status stay."),
        Hints::WRITE, schema_of::<tasks::TaskArgument>, with_envelope!("task_id:string|null"),
        answered!(sessions::sessions_kill)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("request_review", "Request review",
        and_next!("Says what was done and moves the task to REVIEW."),
        Hints::WRITE, schema_of::<review::Request>, with_envelope!("status:string"),
        answered!(review::request_review)).for_profile(Profile::PairWorker).on_task(),
    Tool::new("review", "Review",
        and_next!("Approves or rejects a task in REVIEW; merge and rebase its branch. preview changes nothing: it says \
            whether a merge would conflict, where, and how far the branch is behind."),
        DESTRUCTIVE_OUTSIDE, schema_of::<review::Review>,
        with_envelope!("task_id:string|null new_status:string|null conflict_files:[string] merge_commit:string|null \
            pushed:boolean|null checks:[object] merges_cleanly?:boolean|null commits_behind?:integer|null \
            has_uncommitted_changes?:boolean|null settings_files?:[string]"),
        answered!(review::review)).for_profile(Profile::Operator).on_task().long()
        .with_actions(&REVIEW_ACTIONS),
    Tool::new("settings_get", "Settings get",
        "Reads the board's settings as they hold now.",
        Hints::READ, schema_of::<NoArguments>, "settings:object",
        handler!(settings::settings_get)).for_profile(Profile::Maintainer),
    Tool { aliases: settings::ALIASES, ..Tool::new("settings_update", "Settings update",
        and_next!("Changes settings, all of those named or none, at once in every process."),
        Hints::WRITE, settings::input, with_envelope!("updated:object|null settings:object|null"),
        settings::SETTINGS_UPDATE).for_profile(Profile::Maintainer) },
];

#[cfg(test)]
mod tests {
    use callboard_engine::EngineError;

    use super::*;
    use crate::error::{Speaker, render};

    #[test]
    fn a_store_that_is_away_is_a_core_that_is_not_there() {
        let speaker = Speaker { voice: &TOOLSET.voice, tool: "tasks_list" };
        let body = render(&EngineError::Unavailable("the disk is full".into()), speaker);
        assert_eq!(body["code"], "DISCONNECTED");
        assert_eq!(body["hint"], "start or restart the core, then retry");
        assert_eq!(body["retryable"], true);
    }

    #[test]
    fn tools_that_keep_to_a_task_name_one() {
        for tool in TOOLS.iter().filter(|tool| tool.on_task) {
            let schema = (tool.input)();
            assert!(schema["properties"].get("task_id").is_some(), "{}", tool.name);
        }
    }
}
