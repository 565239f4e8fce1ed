//! Prompts for the crew's tools, step by step, by the type of the calling agent.

use callboard_domain::rights::AgentType;

use crate::prompt::{Moment, Prompts};

pub(super) const PROMPTS: Prompts = Prompts { start_work, review_queue, plan, diagnose };

/// For a connection that would be refused by every tool of the crew.
const NO_TYPE: &str = "This connection has no agent type, so the crew's tools are closed to it. Ask for a \
    server started with --as-type, or to be added with `callboard agent add`.";

/// The caller's identity and its current work.
fn who(now: &Moment, kind: AgentType) -> String {
    let (id, kind) = (&now.actor, kind.as_str());
    match (now.task, now.epic) {
        (Some(task), _) => format!("You are {id}, a {kind} of this crew, on task {task}."),
        (None, Some(epic)) => format!("You are {id}, a {kind} of this crew, on epic {epic}."),
        (None, None) => format!("You are {id}, a {kind} of this crew, with nothing assigned yet."),
    }
}

fn start_work(now: &Moment) -> String {
    let Some(kind) = now.role else { return NO_TYPE.into() };
    let steps = match kind {
        AgentType::Worker => {
            "1. `mcp__agent__get_task` and `mcp__mail__list_inbox`: read what is wanted and what was \
             written to you. Without a task, wait for one.\n\
             2. `mcp__task__update_status` IN_PROGRESS, and work in the worktree that the task names.\n\
             3. Commit on its branch. `mcp__system__log_decision` for choices that others will ask about.\n\
             4. `mcp__task__update_status` REVIEW opens the pull request. When you cannot go on: BLOCKED \
             with a reason, and `mcp__mail__send` to your supervisor."
        }
        AgentType::Supervisor => {
            "1. `mcp__agent__get_epic` and `mcp__mail__list_inbox`: read what is wanted and what was \
             written to you.\n\
             2. `mcp__epic__list_tasks` shows the work; `mcp__epic__create_task` adds what is missing. \
             Workers get it by themselves.\n\
             3. `mcp__epic__get_review_queue`: read each change with `mcp__epic__get_diff`, then \
             `mcp__epic__approve_pr`, or send it back with `mcp__epic__request_changes`.\n\
             4. When every task is over, `mcp__epic__create_epic_pr`."
        }
        AgentType::Orchestrator => {
            "1. `mcp__agent__get_status` and `mcp__mail__list_inbox`: see where you are and what was \
             written to you.\n\
             2. `mcp__task__create` adds work to an epic, `mcp__task__assign` gives a task to a worker.\n\
             3. `mcp__mail__send` tells supervisors what changed; `mcp__system__log_decision` says why."
        }
    };
    format!("{}\n{steps}", who(now, kind))
}

fn review_queue(now: &Moment) -> String {
    let Some(kind) = now.role else { return NO_TYPE.into() };
    // A supervisor reviews its own epic alone; the others only look.
    let queue = match now.epic.filter(|_| kind == AgentType::Supervisor) {
        Some(epic) => now.queue_of(epic),
        None => now.queue(),
    };
    let queue = match queue {
        Ok(queue) => queue,
        Err(none) => return format!("{}\n{none}", who(now, kind)),
    };
    let steps = match kind {
        AgentType::Supervisor => {
            "For each, in the order of `mcp__epic__get_review_queue`: read the change with \
             `mcp__epic__get_diff` and whole files with `mcp__epic__read_file`, then \
             `mcp__epic__approve_pr`, or `mcp__epic__request_changes` with feedback that says what is \
             missing."
        }
        AgentType::Orchestrator => {
            "The supervisor of each epic judges them. `mcp__mail__send` reminds one of what waits."
        }
        AgentType::Worker => {
            "The supervisor of each epic judges them. If your own task is among them, read \
             `mcp__mail__list_inbox` for feedback and go on with `mcp__task__update_status`."
        }
    };
    format!("{}\n{queue}\n{steps}", who(now, kind))
}

fn plan(now: &Moment) -> String {
    let Some(kind) = now.role else { return NO_TYPE.into() };
    let steps = match kind {
        AgentType::Supervisor => {
            "1. `mcp__agent__get_epic` and `mcp__epic__list_tasks`: what the epic wants and what is there.\n\
             2. `mcp__epic__create_task` for each part that one worker can finish on a branch of its own.\n\
             3. `mcp__system__log_decision` says why it is split this way."
        }
        AgentType::Orchestrator => {
            "1. `mcp__agent__get_epic` shows the epic.\n\
             2. `mcp__task__create` for each part that one worker can finish on a branch of its own.\n\
             3. `mcp__system__log_decision` says why it is split this way."
        }
        AgentType::Worker => {
            "Workers make no tasks. `mcp__mail__send` your proposal to your supervisor, and go on with \
             your own task."
        }
    };
    format!("{} Plan work. {}\n{steps}", who(now, kind), now.goal_words())
}

fn diagnose(now: &Moment) -> String {
    let Some(kind) = now.role else { return NO_TYPE.into() };
    let looks = match kind {
        AgentType::Supervisor => {
            "1. `mcp__epic__list_tasks` shows each task's state and worker, `mcp__epic__get_review_queue` \
             what waits for you.\n\
             2. `mcp__mail__list_inbox` for what workers reported."
        }
        AgentType::Orchestrator => {
            "1. `mcp__agent__get_status` and `mcp__agent__get_epic` show where you are.\n\
             2. `mcp__mail__list_inbox` for what supervisors reported."
        }
        AgentType::Worker => {
            "1. `mcp__agent__get_task` shows your task and its state.\n\
             2. `mcp__mail__list_inbox` for feedback and requests to rebase."
        }
    };
    format!(
        "{} Find out why work does not move.\n{}\n{looks}\n\
         3. Name the cause; `mcp__mail__send` it to the agent that can mend it, or to people with \
         toHuman true.",
        who(now, kind),
        now.findings()
    )
}
