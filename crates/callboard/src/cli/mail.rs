//! `callboard mail …`: mail from agents to people, and the answers. A caller that acts as an agent has that agent's
//! inbox.

use std::time::Duration;

use callboard_domain::command::{MailReply, MailSend};
use callboard_domain::crew::{AgentId, MailId};
use callboard_engine::store::MailSeen;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{MailFilter, MailPage};
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::task::text_or_stdin;
use crate::output::{Failure, List, Object, Style, Table};

/// Read mail that agents sent to people, answer it, write to agents
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard mail\n  callboard mail list --all")]
pub struct MailArgs {
    #[command(subcommand)]
    command: Option<MailCommand>,
}

#[derive(clap::Subcommand, Debug)]
enum MailCommand {
    List(MailListArgs),
    Read(ReadArgs),
    Send(SendArgs),
    Reply(ReplyArgs),
}

/// List unread mail, the newest first
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Example:\n  callboard mail list --wait 60")]
struct MailListArgs {
    /// Also what was read
    #[arg(long)]
    all: bool,
    /// Mail for people, also when an agent calls
    #[arg(long)]
    human: bool,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Only what is older than this mail
    #[arg(long, value_name = "MAIL")]
    before: Option<String>,
    /// While there is none, wait this long for one
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

/// Read a mail whole and mark it as read
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard mail read mail-01k0v3e8xq7rjw2m5c9n4d6t0z")]
struct ReadArgs {
    /// The mail's id, as mail list shows it
    mail: String,
}

/// Write to an agent
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard mail send worker-123 \"Please wait\" \"Until noon.\""
)]
struct SendArgs {
    /// The agent, or human
    to: String,
    /// What it is about, in a line
    subject: String,
    /// The text; - reads standard input
    body: String,
}

/// Answer a mail
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard mail reply mail-01k0v3e8xq7rjw2m5c9n4d6t0z \"Go on.\""
)]
struct ReplyArgs {
    /// The mail's id, as mail list shows it
    mail: String,
    /// The text; - reads standard input
    body: String,
}

pub async fn cmd_mail(context: &Context, args: MailArgs) -> Result<(), Failure> {
    match args.command {
        None => {
            let args = MailListArgs { limit: 20, ..MailListArgs::default() };
            cmd_mail_list(context, args).await
        }
        Some(MailCommand::List(args)) => cmd_mail_list(context, args).await,
        Some(MailCommand::Read(args)) => cmd_mail_read(context, args).await,
        Some(MailCommand::Send(args)) => cmd_mail_send(context, args).await,
        Some(MailCommand::Reply(args)) => cmd_mail_reply(context, args).await,
    }
}

async fn cmd_mail_list(context: &Context, args: MailListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let before = match &args.before {
        Some(typed) => Some(open.mail_id(typed).await?),
        None => None,
    };
    let filter = MailFilter {
        to: me(&open).filter(|_| !args.human),
        include_read: args.all,
        before,
        limit: args.limit,
    };
    let page = match args.wait {
        None => open.engine().mail_list(&open.op("mail_list"), filter).await?,
        Some(seconds) => {
            let op = open.op_long("mail_list")?;
            open.engine().mail_wait(&op, filter, Duration::from_secs(seconds)).await?
        }
    };
    if context.out.json {
        return listed(context, &page);
    }
    let now = open.engine().store().now();
    let mut table = Table::new(&["MAIL", "FROM", "AT", "SUBJECT"]);
    for MailSeen { mail, .. } in &page.mails {
        let style = if mail.read_at.is_none() { Style::Bold } else { Style::Plain };
        table.row([
            (mail.id.to_string(), Style::Plain),
            (mail.from.as_ref().map_or_else(|| "-".into(), AgentId::to_string), Style::Plain),
            (context.out.when(mail.created_at, now), Style::Plain),
            (mail.subject.clone(), style),
        ]);
    }
    if table.is_empty() {
        return context.out.line(if args.all { "no mail" } else { "no unread mail" });
    }
    context.out.raw(&table.render(&context.out))?;
    if page.more {
        context.out.note("there is more: --before takes the last id, --limit a larger page");
    }
    Ok(())
}

async fn cmd_mail_read(context: &Context, args: ReadArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let (op, by) = (open.op("mail_read"), me(&open));
    let seen = open.engine().mail_read(&op, open.mail_id(&args.mail).await?, by).await?;
    if context.out.json {
        return context.out.object(Object::Mail, document(&seen));
    }
    let MailSeen { mail, from_type, .. } = &seen;
    let from = match (&mail.from, from_type) {
        (Some(from), Some(kind)) => format!("{from} ({})", kind.as_str()),
        (Some(from), None) => from.to_string(),
        (None, _) => "-".into(),
    };
    let at = context.out.when(mail.created_at, open.engine().store().now());
    let head = format!("From: {from}\nAt: {at}\nSubject: {}", mail.subject);
    context.out.line(&format!("{head}\n\n{}", mail.body))
}

async fn cmd_mail_send(context: &Context, args: SendArgs) -> Result<(), Failure> {
    let body = text_or_stdin(args.body)?;
    let open = context.open().await?;
    let to = match args.to.trim() {
        // A mail without a recipient is for people.
        "human" => None,
        to => Some(open.agent_id(to).await?),
    };
    let mail = MailId(open.engine().fresh_id());
    let send = MailSend { mail, from: me(&open), to, subject: args.subject, body };
    let sent = open.engine().mail_send(&open.op("mail_send"), send).await?;
    said(context, sent.id)
}

async fn cmd_mail_reply(context: &Context, args: ReplyArgs) -> Result<(), Failure> {
    let body = text_or_stdin(args.body)?;
    let open = context.open().await?;
    let original = open.mail_id(&args.mail).await?;
    let mail = MailId(open.engine().fresh_id());
    let reply = MailReply { mail, original, by: me(&open), body };
    let sent = open.engine().mail_reply(&open.op("mail_reply"), reply).await?;
    said(context, sent.id)
}

fn said(context: &Context, mail: MailId) -> Result<(), Failure> {
    match context.out.json {
        true => context.out.object(Object::MailSent, json!({ "mailId": mail })),
        false => context.out.line(&mail.to_string()),
    }
}

/// The owner of the inbox: people share one, an agent has its own.
fn me(open: &Open) -> Option<AgentId> {
    let actor = &open.principal.actor;
    (!actor.is_human()).then(|| AgentId::of(actor))
}

fn listed(context: &Context, page: &MailPage) -> Result<(), Failure> {
    let mails: Vec<Value> = page.mails.iter().map(document).collect();
    // The value of --before for the page after this one; null at the end.
    let next = page.mails.last().filter(|_| page.more).map(|seen| seen.mail.id);
    let more = json!({"unreadCount": page.unread});
    context.out.list_with(List::Mails, mails, json!(next), more)
}

fn document(seen: &MailSeen) -> Value {
    let MailSeen { mail, from_type, body_chars } = seen;
    json!({
        "id": mail.id,
        "fromAgentId": mail.from,
        "fromAgentType": from_type,
        "subject": mail.subject,
        "body": mail.body,
        "bodyChars": body_chars,
        "isRead": mail.read_at.is_some(),
        "createdAt": rfc3339_ms(mail.created_at),
        "readAt": mail.read_at.map(rfc3339_ms),
        "inReplyTo": mail.in_reply_to,
    })
}
