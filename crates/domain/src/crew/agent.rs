//! One of the crew: its id, its type and what it is on.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::actor::Actor;
use crate::ids::TaskId;
use crate::rights::AgentType;
use crate::time::Timestamp;

/// `worker-123` for the actor `agent:worker-123`; an actor of another kind goes by its whole name,
/// `human:ana`. Always well formed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Arc<str>);

impl AgentId {
    pub fn of(actor: &Actor) -> Self {
        let name = actor.as_str();
        Self(name.strip_prefix("agent:").unwrap_or(name).into())
    }

    /// `None` for what no actor could be called.
    pub fn parse(text: &str) -> Option<Self> {
        let actor = if text.contains(':') { text.parse() } else { format!("agent:{text}").parse() };
        actor.ok().map(|actor: Actor| Self::of(&actor))
    }

    /// Who acts when it does.
    pub fn actor(&self) -> Actor {
        let name =
            if self.0.contains(':') { self.0.to_string() } else { format!("agent:{}", self.0) };
        name.parse().expect("an agent's id was made of an actor's name")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub id: AgentId,
    pub kind: AgentType,
    /// What a supervisor or an orchestrator looks after.
    pub epic: Option<TaskId>,
    /// What a worker was last given. When that is closed, it is on nothing.
    pub task: Option<TaskId>,
    /// Since when a worker has had nothing to do.
    pub idle_since: Option<Timestamp>,
    /// Its last call.
    pub last_active_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Its last run ended without a result, and none is left.
    pub failed_at: Option<Timestamp>,
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

#[cfg(test)]
mod tests {
    use super::*;

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
