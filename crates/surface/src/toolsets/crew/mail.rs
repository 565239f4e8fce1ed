//! Mail between agents, and to people.

use callboard_domain::command::{MailReply, MailSend};
use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::refusal::{Refusal, brief};
use callboard_engine::store::MailSeen;
use callboard_engine::{EngineError, MailFilter, MailPage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{self, Data, Fault, Said};
use super::hints;
use super::pipeline::AgentCall;
use callboard_engine::time::rfc3339_ms;

/// Mails on a page without `limit`.
pub(super) const PAGE_DEFAULT: u32 = 100;
/// The approximate size of a page.
const PAGE_BYTES: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListInbox {
    /// Default false: unread mail only
    include_read: Option<bool>,
    /// Default 100
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
    /// nextCursor of an earlier answer
    cursor: Option<String>,
}

/// The caller's inbox. A list marks nothing as read: an agent may stop before it has read a mail.
pub(super) async fn list_inbox(call: &AgentCall<'_>, args: ListInbox) -> Data {
    let cursor = args.cursor.as_deref().map(str::trim).filter(|cursor| !cursor.is_empty());
    let before = cursor.map(|cursor| {
        let words = "cursor must be the nextCursor of an earlier answer, like mail-…";
        cursor.parse::<MailId>().map_err(|_| Refusal::invalid_field("cursor", words))
    });
    let filter = MailFilter {
        // The caller's own inbox: no argument names another one.
        to: Some(call.agent.id.clone()),
        include_read: args.include_read.unwrap_or(false),
        before: before.transpose()?,
        limit: args.limit.unwrap_or(PAGE_DEFAULT) as usize,
    };
    Ok(listed(&call.engine.mail_list(call.op, filter).await?))
}

/// A page of an inbox, cut when it is too large.
pub(super) fn listed(page: &MailPage) -> Value {
    let (mut mails, mut bytes, mut more) = (Vec::new(), 0, page.more);
    let mut last = None;
    for seen in &page.mails {
        bytes += seen.mail.subject.len() + seen.mail.body.len();
        // One large mail is still shown; an empty page would have no cursor to go on with.
        if bytes > PAGE_BYTES && !mails.is_empty() {
            more = true;
            break;
        }
        mails.push(shown(seen));
        last = Some(seen.mail.id);
    }
    json!({
        "count": mails.len(),
        "unreadCount": page.unread,
        "mails": mails,
        // The cursor is the last mail shown, also where the size cut the page.
        "nextCursor": last.filter(|_| more),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MailReadRequest {
    mail_id: String,
}

/// One mail as a whole, which is read from then on.
pub(super) async fn read(call: &AgentCall<'_>, args: MailReadRequest) -> Data {
    let not_found = || Refusal::MailNotFound { mail: args.mail_id.clone() };
    let mail: MailId = args.mail_id.trim().parse().map_err(|_| not_found())?;
    // The reader's id goes along: the engine refuses mail that was sent to another agent.
    let seen = call.engine.mail_read(call.op, mail, Some(call.agent.id.clone())).await?;
    Ok(shown(&seen))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Send {
    /// Either this or toHuman
    to_agent_id: Option<String>,
    /// true: to people
    to_human: Option<bool>,
    subject: String,
    body: String,
}

/// Sends a mail to an agent, or to the inbox that people share.
pub(super) async fn send(call: &AgentCall<'_>, args: Send) -> Data {
    let to = match (args.to_agent_id, args.to_human.unwrap_or(false)) {
        (None, false) => {
            return Err(Fault::invalid("Must specify either 'toAgentId' or 'toHuman: true'"));
        }
        (Some(_), true) => {
            return Err(Fault::invalid("Cannot specify both 'toAgentId' and 'toHuman'"));
        }
        (None, true) => None,
        (Some(to), false) => Some(agent_id(&to)?),
    };
    let send = MailSend {
        mail: MailId(call.id(0)),
        from: Some(call.agent.id.clone()),
        to,
        subject: args.subject,
        body: args.body,
    };
    let mail = call.engine.mail_send(call.op, send).await?;
    Ok(json!({"mailId": mail.id, "timestamp": rfc3339_ms(mail.created_at)}))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MailReplyRequest {
    original_mail_id: String,
    body: String,
}

/// Answers a mail. Only its recipient may, and the words of both refusals are the reference's.
pub(super) async fn reply(call: &AgentCall<'_>, args: MailReplyRequest) -> Data {
    let not_found = || {
        let words = format!("Original mail with ID '{}' not found", brief(&args.original_mail_id));
        Fault::Said(Said::new(envelope::RESOURCE_NOT_FOUND, words).hint(hints::INBOX))
    };
    let original: MailId = args.original_mail_id.trim().parse().map_err(|_| not_found())?;
    let reply = MailReply {
        mail: MailId(call.id(0)),
        original,
        by: Some(call.agent.id.clone()),
        body: args.body,
    };
    let mail = call.engine.mail_reply(call.op, reply).await.map_err(|error| match error {
        EngineError::Refused(Refusal::MailNotFound { .. }) => not_found(),
        EngineError::Refused(Refusal::MailOfAnother { .. }) => {
            let words = "You can only reply to mail you received";
            Fault::Said(Said::new(envelope::PERMISSION_DENIED, words).hint(hints::INBOX))
        }
        error => error.into(),
    })?;
    Ok(json!({"mailId": mail.id, "timestamp": rfc3339_ms(mail.created_at)}))
}

/// The agent id in a text; a malformed one is an unknown agent.
pub(super) fn agent_id(given: &str) -> Result<AgentId, Refusal> {
    let unknown = || Refusal::AgentNotFound { agent: given.to_owned() };
    AgentId::parse(given.trim()).ok_or_else(unknown)
}

fn shown(seen: &MailSeen) -> Value {
    let MailSeen { mail, from_type, body_chars } = seen;
    // Lists carry the beginning of a body; `body_chars` is the length of the whole.
    let cut = body_chars - mail.body.chars().count();
    let body = match cut {
        0 => mail.body.clone(),
        cut => format!("{}[truncated {cut} chars]", mail.body),
    };
    json!({
        "id": mail.id,
        "fromAgentId": mail.from,
        "fromAgentType": from_type,
        "subject": mail.subject,
        "body": body,
        "isRead": mail.read_at.is_some(),
        "createdAt": rfc3339_ms(mail.created_at),
        "readAt": mail.read_at.map(rfc3339_ms),
        "inReplyTo": mail.in_reply_to,
    })
}
