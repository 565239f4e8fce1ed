//! Prompts for relay's tools, step by step: its callers hand work to agents and read the results.

use crate::prompt::{Moment, NOTHING_READY, Prompts};

pub(super) const PROMPTS: Prompts = Prompts { start_work, review_queue, plan, diagnose };

const ONLY_READS: &str = "This connection submits no jobs: `jobs_list` and `jobs_get` show those of \
    others. Say what you see and stop.";

fn start_work(now: &Moment) -> String {
    if !now.may("jobs_submit") {
        return ONLY_READS.into();
    }
    let Some(task) = now.task_or_next() else { return NOTHING_READY.into() };
    format!(
        "Let an agent work on task {task} of this callboard, as {actor}.\n\
         1. Read the resource callboard://tasks/{task}.\n\
         2. `jobs_submit` a spec with its text as task.description, the repository with the full id of \
         the commit to start from, and an idempotencyKey of this task.\n\
         3. `jobs_get` the job now and then until its state is SUCCEEDED, FAILED, CANCELED or EXPIRED. \
         A job that asks something waits for a person.\n\
         4. Read mcp://jobs/JOB/artifacts/patch.diff and out.md, try the patch, and tell the user what \
         it does and whether its test plan holds.",
        actor = now.actor
    )
}

/// This toolset has no tool that decides a review, so the prompt ends with the person's commands.
fn review_queue(now: &Moment) -> String {
    let queue = match now.queue() {
        Ok(queue) => queue,
        Err(none) => return none,
    };
    format!(
        "{queue}\n\
         `jobs_list` {{\"state\": \"SUCCEEDED\"}} has the jobs that made something; `jobs_get` names \
         the task and the artifacts of one. For each task: read callboard://tasks/ID and the \
         artifacts, try the patch, and say what you found. A person closes it: `callboard approve ID` \
         or `callboard reject ID` at a terminal."
    )
}

fn plan(now: &Moment) -> String {
    if !now.may("jobs_submit") {
        return ONLY_READS.into();
    }
    format!(
        "Plan work for agents. {goal}\n\
         1. `jobs_list` shows what is under way; do not ask for it twice.\n\
         2. Split the goal into jobs that do not need each other's patches. Each gets a description, \
         acceptance criteria and the paths it may read.\n\
         3. Show the user the jobs. When they agree, `jobs_submit` each with an idempotencyKey of its \
         own.",
        goal = now.goal_words()
    )
}

fn diagnose(now: &Moment) -> String {
    let ways = match now.may("jobs_cancel") {
        true => {
            "3. Name the cause and the way on. `jobs_cancel` ends a job that nobody wants; `jobs_submit` \
             with a new idempotencyKey asks again. Do neither without being asked."
        }
        false => "3. Name the cause and the way on. This connection may only read.",
    };
    format!(
        "Find out why work does not move.\n{}\n\
         1. `jobs_list` shows the queue; {{\"state\": \"FAILED\"}} and {{\"state\": \"STALE\"}} what went \
         wrong.\n\
         2. `jobs_get` each and read its summary and mcp://jobs/JOB/artifacts/logs.txt.\n{ways}",
        now.findings()
    )
}
