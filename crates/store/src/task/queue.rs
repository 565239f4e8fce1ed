//! Figures about the queue as a whole: how many tasks are in which state, and since when a task was free to take.

use callboard_domain::event::{Event, EventName};
use callboard_domain::ids::TaskId;
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;

use crate::table::task::tasks_by_id;

/// Counts over every org. Plans are no work and are left out, as removed tasks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TasksByState {
    /// Not begun, with no open dep and no block.
    pub ready: u64,
    /// Not begun, with open deps or blocked with a reason.
    pub blocked: u64,
    pub working: u64,
    pub review: u64,
    pub done: u64,
    pub canceled: u64,
}

/// Among tasks that are working as written and whose lease is over by the one value: how many are ready, and how
/// many blocked.
pub(crate) fn lapsed_counts(sign: char) -> String {
    format!(
        "SELECT count(*) FILTER (WHERE t.open_deps = 0 AND t.blocked IS NULL), \
             count(*) FILTER (WHERE t.open_deps > 0 OR t.blocked IS NOT NULL) \
         FROM attempts a CROSS JOIN {} \
         WHERE a.ended_at IS NULL AND a.lease_expires_at IS NOT NULL \
             AND a.lease_expires_at <= {sign}1 AND t.id = a.task AND t.newest_attempt = a.id \
             AND t.phase = 'working' AND t.removed_at IS NULL AND NOT t.is_plan",
        tasks_by_id(sign)
    )
}

impl TasksByState {
    /// Moves tasks whose lease is over from `working` back to the start.
    pub(crate) fn with_lapsed(self, ready: i64, blocked: i64) -> Self {
        let [ready, blocked] = [ready, blocked].map(i64::unsigned_abs);
        Self {
            ready: self.ready + ready,
            blocked: self.blocked + blocked,
            working: self.working.saturating_sub(ready + blocked),
            ..self
        }
    }

    pub fn total(&self) -> u64 {
        self.ready + self.blocked + self.working + self.review + self.done + self.canceled
    }
}

/// The events after which a task is free to take.
pub(crate) const FREED: [EventName; 4] = [
    EventName::TaskCreated,
    EventName::TaskReady,
    EventName::TaskReleased,
    EventName::AttemptExpired,
];

pub(crate) fn freed_names() -> String {
    FREED.map(|name| format!("'{}'", name.as_str())).join(", ")
}

/// A free task that an actor took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedTask {
    pub task: TaskId,
    /// Since when the task was free, where the row says so: nothing happened to it but its creation. For other
    /// tasks the log knows (`Store::task_free_since`).
    pub free_since: Option<Timestamp>,
}

impl ClaimedTask {
    /// `before` is the subject of the change as it was, with the number of its deps.
    pub(crate) fn of(events: &[Event], before: Option<(&Task, usize)>) -> Option<Self> {
        let happened = |name| events.iter().any(|event| event.name == name);
        let (task, deps) = before.filter(|_| happened(EventName::TaskClaimed))?;
        // The task was taken over from a silent session, so it was never free.
        if task.assignee.is_some() && !happened(EventName::AttemptExpired) {
            return None;
        }
        let untouched = task.entries == 1 && deps == 0;
        Some(Self { task: task.id, free_since: untouched.then_some(task.created_at) })
    }
}
