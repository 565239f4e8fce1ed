//! `callboard learn`.

use callboard_engine::KnowledgeDraft;

use super::context::Context;
use super::search::entry_json;
use crate::output::{Failure, Object};

/// Write down a fact that the next worker should know
///
/// Search finds it at once, by its words; agents see it beside the tasks it matters to.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard learn \"Webhook retries\" --body \"The provider retries for 3 days\" --tag webhooks"
)]
pub struct LearnArgs {
    /// What it is about, in a line
    title: String,
    /// What was learned [default: the title]
    #[arg(long)]
    body: Option<String>,
    /// A word to file it under; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// How sure you are, 0..100 [default: 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    confidence: Option<u8>,
    /// The entry it takes the place of
    #[arg(long, value_name = "ID")]
    supersedes: Option<String>,
}

pub async fn cmd_learn(context: &Context, args: LearnArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let supersedes = match &args.supersedes {
        None => None,
        Some(typed) => Some(open.knowledge_id(typed).await?),
    };
    let draft = KnowledgeDraft {
        body: args.body.unwrap_or_else(|| args.title.clone()),
        title: args.title,
        tags: args.tags,
        confidence: args.confidence,
        supersedes,
        ..KnowledgeDraft::default()
    };
    let stored = open.engine().knowledge_store(&open.op("store_knowledge"), draft).await?;
    if context.out.json {
        return context.out.object(Object::Knowledge, entry_json(&stored.entry));
    }
    context.out.line(&stored.entry.id.to_string())
}
