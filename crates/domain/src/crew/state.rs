//! The states of tasks, epics and agents in a crew's words, and who may move a task where. All states are derived
//! from the stored phases, holders and reasons.

use super::AgentId;
use crate::board::card::Card;
use crate::policy::Phase;
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptKind};
use crate::time::Timestamp;

macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($variant),* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// In any case, with dashes or spaces for underscores.
            pub fn parse(text: &str) -> Option<Self> {
                let word = text.trim().to_uppercase().replace(['-', ' '], "_");
                Self::ALL.iter().copied().find(|state| state.as_str() == word)
            }

            /// All words, for the refusal of any other word.
            pub fn list() -> String {
                let words: Vec<_> = Self::ALL.iter().map(|state| state.as_str()).collect();
                words.join(", ")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(TaskState {
    Pending => "PENDING",
    Assigned => "ASSIGNED",
    InProgress => "IN_PROGRESS",
    Review => "REVIEW",
    Blocked => "BLOCKED",
    Completed => "COMPLETED",
    Failed => "FAILED",
});

words!(EpicState {
    Planning => "PLANNING",
    InProgress => "IN_PROGRESS",
    Blocked => "BLOCKED",
    Completed => "COMPLETED",
    Cancelled => "CANCELLED",
});

/// The worker of a crew that has the task, by its newest attempt.
pub fn worker_of(newest: Option<&Attempt>, now: Timestamp) -> Option<AgentId> {
    let live = newest.filter(|it| it.kind == AttemptKind::Crew && it.is_live(now))?;
    Some(AgentId::of(&live.actor))
}

impl TaskState {
    /// The state at a moment, by the task's newest attempt.
    pub fn at(task: &Task, newest: Option<&Attempt>, now: Timestamp) -> Self {
        let is_live = newest.is_some_and(|newest| newest.is_live(now));
        Self::of(task, task.assignee.is_some() || is_live)
    }

    /// `held`: by an assignee or a live attempt.
    pub fn of(task: &Task, held: bool) -> Self {
        match task.phase {
            Phase::Initial if task.open_deps == 0 && held => Self::Assigned,
            Phase::Initial => Self::Pending,
            Phase::Working if task.blocked.is_some() => Self::Blocked,
            Phase::Working => Self::InProgress,
            Phase::Review => Self::Review,
            Phase::ClosedDone => Self::Completed,
            Phase::ClosedCanceled => Self::Failed,
        }
    }

    pub fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::Assigned | Self::InProgress | Self::Review | Self::Blocked => {
                true
            }
            Self::Completed | Self::Failed => false,
        }
    }

    /// Whether the worker of the task is expected to go on with it by itself.
    pub fn is_at_work(self) -> bool {
        match self {
            Self::Assigned | Self::InProgress => true,
            Self::Pending | Self::Review | Self::Blocked | Self::Completed | Self::Failed => false,
        }
    }

    /// The states to which the worker that has the task may move it. Other actors decide about all other moves.
    pub fn by_worker(self) -> &'static [TaskState] {
        match self {
            Self::Assigned => &[Self::InProgress, Self::Pending],
            Self::InProgress => &[Self::Review, Self::Blocked, Self::Failed],
            Self::Blocked => &[Self::InProgress, Self::Failed],
            Self::Review => &[Self::InProgress, Self::Blocked],
            Self::Pending | Self::Completed | Self::Failed => &[],
        }
    }

    /// Whether the worker's move hands work over, so that a pull request is opened for it.
    pub fn hands_over(self, to: TaskState) -> bool {
        to == Self::Review && self.by_worker().contains(&to)
    }

    /// The moves by which the worker of the task blocks it; none for a task that its worker is not at work on.
    pub fn steps_to_blocked(self) -> &'static [TaskState] {
        match self {
            Self::Assigned => &[Self::InProgress, Self::Blocked],
            Self::InProgress => &[Self::Blocked],
            Self::Pending | Self::Review | Self::Blocked | Self::Completed | Self::Failed => &[],
        }
    }

    /// The stored phases of tasks that may be in this state. A task whose lease has expired is still stored as at work.
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Self::Pending | Self::Assigned => &[Phase::Initial, Phase::Working],
            Self::InProgress | Self::Blocked => &[Phase::Working],
            Self::Review => &[Phase::Review],
            Self::Completed => &[Phase::ClosedDone],
            Self::Failed => &[Phase::ClosedCanceled],
        }
    }

    /// Whether the task may be assigned to another worker.
    pub fn may_change_hands(self) -> bool {
        match self {
            Self::Pending | Self::Assigned | Self::InProgress | Self::Blocked => true,
            Self::Review | Self::Completed | Self::Failed => false,
        }
    }
}

impl EpicState {
    pub fn of(task: &Task) -> Self {
        match task.phase {
            Phase::Initial => Self::Planning,
            Phase::Working | Phase::Review if task.blocked.is_some() => Self::Blocked,
            Phase::Working | Phase::Review => Self::InProgress,
            Phase::ClosedDone => Self::Completed,
            Phase::ClosedCanceled => Self::Cancelled,
        }
    }

    pub fn is_open(self) -> bool {
        match self {
            Self::Planning | Self::InProgress | Self::Blocked => true,
            Self::Completed | Self::Cancelled => false,
        }
    }

    /// The states to which a supervisor may move the epic by command alone.
    pub fn by_supervisor(self) -> &'static [EpicState] {
        match self {
            Self::Planning => &[Self::InProgress, Self::Cancelled],
            Self::InProgress => &[Self::Blocked, Self::Cancelled],
            Self::Blocked => &[Self::InProgress, Self::Cancelled],
            Self::Completed | Self::Cancelled => &[],
        }
    }
}

/// Why a task was given up, if the reason on record belongs to its last closing.
pub fn failure_reason<'c>(task: &Task, card: &'c Card) -> Option<&'c str> {
    let failed = card.failed.as_ref()?;
    let speaks = task.phase == Phase::ClosedCanceled && failed.at >= task.phase_at;
    speaks.then_some(failed.reason.as_str())
}
