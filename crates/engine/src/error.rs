//! Errors of the engine. A refusal is an answer; the rest is broken.

use callboard_domain::refusal::Refusal;

use crate::ports::WorktreeFault;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{}", .0.message())]
    Refused(Refusal),
    /// The store or a forge cannot be reached or cannot write now; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// Git failed on a repository of this machine; in git's words. Nothing is changed.
    #[error("{0}")]
    Git(String),
    /// The database is damaged, and retrying does not help. The words are fit for a caller.
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Internal(String),
    /// The caller went away.
    #[error("canceled")]
    Canceled,
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.brief())
    }
}

impl From<WorktreeFault> for EngineError {
    fn from(fault: WorktreeFault) -> Self {
        match fault {
            WorktreeFault::Unreachable(_) => Self::Unavailable(fault.to_string()),
            WorktreeFault::NotReady(message) => Refusal::WorkspaceNotReady { message }.into(),
            WorktreeFault::NoCommit => Refusal::NoCommit { message: fault.to_string() }.into(),
            WorktreeFault::Stopped => Self::Canceled,
            fault => Self::Git(fault.to_string()),
        }
    }
}
