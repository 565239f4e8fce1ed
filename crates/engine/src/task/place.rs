//! The place where a task is worked on: its name, its branch, and why it cannot be had.

use callboard_domain::board::card::Card;
use callboard_domain::crew::names;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::Task;

use crate::EngineError;
use crate::ports::{TaskBranch, WorktreeFault};

/// Why there is no place to work in. Words are for the caller.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceFault {
    #[error(transparent)]
    Worktree(#[from] WorktreeFault),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl WorkspaceFault {
    /// The fault of the worktree, for a caller that goes on without one; every other error ends the call.
    pub fn of_worktree(self) -> Result<WorktreeFault, EngineError> {
        match self {
            Self::Worktree(fault) => Ok(fault),
            Self::Engine(error) => Err(error),
        }
    }
}

impl From<Refusal> for WorkspaceFault {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl From<WorkspaceFault> for EngineError {
    fn from(fault: WorkspaceFault) -> Self {
        match fault {
            WorkspaceFault::Worktree(fault) => fault.into(),
            WorkspaceFault::Engine(error) => error,
        }
    }
}

/// What the names of tasks' branches begin with.
pub(crate) const BRANCHES: &str = "callboard/";

/// The folder and the branch of a task, in every repository. Names recorded on the card hold for good. Branches of
/// older versions have the task's id in place of its name.
pub(crate) fn place_of(task: &Task, card: &Card) -> (String, TaskBranch) {
    let name = card.workspace.clone().unwrap_or_else(|| task.id.to_string());
    let branch = match &card.branch {
        Some(branch) => TaskBranch::named(branch),
        None => TaskBranch {
            new: names::task_branch(BRANCHES, task),
            stems: vec![format!("{BRANCHES}{}", task.name()), format!("{BRANCHES}{name}")],
        },
    };
    (name, branch)
}
