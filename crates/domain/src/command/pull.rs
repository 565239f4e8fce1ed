//! Pull requests of tasks.

use super::Behind;
use crate::ids::TaskId;

/// Opens a pull request for a task's branch. The branch's open pull request keeps its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOpen {
    pub task: TaskId,
    pub forge: String,
    /// As in `Pull::repo`.
    pub repo: String,
    /// Number and page of the pull request; `None` where Callboard itself is the forge and assigns them.
    pub at: Option<(u64, String)>,
    pub branch: String,
    pub base: String,
    pub head: String,
    pub title: String,
    /// The only machine that has the repository.
    pub machine: Option<String>,
}

/// Records what became of a task's pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSettle {
    pub task: TaskId,
    pub forge: String,
    pub repo: String,
    pub number: u64,
    pub step: PullStep,
    /// The worker that still works, and has to start from the merged work.
    pub behind: Option<Behind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// The forge merges the pull request once it may.
    Awaited,
    /// The merge is not wanted any more.
    Revoked,
    /// The forge knows that the merge is not wanted.
    CalledOff,
    Merged {
        commit: Option<String>,
        /// Callboard merged it, as requested.
        asked: bool,
    },
    Closed,
}
