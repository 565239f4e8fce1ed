//! An agent of a crew: its id, its type and its work.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::state::{EpicState, TaskState};
use crate::actor::Actor;
use crate::ids::{IdError, TaskId};
use crate::refusal::Refusal;
use crate::rights::AgentType;
use crate::time::Timestamp;
use crate::words::words;

/// The id of an agent: `worker-123` for the actor `agent:worker-123`. An actor of another kind goes by its whole
/// name, `human:ana`. Always well formed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Arc<str>);

impl AgentId {
    pub fn of(actor: &Actor) -> Self {
        let name = actor.as_str();
        Self(name.strip_prefix("agent:").unwrap_or(name).into())
    }

    /// `None` for a text that is no actor's name.
    pub fn parse(text: &str) -> Option<Self> {
        let actor = if text.contains(':') { text.parse() } else { format!("agent:{text}").parse() };
        actor.ok().map(|actor: Actor| Self::of(&actor))
    }

    /// The actor of this agent.
    pub fn actor(&self) -> Actor {
        let name =
            if self.0.contains(':') { self.0.to_string() } else { format!("agent:{}", self.0) };
        name.parse().expect("an agent's id was made of an actor's name")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text).ok_or(IdError::Invalid)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub id: AgentId,
    pub kind: AgentType,
    /// The epic that a supervisor or an orchestrator leads.
    pub epic: Option<TaskId>,
    /// The task that a worker was assigned last. A closed task does not count.
    pub task: Option<TaskId>,
    /// Since when a worker has had no task.
    pub idle_since: Option<Timestamp>,
    /// The time of its last call.
    pub last_active_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Its last run ended without a result, and no further run follows.
    pub failed_at: Option<Timestamp>,
}

impl Agent {
    /// Whether the agent decides who does what in an epic.
    pub fn leads(&self, epic: Option<TaskId>) -> bool {
        match self.kind {
            AgentType::Orchestrator => true,
            AgentType::Supervisor => self.epic.is_some() && self.epic == epic,
            AgentType::Worker => false,
        }
    }

    /// The task of a worker.
    pub fn own_task(&self) -> Result<TaskId, Refusal> {
        self.task.ok_or_else(no_task)
    }

    /// The epic that the agent leads.
    pub fn own_epic(&self) -> Result<TaskId, Refusal> {
        self.epic.ok_or_else(no_epic)
    }

    /// Refuses a comment on a task outside the agent's epic; an orchestrator may comment on any. `own_parent` is the
    /// parent of the agent's own task, `parent` that of the task.
    pub fn judge_comment(
        &self,
        own_parent: Option<TaskId>,
        task: TaskId,
        parent: Option<TaskId>,
    ) -> Result<(), Refusal> {
        let epic = match self.kind {
            AgentType::Worker => own_parent,
            AgentType::Supervisor | AgentType::Orchestrator => self.epic,
        };
        let is_in_epic = epic.is_some_and(|epic| task == epic || parent == Some(epic));
        match is_in_epic || self.task == Some(task) || self.kind == AgentType::Orchestrator {
            true => Ok(()),
            false => {
                Err(Refusal::CrewDenied { message: "Task does not belong to your epic".into() })
            }
        }
    }
}

pub(crate) fn no_task() -> Refusal {
    Refusal::AgentState { message: "Agent does not have a current task assigned".into() }
}

pub(crate) fn no_epic() -> Refusal {
    Refusal::AgentState { message: "Agent does not have a current epic".into() }
}

/// Refuses a task that is not one of the epic's.
pub fn judge_of_epic(epic: TaskId, parent: Option<TaskId>) -> Result<(), Refusal> {
    if parent == Some(epic) { Ok(()) } else { Err(not_of_epic()) }
}

pub(crate) fn not_of_epic() -> Refusal {
    Refusal::CrewDenied { message: "Task does not belong to this epic".into() }
}

words! {
    /// The activity of an agent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AgentState {
        Idle => "IDLE",
        Busy => "BUSY",
        /// Waits for a review, or for the end of a block.
        Waiting => "WAITING",
        Failed => "FAILED",
    }
}

impl Agent {
    /// `task` is the state of a worker's task, `epic` that of the epic another agent leads.
    pub fn state(&self, task: Option<TaskState>, epic: Option<EpicState>) -> AgentState {
        if self.failed_at.is_some() {
            return AgentState::Failed;
        }
        match (self.kind, task, epic) {
            (AgentType::Worker, Some(task), _) => match task {
                task if task.is_at_work() => AgentState::Busy,
                task if task.is_open() => AgentState::Waiting,
                _ => AgentState::Idle,
            },
            (AgentType::Supervisor | AgentType::Orchestrator, _, Some(epic)) if epic.is_open() => {
                AgentState::Busy
            }
            _ => AgentState::Idle,
        }
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an agent id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_at_what_its_task_or_its_epic_is_at() {
        let agent = |kind| Agent {
            id: AgentId::parse("a").expect("an id"),
            kind,
            epic: None,
            task: None,
            idle_since: None,
            last_active_at: Timestamp(0),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            failed_at: None,
        };
        let worker = agent(AgentType::Worker);
        for (task, state) in [
            (None, "IDLE"),
            (Some(TaskState::Pending), "WAITING"),
            (Some(TaskState::Assigned), "BUSY"),
            (Some(TaskState::InProgress), "BUSY"),
            (Some(TaskState::Review), "WAITING"),
            (Some(TaskState::Blocked), "WAITING"),
            (Some(TaskState::Completed), "IDLE"),
            (Some(TaskState::Failed), "IDLE"),
        ] {
            assert_eq!(worker.state(task, Some(EpicState::InProgress)).as_str(), state);
        }
        for (epic, state) in [
            (None, "IDLE"),
            (Some(EpicState::Planning), "BUSY"),
            (Some(EpicState::Blocked), "BUSY"),
            (Some(EpicState::Completed), "IDLE"),
        ] {
            assert_eq!(agent(AgentType::Supervisor).state(None, epic).as_str(), state);
        }
        let failed = Agent { failed_at: Some(Timestamp(1)), ..worker };
        assert_eq!(failed.state(Some(TaskState::InProgress), None).as_str(), "FAILED");
    }

    #[test]
    fn an_agent_goes_by_its_name_and_anybody_else_by_all_of_it() {
        for (text, id, actor) in [
            ("worker-123", "worker-123", "agent:worker-123"),
            ("agent:worker-123", "worker-123", "agent:worker-123"),
            ("human:ana", "human:ana", "human:ana"),
        ] {
            let parsed = AgentId::parse(text).expect("an id");
            assert_eq!((parsed.as_str(), parsed.actor().as_str()), (id, actor));
            assert_eq!(AgentId::of(&parsed.actor()), parsed);
        }
        for text in ["", "a b", "worker:1", "a:b:c", "human:"] {
            assert_eq!(AgentId::parse(text), None, "{text}");
        }
    }
}
