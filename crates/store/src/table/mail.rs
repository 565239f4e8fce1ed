//! Mail between agents and people.

use callboard_domain::crew::{AgentId, Mail, MailId};
use callboard_domain::rights::AgentType;

use super::cell::table;
use super::{Cells, RowReader};
use crate::MailSeen;

/// The columns of a mail `m` with its sender `s`. `body` is the column, or an expression that cuts it.
/// `length` counts characters in both databases. A list shows it beside the beginning of a long body.
pub(crate) fn columns(body: &str) -> String {
    format!(
        "m.id, m.from_agent, m.to_agent, m.subject, {body}, m.in_reply_to, m.created_at, \
         m.read_at, s.type, length(m.body)"
    )
}

pub(crate) const MAIL_FROM: &str =
    "mails m LEFT JOIN crew_agents s ON s.org = m.org AND s.id = m.from_agent";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<MailSeen, R::Error> {
    let mail = Mail {
        id: MailId(row.id()?),
        from: row.word_if("agent", AgentId::parse)?,
        to: row.word_if("agent", AgentId::parse)?,
        subject: row.text()?,
        body: row.text()?,
        in_reply_to: row.id_if()?.map(MailId),
        created_at: row.time()?,
        read_at: row.time_if()?,
    };
    // `None` for a mail of a person, of the server, or of an agent that left: agents that are gone leave their mail.
    let from_type = row.str_if()?.and_then(AgentType::parse);
    Ok(MailSeen { mail, from_type, body_chars: row.count()? })
}

table! {
    MAILS = "mails";
    fn values(org: i64, mail: &'a Mail) {
        id: mail.id.0,
        org: org,
        // NULL: from a person or from the server.
        from_agent: mail.from.as_ref().map(AgentId::as_str),
        // NULL: for people.
        to_agent: mail.to.as_ref().map(AgentId::as_str),
        subject: &mail.subject,
        body: &mail.body,
        in_reply_to: mail.in_reply_to.map(|mail| mail.0),
        created_at: mail.created_at,
        read_at: mail.read_at,
    }
}
