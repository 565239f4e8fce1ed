//! What a sweep looks for in a crew's tasks and workers. The store finds candidates by conditions on its columns
//! (`crates/store/src/crew/epics.rs`); these functions judge the rows that are read for them, and decide where both differ.

use super::AgentId;
use super::state::worker_of;
use crate::board::card::Card;
use crate::policy::Phase;
use crate::task::Task;
use crate::task::attempt::Attempt;
use crate::time::Timestamp;

/// Whether a worker could take a task of a crew now: it is pending and free, its deps are closed, its epic is open.
pub fn is_waiting(
    task: &Task,
    card: &Card,
    newest: Option<&Attempt>,
    epic: &Task,
    now: Timestamp,
) -> bool {
    let is_held = task.assignee.is_some() || newest.is_some_and(|newest| newest.is_live(now));
    let is_ready = task.phase == Phase::Initial && task.open_deps == 0 && task.blocked.is_none();
    card.workspace.is_some() && is_ready && !is_held && !task.is_plan && !epic.phase.is_closed()
}

/// Whether a task is left over from an epic that was given up.
pub fn is_orphan(task: &Task, epic: &Task) -> bool {
    !task.phase.is_closed() && epic.phase == Phase::ClosedCanceled
}

/// Whether a worker keeps its task: the task is open, and no other actor holds it. `live` is the task's live attempt.
pub fn keeps_task(worker: &AgentId, task: &Task, live: Option<&Attempt>) -> bool {
    let holder = task.assignee.as_ref().or(live.map(|live| &live.actor));
    !task.phase.is_closed() && holder.is_none_or(|holder| *holder == worker.actor())
}

/// Whether an open task is the worker's, by the task's newest attempt. A run of a worker without its task is stopped.
pub fn has_task(worker: &AgentId, task: &Task, newest: Option<&Attempt>, now: Timestamp) -> bool {
    !task.phase.is_closed() && worker_of(newest, now).as_ref() == Some(worker)
}

/// Whether a worker can work on its task now, so that its agent may be started.
pub fn is_at_post(worker: &AgentId, task: &Task, newest: Option<&Attempt>, now: Timestamp) -> bool {
    has_task(worker, task, newest, now) && task.open_deps == 0
}
