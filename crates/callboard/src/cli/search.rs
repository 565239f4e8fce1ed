//! `callboard search`.

use callboard_domain::knowledge::KnowledgeAsk;
use callboard_domain::knowledge::KnowledgeEntry;
use callboard_engine::store::knowledge::KnowledgeHit;
use callboard_engine::time::rfc3339_ms;
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, List, Style, Table};

/// Find what was learned, best first
///
/// A score is between 0 and 1; from about 0.5 on an entry is about what was asked.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard search \"how long are webhooks retried\" --tag webhooks"
)]
pub struct SearchArgs {
    /// What to look for; every character is meant as it is
    query: String,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50))]
    limit: u32,
    /// Only what is filed under this; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only from this score on, 0..1
    #[arg(long, value_name = "SCORE", default_value_t = 0.0)]
    min_score: f64,
    /// Also what was superseded or has expired
    #[arg(long)]
    all: bool,
}

pub async fn cmd_search(context: &Context, args: SearchArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let ask = KnowledgeAsk {
        limit: args.limit as usize,
        tags: args.tags,
        min_score: args.min_score,
        include_superseded: args.all,
        include_expired: args.all,
        ..KnowledgeAsk::of(args.query)
    };
    let found = open.engine().knowledge_search(&open.op("search_knowledge"), ask).await?;
    if context.out.json {
        let results: Vec<Value> = found.hits.iter().map(hit_json).collect();
        return context.out.list_with(
            List::Knowledge,
            results,
            Value::Null,
            json!({"degraded": found.degraded}),
        );
    }
    if found.degraded {
        context.out.note("vectors cannot be used, so only words decide; see callboard doctor");
    }
    if found.hits.is_empty() {
        context.out.note("no knowledge matches");
        return Ok(());
    }
    let mut table = Table::new(&["ID", "SCORE", "TITLE", "SNIPPET"]);
    for hit in &found.hits {
        table.row([
            (hit.entry.id.to_string(), Style::Plain),
            (format!("{:.2}", hit.score), Style::Plain),
            (hit.entry.title.clone(), Style::Bold),
            (hit.snippet.clone(), Style::Plain),
        ]);
    }
    context.out.raw(&table.render(&context.out))
}

pub(super) fn hit_json(hit: &KnowledgeHit) -> Value {
    let mut value = entry_json(&hit.entry);
    value["score"] = json!((hit.score * 1000.0).round() / 1000.0);
    value["snippet"] = hit.snippet.as_str().into();
    value
}

pub(super) fn entry_json(entry: &KnowledgeEntry) -> Value {
    json!({
        "id": entry.id,
        "title": entry.title,
        "body": entry.body,
        "tags": entry.tags,
        "confidence": entry.confidence,
        "source": entry.source.as_str(),
        "sourceTaskId": entry.source_task,
        "createdAt": rfc3339_ms(entry.created_at),
        "createdBy": entry.created_by,
        "expiresAt": entry.expires_at.map(rfc3339_ms),
        "supersededBy": entry.superseded_by,
    })
}
