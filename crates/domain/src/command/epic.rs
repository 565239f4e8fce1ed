//! What a crew asks of an epic and its tasks. Ids of the letters that tell others of it come along.

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
    /// The folder its work will stand in.
    pub workspace: String,
    pub branch: String,
    /// Where the work of the epic's tasks comes together, unless the epic knows it already.
    pub epic_branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpicMove {
    pub by: AgentId,
    pub epic: TaskId,
    pub to: EpicState,
}

/// All of an epic's work is on its branch and somebody was asked to look at that.
#[derive(Clone, Debug, PartialEq)]
pub struct EpicFinish {
    pub by: AgentId,
    pub epic: TaskId,
    /// The page of its pull request.
    pub url: String,
    pub completed: usize,
    pub failed: usize,
    pub checked: Option<Checked>,
    /// As in `TaskTransition`.
    pub work: Option<String>,
    /// To people.
    pub mail: MailId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewAssign {
    /// `None`: it is the task's turn, and the worker's.
    pub by: Option<AgentId>,
    pub task: TaskId,
    pub worker: AgentId,
    /// What the worker was on before, as far as anybody knew.
    pub was_on: Option<TaskId>,
    /// Who had the task before, as far as anybody knew.
    pub from: Option<AgentId>,
    /// In whose name the letters are.
    pub sender: Option<AgentId>,
    pub attempt: AttemptId,
    pub place: WorkPlace,
    /// Why there is no place.
    pub misses: Option<String>,
    /// To the worker, and to whoever had it before.
    pub mails: [MailId; 2],
}

/// What a worker says of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewMove {
    pub by: AgentId,
    pub task: TaskId,
    /// Where it stood, as far as anybody knew: what goes with the move was made for that.
    pub from: TaskState,
    pub to: TaskState,
    pub reason: Option<String>,
    /// The page of the pull request that goes with it.
    pub url: Option<String>,
    /// Who hears of it; `None`: people.
    pub supervisor: Option<AgentId>,
    pub mail: MailId,
}

/// What was in review goes back to its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewReturn {
    pub by: AgentId,
    pub task: TaskId,
    pub feedback: String,
    /// Who has the task, as far as anybody knew.
    pub worker: Option<AgentId>,
    pub mail: MailId,
}

/// The work of a task is on its epic's branch, or an approval found that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewSettle {
    pub task: TaskId,
    pub commit: Option<String>,
    /// An approval brought this about. Of several at once one completes the task; the others are
    /// refused.
    pub is_approval: bool,
    /// Otherwise the branch had nothing to merge.
    pub is_merged: bool,
    /// Who has the task, as far as anybody knew.
    pub worker: Option<AgentId>,
    /// Others whose work is in review and now behind, told in this one's name.
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

/// A task that nobody will do, because its epic is given up or its runs came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewGiveUp {
    pub task: TaskId,
    pub reason: String,
    /// Who has the task, as far as anybody knew.
    pub worker: Option<AgentId>,
    /// Its runs came to nothing, so that its worker failed.
    pub lost: Option<CrewLoss>,
}

/// Who hears of it: the supervisor, and people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewLoss {
    pub supervisor: Option<AgentId>,
    pub mails: [MailId; 2],
}
