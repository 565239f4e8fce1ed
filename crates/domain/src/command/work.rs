//! Commands about an agent that works in a task's workspace.

use crate::ids::TaskId;
use crate::runs::job::JobId;
use crate::runs::work::WorkOrder;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkSubmit {
    pub job: JobId,
    pub task: TaskId,
    pub order: WorkOrder,
    /// The only machine that can run it.
    pub bound_to: Option<String>,
    /// The run has to wait: the machine has no free place yet.
    pub waits: bool,
    pub ttl_s: u32,
    pub start: Start,
}

/// The terms under which the start of a worker is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// As the board's tools do: the task is one for an agent alone already, and a closed one is reopened.
    #[default]
    Board,
    /// As a person does at a terminal.
    Terminal(TerminalStart),
}

/// What a person at a terminal allows a start to do to the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalStart {
    /// The agent that works on the task from now on; `None`: the one it has.
    pub agent: Option<String>,
    /// The task is taken from its holder.
    pub take: bool,
    /// A closed task is reopened.
    pub reopen: bool,
    /// The caller's own process runs it; other runners wait for this long.
    pub held_s: u32,
}

/// Where an agent works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPlace {
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub head: Option<String>,
}
