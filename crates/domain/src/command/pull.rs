//! Pull requests of tasks.

use super::Behind;
use crate::ids::TaskId;

/// A pull request for a task's branch; the open one of that branch stays the one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOpen {
    pub task: TaskId,
    pub forge: String,
    /// As `Pull` has it.
    pub repo: String,
    /// Number and page; `None` where Callboard itself is the forge, which gives them.
    pub at: Option<(u64, String)>,
    pub branch: String,
    pub base: String,
    pub head: String,
    pub title: String,
    /// The only one that has the repository.
    pub machine: Option<String>,
}

/// What became of a task's pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSettle {
    pub task: TaskId,
    pub forge: String,
    pub repo: String,
    pub number: u64,
    pub step: PullStep,
    /// Who works on, and has to start from what was merged.
    pub behind: Option<Behind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// Its forge merges it once it may.
    Awaited,
    /// Nobody wants that any more.
    Revoked,
    /// Its forge knows.
    CalledOff,
    Merged {
        commit: Option<String>,
        /// By us, because somebody wanted that.
        asked: bool,
    },
    Closed,
}
