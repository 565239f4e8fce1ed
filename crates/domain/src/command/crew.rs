//! What a crew asks: agents, their mail, and the log of what they decided.

use super::CrewAssign;
use crate::crew::{AgentId, DecisionId, MailId};
use crate::ids::TaskId;
use crate::rights::AgentType;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAdd {
    pub agent: AgentId,
    pub kind: AgentType,
    pub epic: Option<TaskId>,
    /// What a worker is given at once.
    pub task: Option<Box<CrewAssign>>,
    /// One that is there already stays as it is.
    pub or_keep: bool,
    /// Only while there are fewer workers.
    pub workers_max: Option<u32>,
}

/// A mail is sent once, however often this is asked with the same id.
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
    /// Whose inbox the original is in; `None`: people's.
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
    /// An agent wrote it, rather than one of its calls.
    pub by_hand: bool,
}
