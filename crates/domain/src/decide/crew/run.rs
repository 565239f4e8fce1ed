//! Runs of a crew's worker: requested, admitted, ended. The task stays the worker's all along. Queue, lease and
//! losses are those of every run (`run.rs`). What becomes of a task whose runs came to nothing is decided in
//! `crew_task.rs`.

use serde_json::{Value, json};

use crate::command::{RunLease, WorkSubmit};
use crate::crew::AgentId;
use crate::crew::agent::no_task;
use crate::crew::state::TaskState;
use crate::crew::sweep;
use crate::decide::crew::task::stands;
use crate::decide::draft::Draft;
use crate::decide::runs::run::{LOST, Step};
use crate::decide::runs::work;
use crate::event::EventName;
use crate::refusal::Refusal;
use crate::runs::job::JobState;
use crate::runs::work::{WorkFault, WorkOrder};
use crate::world::{Change, Reply};

pub(crate) fn submit(mut draft: Draft<'_>, new: &WorkSubmit) -> Result<Change, Refusal> {
    if let Some(open) = work::open_work(draft.world) {
        return Ok(draft.unchanged(Reply::Run(open.job.id)));
    }
    if !has_task(&draft, &new.order) {
        return Err(no_task());
    }
    draft.deps_gate()?;
    let due_at = draft.now;
    work::queue(&mut draft, new, JobState::Queued { due_at }, None);
    Ok(draft.done_beside(Reply::Run(new.job)))
}

/// Whether the worker of the order still has the task.
fn has_task(draft: &Draft<'_>, order: &WorkOrder) -> bool {
    let worker = AgentId::of(&order.asked_by);
    sweep::has_task(&worker, &draft.task, draft.live.as_ref(), draft.now)
}

pub(crate) fn admit(mut step: Step<'_>, draft: Draft<'_>, lease: &RunLease) -> Change {
    let Some(order) = step.run.order.work() else { return step.unchanged() };
    if !has_task(&draft, order) {
        let words = format!("{} is not {}'s", draft.task.id, AgentId::of(&order.asked_by));
        return work::refused(step, WorkFault::Held, &words);
    }
    if let Err(refusal) = draft.deps_gate() {
        return work::refused(step, WorkFault::DepsOpen, &refusal.message());
    }
    let fence = step.run.fence + 1;
    step.begin(lease, fence);
    step.alone(EventName::JobStarted, json!({"fence": fence}))
}

/// The agent did not start. The next one would not start either before the cause is removed, so the engine blocks
/// the task first (`crew_run.rs` there). A task that could not be blocked gets its other tries.
pub(crate) fn not_started(step: Step<'_>, reason: &str) -> Change {
    match step.draft().is_some_and(|draft| stands(&draft) == TaskState::Blocked) {
        true => work::refused(step, WorkFault::NotStarted, reason),
        false => ended(step, Some(reason)),
    }
}

/// The agent ended; the state of its task is its only result. A task that the agent should have gone on with makes
/// the run stale, as if its runner went away. `fault` is why the agent ended, unless it ended by itself.
pub(crate) fn ended(mut step: Step<'_>, fault: Option<&str>) -> Change {
    let draft = step.draft();
    let at_work = draft.as_ref().filter(|draft| is_at_work(draft, &step)).map(stands);
    let Some(stands) = at_work else {
        step.job.state = JobState::Done { at: step.now };
        let words = step.last_words();
        return step.alone(EventName::JobEnded, words);
    };
    match fault {
        Some(fault) => step.summary(fault),
        None => step.summary(&format!("The agent ended and left its task {stands}")),
    }
    step.job.state = JobState::Stale { runner: step.world.actor.clone(), until: step.now };
    step.alone(EventName::JobStale, Value::Null)
}

fn is_at_work(draft: &Draft<'_>, step: &Step<'_>) -> bool {
    let is_own = step.run.order.work().is_some_and(|order| has_task(draft, order));
    is_own && stands(draft).is_at_work()
}

/// Whether a lost run is not queued again: its worker no longer has the task, or the run was lost too often.
pub(crate) fn is_last(step: &Step<'_>, attempts_max: u32) -> bool {
    let draft = step.draft();
    let has_task = |order| draft.as_ref().is_some_and(|draft| has_task(draft, order));
    step.run.attempt >= attempts_max || !step.run.order.work().is_some_and(has_task)
}

/// Ends a run that was lost for the last time. `crew_task.rs` decides about a task that the run should have gone on
/// with.
pub(crate) fn lost(step: Step<'_>) -> Change {
    if !step.draft().is_some_and(|draft| is_at_work(&draft, &step)) {
        return work::cancel(step, "Nobody waits for it any more");
    }
    let (why, times) = (step.run.summary.as_deref().unwrap_or(LOST), step.run.attempt);
    let words = format!("Its agent was started {times} times and left no result; at last: {why}");
    step.fail(WorkFault::Lost.as_str(), &words)
}
