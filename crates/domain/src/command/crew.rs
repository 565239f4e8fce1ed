//! Commands of a crew: agents, their mail, and the log of their decisions.

use super::CrewAssign;
use crate::crew::{AgentId, DecisionId, MailId};
use crate::ids::TaskId;
use crate::rights::AgentType;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAdd {
    pub agent: AgentId,
    pub kind: AgentType,
    pub epic: Option<TaskId>,
    /// The task that a new worker is assigned at once.
    pub task: Option<Box<CrewAssign>>,
    /// An agent that exists already stays as it is.
    pub or_keep: bool,
    /// Adds the agent only while there are fewer workers than this.
    pub workers_max: Option<u32>,
}

/// Idempotent: a mail is sent once, however often its id is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSend {
    pub mail: MailId,
    /// `None`: a person, or the server itself.
    pub from: Option<AgentId>,
    /// `None`: people.
    pub to: Option<AgentId>,
    pub subject: String,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailReply {
    pub mail: MailId,
    pub original: MailId,
    /// The owner of the inbox with the original; `None`: people.
    pub by: Option<AgentId>,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLog {
    pub decision: DecisionId,
    pub agent: AgentId,
    pub words: String,
    pub reasoning: String,
    pub context: Option<String>,
    /// An agent wrote the row itself; otherwise one of its calls did.
    pub by_hand: bool,
}
