//! Commands of a crew on an epic and its tasks. They carry the ids of the mail that tells others about it.

use super::{Checked, WorkPlace};
use crate::crew::state::{EpicState, TaskState};
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, TaskId};

#[derive(Clone, Debug, PartialEq)]
pub struct EpicTaskAdd {
    pub by: AgentId,
    pub epic: TaskId,
    pub task: TaskId,
    pub title: String,
    pub body: String,
    /// The folder of the task's work.
    pub workspace: String,
    pub branch: String,
    /// The branch on which the work of the epic's tasks comes together, unless the epic has one already.
    pub epic_branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpicMove {
    pub by: AgentId,
    pub epic: TaskId,
    pub to: EpicState,
}

/// Finishes an epic: all of its work is on its branch, and a review of that branch is requested.
#[derive(Clone, Debug, PartialEq)]
pub struct EpicFinish {
    pub by: AgentId,
    pub epic: TaskId,
    /// The page of the epic's pull request.
    pub url: String,
    pub completed: usize,
    pub failed: usize,
    pub checked: Option<Checked>,
    /// As in `TaskTransition`.
    pub work: Option<String>,
    /// The mail to people.
    pub mail: MailId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewAssign {
    /// `None`: an automatic assignment.
    pub by: Option<AgentId>,
    pub task: TaskId,
    pub worker: AgentId,
    /// The worker's task before, as far as the caller knew.
    pub was_on: Option<TaskId>,
    /// The worker that had the task before, as far as the caller knew.
    pub from: Option<AgentId>,
    /// The sender of the mail.
    pub sender: Option<AgentId>,
    pub attempt: AttemptId,
    pub place: WorkPlace,
    /// Why `place` is empty.
    pub misses: Option<String>,
    /// The mail to the worker, and to the worker that had the task before.
    pub mails: [MailId; 2],
}

/// A worker moves its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewMove {
    pub by: AgentId,
    pub task: TaskId,
    /// The state as far as the caller knew: everything else in this command was made for that state.
    pub from: TaskState,
    pub to: TaskState,
    pub reason: Option<String>,
    /// The page of the pull request that goes with the move.
    pub url: Option<String>,
    /// The recipient of the mail; `None`: people.
    pub supervisor: Option<AgentId>,
    pub mail: MailId,
}

/// Sends a task in review back to its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewReturn {
    pub by: AgentId,
    pub task: TaskId,
    pub feedback: String,
    /// The worker that has the task, as far as the caller knew.
    pub worker: Option<AgentId>,
    pub mail: MailId,
}

/// Records that a task's work is on its epic's branch, or that an approval found no work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewSettle {
    pub task: TaskId,
    pub commit: Option<String>,
    /// The command comes from an approval. Of several at once one completes the task; the others are refused.
    pub is_approval: bool,
    /// Otherwise the branch had nothing to merge.
    pub is_merged: bool,
    /// The worker that has the task, as far as the caller knew.
    pub worker: Option<AgentId>,
    /// Tasks in review whose work is now behind. Their workers get mail from `sender`.
    pub behind: Vec<Behind>,
    pub sender: Option<AgentId>,
    pub epic_branch: String,
    /// Whether workers get the branch from `origin`.
    pub is_remote: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    pub task: TaskId,
    pub title: String,
    pub worker: AgentId,
    pub mail: MailId,
}

/// Gives up a task, because its epic is given up or its runs came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewGiveUp {
    pub task: TaskId,
    pub reason: String,
    /// The worker that has the task, as far as the caller knew.
    pub worker: Option<AgentId>,
    /// Set when its runs came to nothing, so that its worker failed.
    pub lost: Option<CrewLoss>,
}

/// The mail about a loss: to the supervisor, and to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewLoss {
    pub supervisor: Option<AgentId>,
    pub mails: [MailId; 2],
}
