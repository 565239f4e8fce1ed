//! Prompts for execution's tools, step by step.

use crate::prompt::{Moment, NOTHING_READY, Prompts};

pub(super) const PROMPTS: Prompts = Prompts { start_work, review_queue, plan, diagnose };

const ONLY_READS: &str = "This connection may only read: `get_next_actionable` and `get_task` show the \
    tasks. Say what you see and stop.";

fn start_work(now: &Moment) -> String {
    if !now.may("claim_task") {
        return ONLY_READS.into();
    }
    let Some(task) = now.task_or_next() else { return NOTHING_READY.into() };
    // A bound connection has no other work to look for.
    let taken = match now.bound {
        Some(_) => "If it is held, say so and stop.",
        None => "If it is held, `get_next_actionable` shows other work.",
    };
    format!(
        "Work on task {task} of this callboard as {actor}.\n\
         1. `get_task` {task} and `list_comments`: read what is wanted, why an earlier verification \
         failed and what reviewers wrote.\n\
         2. `claim_task` it and keep the fence. {taken}\n\
         3. `update_task_status` with status in_progress starts the work; repeat it before \
         leaseExpiresAt. Stop when it is refused.\n\
         4. `complete_task` with the output, and with learnings that help the next agent. The answer \
         says whether the verification passed, failed or is pending.\n\
         5. While it is pending, look with `get_task` now and then. If it failed, read why, mend the \
         work, and claim and complete the task again. Stop if a person has to decide.",
        actor = now.actor
    )
}

fn review_queue(now: &Moment) -> String {
    let queue = match now.queue() {
        Ok(queue) => queue,
        Err(none) => return none,
    };
    let said = match now.may("comment_on_task") {
        true => {
            "`comment_on_task` what you found: blocker for work that must be done again, nack to propose that the \
             task is given up, note else."
        }
        false => "and say what you found. This connection may only read.",
    };
    format!(
        "{queue}\n\
         For each: `get_task` and `list_comments`, look at the change, {said} Its contract or a person \
         closes it: `callboard approve ID` at a terminal."
    )
}

fn plan(now: &Moment) -> String {
    if !now.may("add_task") {
        return ONLY_READS.into();
    }
    format!(
        "Plan work on this callboard. {goal}\n\
         1. `get_next_actionable` and `search_knowledge` show what is there and what is known.\n\
         2. `add_task` the plan itself, then one task for each part that one agent can finish, with \
         planId. dependsOn names the ids that come first; checks or a verificationContract say how the \
         part is known to be done.\n\
         3. `set_dependency` corrects the order afterwards.\n\
         4. Show the user the ids and their order. Claim none of them.",
        goal = now.goal_words()
    )
}

fn diagnose(now: &Moment) -> String {
    let looks = match now.task {
        Some(task) => format!("1. `get_task` {task} and `list_comments` for it."),
        None => {
            "1. `get_next_actionable` shows what can start; `get_task` any task that should.".into()
        }
    };
    let ways = match now.may("comment_on_task") {
        true => {
            "2. Name the cause and the way on: open dependencies come first; an open blocker needs \
             `resolve_comment` by its author or a person; a failed verification says why, and its task \
             is claimed and completed again.\n\
             3. Write the cause down with `comment_on_task`. Change nothing else without being asked."
        }
        false => "2. Name the cause and the way on. This connection may only read.",
    };
    format!("Find out why work does not move.\n{}\n{looks}\n{ways}", now.findings())
}
