//! A crew: agents of three types that work on epics, write mail to each other and to people, and leave a
//! log of what they decided.

pub mod agent;
pub mod decision;
pub mod mail;
pub mod permission;

pub use agent::{Agent, AgentId};
pub use decision::{Decision, DecisionId};
pub use mail::{Mail, MailId};
