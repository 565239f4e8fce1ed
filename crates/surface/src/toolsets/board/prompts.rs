//! Prompts for the board's tools, step by step, within the caller's profile.

use crate::prompt::{Moment, NOTHING_READY, Prompts};

pub(super) const PROMPTS: Prompts = Prompts { start_work, review_queue, plan, diagnose };

const ONLY_READS: &str = "This connection may only look: `tasks_list`, `get_task` and `get_context` show \
    the board. Say what you see and stop.";

fn start_work(now: &Moment) -> String {
    // A caller that cannot hand work over should not begin any.
    if !now.may("request_review") {
        return ONLY_READS.into();
    }
    let Some(task) = now.task_or_next() else { return NOTHING_READY.into() };
    format!(
        "Work on task {task} of this callboard as {actor}.\n\
         1. `get_context` {{\"task_id\": \"{task}\"}}: read the text, the criteria, the notes and where \
         to work.\n\
         2. Work and commit in workspace_path. If there is none, `sessions_create` opens the worktree of \
         a PAIR task; work in its worktree_path. An AUTO task goes to an agent of its own instead: \
         `jobs_submit` with action start_agent, `jobs_wait`, then `tasks_wait` until REVIEW, and you \
         are done.\n\
         3. `update_scratchpad` with what the next one should know.\n\
         4. `request_review` with a summary a reviewer can act on.",
        actor = now.actor
    )
}

fn review_queue(now: &Moment) -> String {
    let queue = match now.queue() {
        Ok(queue) => queue,
        Err(none) => return none,
    };
    // Below the profile of a reviewer the prompt must not name the tool: the call would be refused.
    let judged = match now.may("review") {
        true => {
            "then `review` it with action approve, and merge it; or reject it with feedback that says \
             what is missing."
        }
        false => {
            "and say what you found. Your profile does not approve or reject; an operator does, or a \
             person with `callboard approve ID` at a terminal."
        }
    };
    format!(
        "{queue}\n\
         For each: `get_task` with include_review and include_logs true, look at the change in its \
         workspace (`get_context`), {judged}"
    )
}

fn plan(now: &Moment) -> String {
    if !now.may("propose_plan") {
        return ONLY_READS.into();
    }
    let made = match now.may("tasks_create") {
        true => " `tasks_create` makes a single task at once.",
        false => "",
    };
    format!(
        "Plan work on this callboard. {goal}\n\
         1. `tasks_list` shows what is there already; do not plan it twice.\n\
         2. Split the goal into tasks with a title, a description and acceptance criteria; AUTO where \
         an agent can do it alone, PAIR where a person must be there.\n\
         3. `propose_plan` with all of them. A person approves it before anything is made.{made}",
        goal = now.goal_words()
    )
}

fn diagnose(now: &Moment) -> String {
    let looks = match now.task {
        Some(task) => format!(
            "1. `get_task` {{\"task_id\": \"{task}\", \"include_logs\": true, \"include_review\": true, \
             \"include_scratchpad\": true}}.\n\
             2. `audit_tail` shows who did what to it last."
        ),
        None => "1. `tasks_list` shows each column; runtime says which tasks an agent works on.\n\
                 2. `audit_tail` shows who did what last, and which calls were refused."
            .into(),
    };
    let ways = match now.may("jobs_submit") {
        true => {
            "3. Name the cause and the way on: open dependencies come first; a run that hangs is ended \
             by `jobs_submit` with action stop_agent and started again.\n\
             4. Write the cause down with `update_scratchpad`. Change nothing else without being asked."
        }
        false => "3. Name the cause and the way on. This connection may only look.",
    };
    format!("Find out why work does not move.\n{}\n{looks}\n{ways}", now.findings())
}
