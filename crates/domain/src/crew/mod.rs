//! A crew: agents of three types that work on epics, write mail to each other and to people, and leave a
//! log of what they decided.

pub mod about;
pub mod agent;
pub mod assignment;
pub mod decision;
pub mod letters;
pub mod mail;
pub mod merge;
pub mod names;
pub mod record;
pub mod shift;
pub mod state;
pub mod sweep;

pub use agent::{Agent, AgentId, AgentState};
pub use decision::{Decision, DecisionId};
pub use mail::{Mail, MailId};
