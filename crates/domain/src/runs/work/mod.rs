//! An agent's work on a task, in the task's own workspace: the order and the ending. The queue, the lease and the
//! fate of a lost run are those of every run (`run.rs`).

pub mod ending;
pub mod prompt;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::TaskId;
use crate::refusal::Refusal;
use crate::runs::job::JobKind;
use crate::words::words;

pub use ending::Ending;

/// Refuses an agent whose program is not on the machine that would start it. `found` are the executors whose program is
/// there; a caller that cannot know them does not ask.
pub fn judge_executor(executor: String, found: Vec<String>) -> Result<(), Refusal> {
    match found.contains(&executor) {
        true => Ok(()),
        false => Err(Refusal::ExecutorMissing { executor, found }),
    }
}

/// Refuses to stop the agent of a task on which none works and none is queued. `stop_queue` and a stop that needs no
/// server both ask this.
pub fn judge_running(task: TaskId, has_work: bool) -> Result<(), Refusal> {
    match has_work {
        true => Ok(()),
        false => Err(Refusal::NotRunning { task }),
    }
}

/// The order for an agent's work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkOrder {
    pub role: Role,
    /// The actor that may hold the task when the work begins; for a crew the worker itself.
    pub asked_by: Actor,
    /// Instructions of the requester, for this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Role {
        /// Holds the task and changes its files.
        Worker => "worker",
        /// Reviews the work; the task has no holder meanwhile.
        Reviewer => "reviewer",
        /// A worker of a crew: it has the task before its agent starts and keeps it when the agent ends.
        Crew => "crew",
    }
}

impl Role {
    /// The job kind whose queue and places the runs take.
    pub fn job_kind(self) -> JobKind {
        match self {
            Role::Worker | Role::Reviewer => JobKind::Work,
            Role::Crew => JobKind::Crew,
        }
    }
}

/// The key of a run in a role; at most one such run of a task is open.
pub fn work_key(role: Role, task: TaskId) -> String {
    format!("{}-{task}", role.as_str())
}

/// The key of the one open job that stops a task's agent.
pub fn stop_key(task: TaskId) -> String {
    format!("stop-{task}")
}

words! {
    /// Why a run came to nothing, as its job keeps it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WorkFault {
        /// The task waits for others again.
        DepsOpen => "deps_open",
        /// Another actor has the task.
        Held => "held",
        /// The task is no longer for agents that work alone.
        NotAuto => "not_auto",
        TaskGone => "task_gone",
        /// There was no executor, no workspace or no process.
        NotStarted => "not_started",
        /// The run began and failed.
        Failed => "failed",
        /// The runners went away, each time.
        Lost => "lost",
    }
}

/// How a run ended, as its runner reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// The agent never came up.
    NotStarted {
        reason: String,
    },
    /// The agent ended by itself; `reply` is its last message.
    Replied {
        reply: String,
        ending: Option<Ending>,
    },
    Failed {
        reason: String,
    },
    /// The runner goes away; another one may go on.
    Stopped,
}
