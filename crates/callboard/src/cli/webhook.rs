//! `callboard webhook`: the messages about jobs, mail and tasks, and the secret that signs them.

use callboard_domain::runs::delivery::{Delivery, delivery_word, destination};
use callboard_domain::runs::job::{Job, JobState};
use callboard_engine::time::rfc3339_ms;
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, List, Object, Style, Table};

/// List webhook messages, and print the secret that signs them
#[derive(clap::Subcommand, Debug)]
pub enum WebhookCommand {
    List(WebhookListArgs),
    Secret(SecretArgs),
}

/// List webhook messages about ended jobs, mail and new tasks, the newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard webhook list --limit 5")]
pub struct WebhookListArgs {
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// Print the secret that signs webhook messages
///
/// Receivers check the header webhook-signature with it, after the Standard Webhooks specification.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard webhook secret > secret.txt")]
pub struct SecretArgs {}

impl WebhookCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            WebhookCommand::List(args) => cmd_webhook_list(context, args).await,
            WebhookCommand::Secret(SecretArgs {}) => cmd_webhook_secret(context).await,
        }
    }
}

async fn cmd_webhook_list(context: &Context, args: WebhookListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let sent = open.engine().delivery_list(&open.op("webhook_list"), args.limit).await?;
    if context.out.json {
        let items: Vec<Value> = sent.iter().map(|(job, letter)| document(job, letter)).collect();
        return context.out.list(List::Webhooks, items, Value::Null);
    }
    let mut table = Table::new(&["ABOUT", "TYPE", "TO", "STATE", "TRIES", "LAST"]);
    for (job, letter) in &sent {
        let last = letter.tried.as_ref().map_or("-", |tried| tried.outcome.as_str());
        table.row([
            (letter.about.to_string(), Style::Plain),
            (letter.kind.clone(), Style::Plain),
            (destination(&letter.url), Style::Plain),
            (delivery_word(&job.state).into(), Style::Plain),
            (job.tries.to_string(), Style::Plain),
            (last.to_owned(), Style::Dim),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no webhook was sent yet");
    }
    context.out.raw(&table.render(&context.out))
}

async fn cmd_webhook_secret(context: &Context) -> Result<(), Failure> {
    let open = context.open().await?;
    let secret = open.engine().webhook_secret(context.org()).await?;
    if context.out.json {
        return context.out.object(Object::WebhookSecret, json!({ "secret": secret }));
    }
    context.out.line(&secret)?;
    context.out.note("give this secret to the receiver, for any Standard Webhooks library");
    context.out.note("relay.webhook_secret sets another secret");
    Ok(())
}

fn document(job: &Job, letter: &Delivery) -> Value {
    let again_at = match job.state {
        JobState::Queued { due_at } => Some(rfc3339_ms(due_at)),
        _ => None,
    };
    json!({
        "id": letter.message_id(),
        letter.about.noun(): letter.about.to_string(),
        "to": destination(&letter.url),
        "type": letter.kind,
        "state": delivery_word(&job.state),
        "tries": job.tries,
        "tried_at": letter.tried.as_ref().map(|tried| rfc3339_ms(tried.at)),
        "outcome": letter.tried.as_ref().map(|tried| tried.outcome.clone()),
        "again_at": again_at,
    })
}
