//! Reads of a crew: agents, inboxes, the log of decisions.

pub(crate) mod epics;

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId, Decision, DecisionId, Mail, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;

use crate::StoreError;
use crate::table::decision::DECISION;
use crate::table::mail::{self, MAIL_FROM};

/// How much of a mail's body a list shows.
pub const MAIL_SHOWN_CHARS: usize = 4000;

#[async_trait]
pub trait CrewStore: Send + Sync {
    async fn agent(&self, org: &str, id: &AgentId) -> Result<Option<Agent>, StoreError>;
    /// Agents, the oldest first.
    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError>;
    async fn mail(&self, org: &str, id: MailId) -> Result<Option<MailSeen>, StoreError>;
    /// An inbox, the newest first; bodies are cut to `MAIL_SHOWN_CHARS`.
    async fn mails(&self, query: MailQuery) -> Result<Vec<MailSeen>, StoreError>;
    /// The answers to a mail, the oldest first. An answer is in the inbox of the mail's sender.
    async fn mail_answers(
        &self,
        org: &str,
        mail: &Mail,
        limit: usize,
    ) -> Result<Vec<MailSeen>, StoreError>;
    async fn mails_unread(&self, org: &str, to: Option<&AgentId>) -> Result<u64, StoreError>;
    /// Plan tasks, which only group their children, the newest first.
    async fn epics(&self, org: &str, limit: usize) -> Result<Vec<TaskId>, StoreError>;
    /// Decisions, the newest first.
    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<Decision>, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentQuery {
    pub org: Arc<str>,
    pub kind: Option<AgentType>,
    pub epic: Option<TaskId>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailQuery {
    pub org: Arc<str>,
    /// `None`: the inbox of people.
    pub to: Option<AgentId>,
    pub unread_only: bool,
    /// The last mail of the page before.
    pub before: Option<MailId>,
    pub limit: usize,
}

/// A mail as its recipient sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSeen {
    pub mail: Mail,
    /// `None` also when the sender was removed.
    pub from_type: Option<AgentType>,
    /// The length of the whole body, which a list may have cut.
    pub body_chars: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionQuery {
    pub org: Arc<str>,
    pub agent: Option<AgentId>,
    /// The last decision of the page before.
    pub before: Option<DecisionId>,
    pub limit: usize,
}

/// Values: the org and the limit.
pub(crate) fn epics_sql(sign: char) -> String {
    format!(
        "SELECT t.id, t.prefix FROM tasks t WHERE t.org = {sign}1 AND t.is_plan \
         AND t.removed_at IS NULL ORDER BY t.id DESC LIMIT {sign}2"
    )
}

impl MailQuery {
    /// Values: the org, the id to stay below, the limit and the recipient, if there is one.
    pub(crate) fn sql(&self, sign: char) -> String {
        let columns = mail::columns(&format!("substr(m.body, 1, {MAIL_SHOWN_CHARS})"));
        format!(
            "SELECT {columns} FROM {MAIL_FROM} WHERE m.org = {sign}1 AND {} AND m.id < {sign}2 {} \
             ORDER BY m.id DESC LIMIT {sign}3",
            recipient(self.to.as_ref(), &format!("{sign}4")),
            if self.unread_only { "AND m.read_at IS NULL" } else { "" },
        )
    }
}

/// Values: the org, the mail that is answered, the limit and the mail's sender, if there is one.
pub(crate) fn answers_sql(sender: Option<&AgentId>, sign: char) -> String {
    let columns = mail::columns("m.body");
    // The `+` keeps SQLite from going through the sender's inbox.
    let rare = if sign == '?' { "+" } else { "" };
    format!(
        "SELECT {columns} FROM {MAIL_FROM} WHERE {rare}m.org = {sign}1 AND {rare}{} AND m.id > {sign}2 \
         AND m.in_reply_to = {sign}2 ORDER BY m.id LIMIT {sign}3",
        recipient(sender, &format!("{sign}4")),
    )
}

/// Values: the org and the recipient, if there is one.
pub(crate) fn unread_sql(to: Option<&AgentId>, sign: char) -> String {
    format!(
        "SELECT count(*) FROM mails m WHERE m.org = {sign}1 AND {} AND m.read_at IS NULL",
        recipient(to, &format!("{sign}2")),
    )
}

/// The condition on the recipient. Two conditions, because a database looks up either in its index, but not a
/// combined one.
fn recipient(to: Option<&AgentId>, value: &str) -> String {
    match to {
        Some(_) => format!("m.to_agent = {value}"),
        None => "m.to_agent IS NULL".into(),
    }
}

impl DecisionQuery {
    /// Values: the org, the id to stay below, the limit and the agent, if there is one.
    pub(crate) fn sql(&self, sign: char) -> String {
        let of_agent = self.agent.as_ref().map(|_| format!("AND d.agent = {sign}4"));
        format!(
            "SELECT {DECISION} FROM decisions d WHERE d.org = {sign}1 AND d.id < {sign}2 {} \
             ORDER BY d.id DESC LIMIT {sign}3",
            of_agent.unwrap_or_default(),
        )
    }
}
