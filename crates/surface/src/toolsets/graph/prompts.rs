//! Prompts for graph's tools, step by step.

use crate::prompt::{Moment, NOTHING_READY, Prompts};

pub(super) const PROMPTS: Prompts = Prompts { start_work, review_queue, plan, diagnose };

const ONLY_READS: &str = "This connection may only read: `list` and `get` show the tasks. Say what you \
    see and stop.";

fn start_work(now: &Moment) -> String {
    if !now.may("begin") {
        return ONLY_READS.into();
    }
    let Some(task) = now.task_or_next() else { return NOTHING_READY.into() };
    let taken = match now.bound {
        Some(_) => "If it is taken, say so and stop.".to_owned(),
        None => format!(
            "If it is taken, `list` {{\"ready\": true, \"status\": \"{}\", \"assignee\": \"\"}} and \
             take the first.",
            now.initial
        ),
    };
    // Without a label for review, `finish` leaves the task where it is.
    let after = match &now.review_label {
        Some(label) => format!("The task goes to {label}."),
        None => "The task stays open.".into(),
    };
    format!(
        "Work on task {task} of this callboard as {actor}.\n\
         1. `get` it and read body, deps, checks and notes.\n\
         2. `begin` it with expected_actor \"{actor}\", a fresh idempotency_key and worktree \"new\"; \
         work in the folder that the answer names. {taken}\n\
         3. Do the work. `heartbeat` at least every {beat} seconds with a line of progress; stop if \
         the session is terminal.\n\
         4. `run_checks` until every command check passes.\n\
         5. `finish` the session with a summary a reviewer can act on. {after} Do not close the task \
         yourself unless you were asked to.",
        actor = now.actor,
        beat = now.heartbeat_s,
    )
}

fn review_queue(now: &Moment) -> String {
    let queue = match now.queue() {
        Ok(queue) => queue,
        Err(none) => return none,
    };
    let judged = match now.may("transition") {
        true => format!(
            "`run_checks`, `attest` manual checks you can vouch for, then `transition` it to {}; or \
             `note` what is missing and `transition` it back to work.",
            now.done
        ),
        false => "and say what you found. This connection may only read.".into(),
    };
    format!(
        "{queue}\n\
         For each: `get` it, read the summary of its session (`get_session`), look at the change, \
         {judged}"
    )
}

fn plan(now: &Moment) -> String {
    if !now.may("create") {
        return ONLY_READS.into();
    }
    format!(
        "Plan work on this callboard. {goal}\n\
         1. `list` what is there already; do not plan it twice.\n\
         2. Split the goal into tasks that one agent can finish and one reviewer can judge.\n\
         3. `create` them in the order of their dependencies. The body says what is wanted and how it \
         is known to be done; deps name the ids that come first; checks hold a command where one can \
         decide, else a manual one.\n\
         4. `update` mends the title, deps or checks of a task you made. The body stays as it is.\n\
         5. Show the user the ids and their order. Begin none of them.",
        goal = now.goal_words()
    )
}

fn diagnose(now: &Moment) -> String {
    let looks = match now.task {
        Some(task) => format!(
            "1. `get` {task} and read its history, newest last.\n\
             2. `list_sessions` {{\"task\": \"{task}\"}} shows who works on it and since when."
        ),
        None => "1. `list` {\"execution\": \"stalled\"}, {\"execution\": \"awaiting_review\"} and \
                 {\"ready\": false} show what stands still.\n\
                 2. `get` each and read its history, newest last."
            .into(),
    };
    let ways = match now.may("begin") {
        true => {
            "3. Name the cause and the way on: open deps come first; a failing check is read in its log \
             and repeated by `run_checks`; a stalled session is replaced by `begin` with takeover true; \
             a manual check waits for `attest`.\n\
             4. Write the cause down with `note`. Change nothing else without being asked."
        }
        false => "3. Name the cause and the way on. This connection may only read.",
    };
    format!("Find out why work does not move.\n{}\n{looks}\n{ways}", now.findings())
}
