//! The columns of the board: the column of each task, and the order within a column.

use std::cmp::Reverse;

use crate::ids::{Id, TaskName};
use crate::policy::{Phase, Policy};
use crate::task::attempt::{Attempt, Health};
use crate::task::{Check, Task};
use crate::time::Timestamp;
use crate::words::words;

/// At most so many cards of a column are shown.
pub const COLUMN_CARDS_MAX: usize = 50;
/// Counts are exact up to this number.
pub const COUNT_MAX: usize = 1000;
/// At most so many open deps of a card are named.
pub const DEPS_NAMED_MAX: usize = 3;

words! {
    /// A column of the board, in the board's order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Column {
        /// Not begun, with an open dep, a block or an open blocker comment.
        Blocked => "blocked",
        /// Not begun, and nothing stands in the way. The first free task is the next one.
        Ready => "ready",
        Working => "working",
        Review => "review",
        /// Closed, done or canceled.
        Done => "done",
    }
}

impl Column {
    /// The column of a task as it stands now.
    pub fn of(task: &Task) -> Self {
        match task.phase {
            Phase::Initial if task.is_ready() && task.open_blockers == 0 => Column::Ready,
            Phase::Initial => Column::Blocked,
            Phase::Working => Column::Working,
            Phase::Review => Column::Review,
            Phase::ClosedDone | Phase::ClosedCanceled => Column::Done,
        }
    }
}

/// A count that is exact up to `COUNT_MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CappedCount(usize);

impl CappedCount {
    /// A count by a reader that stops behind `COUNT_MAX`.
    pub fn of(count: usize) -> Self {
        Self(count.min(COUNT_MAX + 1))
    }

    /// The count, or `COUNT_MAX` when there are more.
    pub fn number(self) -> usize {
        self.0.min(COUNT_MAX)
    }

    pub fn is_exact(self) -> bool {
        self.0 <= COUNT_MAX
    }
}

impl std::fmt::Display for CappedCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.number(), if self.is_exact() { "" } else { "+" })
    }
}

/// The order within a column; smaller goes first. Derived from rows alone, so a store and a page agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardOrder {
    /// Blocked and Ready: the order of the queue.
    Queue(u16, Id),
    /// Working: tasks whose agent asks, then tasks with a failing check, then silent ones, then the others; within each
    /// group the lease that ends first, and tasks without a lease last.
    Working(WorkingRank, Timestamp, Id),
    /// Review: the longest wait first.
    OldestFirst(Timestamp, Id),
    /// Done: the newest end first.
    NewestFirst(Reverse<Timestamp>, Reverse<Id>),
}

/// The urgency of a task that is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkingRank {
    Asks,
    Fails,
    Silent,
    Steady,
}

impl CardOrder {
    /// The place of a card in its column. `asks`: its agent waits for an answer.
    pub fn of(
        task: &Task,
        newest: Option<&Attempt>,
        asks: bool,
        policy: &Policy,
        now: Timestamp,
    ) -> Self {
        let id = task.id.id;
        match Column::of(task) {
            Column::Blocked | Column::Ready => CardOrder::Queue(task.priority, id),
            Column::Working => {
                let rank = match () {
                    () if asks => WorkingRank::Asks,
                    () if has_failing(&task.checks) => WorkingRank::Fails,
                    () if is_silent(newest, policy, now) => WorkingRank::Silent,
                    () => WorkingRank::Steady,
                };
                let ends = newest.and_then(Attempt::lease).map(|lease| lease.expires_at);
                CardOrder::Working(rank, ends.unwrap_or(Timestamp(i64::MAX)), id)
            }
            Column::Review => CardOrder::OldestFirst(task.phase_at, id),
            Column::Done => CardOrder::NewestFirst(Reverse(task.phase_at), Reverse(id)),
        }
    }
}

/// Whether a check fails for the files it ran on.
pub fn has_failing(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.result() == "fail")
}

/// Whether the actor of the attempt holds the task and has been silent for too long.
pub fn is_silent(newest: Option<&Attempt>, policy: &Policy, now: Timestamp) -> bool {
    newest.is_some_and(|attempt| attempt.health(policy, now) == Health::Stalled)
}

/// An open dep of a task, as cards name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDep {
    pub name: TaskName,
    pub title: String,
    pub state: OpenDepState,
}

words! {
    /// The progress of an open dep.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OpenDepState {
        /// Not begun.
        Waiting => "waiting",
        Working => "working",
        /// Its agent is silent.
        Silent => "silent",
        /// Its agent waits for an answer.
        Asks => "asks",
        Review => "review",
    }
}

impl OpenDep {
    /// `None` for a dep that is closed. The task is as it stands at `now`.
    pub fn of(
        task: &Task,
        newest: Option<&Attempt>,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Self> {
        let state = match task.phase {
            Phase::Initial | Phase::Working if is_silent(newest, policy, now) => {
                OpenDepState::Silent
            }
            Phase::Initial => OpenDepState::Waiting,
            Phase::Working => OpenDepState::Working,
            Phase::Review => OpenDepState::Review,
            Phase::ClosedDone | Phase::ClosedCanceled => return None,
        };
        Some(Self { name: task.name(), title: task.title.clone(), state })
    }
}
