//! The place where a task is worked on: its name, its branch, and why it cannot be had.

use callboard_domain::board::card::Card;
use callboard_domain::crew::names;
use callboard_domain::task::Task;

use crate::ports::{TaskBranch, WorktreeFault};

/// Why there is no place to work in. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceFault {
    #[error("the project has no git repository on this machine")]
    NoRepo,
    #[error("{0}")]
    Failed(String),
}

impl From<WorktreeFault> for WorkspaceFault {
    fn from(fault: WorktreeFault) -> Self {
        Self::Failed(fault.to_string())
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
