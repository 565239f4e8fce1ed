//! `callboard next`.

use callboard_engine::{Digest, DigestTask};
use serde_json::{Value, json};

use super::context::Context;
use super::search::hit_json;
use super::view::task_row_json;
use crate::output::{Failure, List, Style, Table};

/// For how many tasks knowledge is looked up.
const DIGESTS_MAX: usize = 20;

/// List the tasks that can start now, best first, with knowledge that matters to them
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard next --limit 1 --json")]
pub struct NextArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn cmd_next(context: &Context, args: NextArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let rows = open.engine().task_next(&open.op("list"), args.limit as usize).await?;
    let mut tasks = Vec::new();
    // Each digest is a search, and few people read beyond the first screen.
    for row in rows.it.iter().take(DIGESTS_MAX) {
        let seen = open.engine().task_get(&open.op("show"), row.task.id).await?;
        tasks.push(DigestTask::from(&seen.it));
    }
    let digests = open.engine().knowledge_digest(&open.op("list"), &tasks).await;
    if context.out.json {
        let known = |place: usize| digests.get(place).map(digest_json).unwrap_or_default();
        let row = |(place, row)| {
            let mut document = task_row_json(row, open.engine().policy(), rows.now);
            document["knowledge"] = known(place);
            document
        };
        let shown: Vec<Value> = rows.it.iter().enumerate().map(row).collect();
        return context.out.list(List::Next, shown, Value::Null);
    }
    open.print_rows(&rows, false).await?;
    if rows.it.is_empty() {
        context.out.note(
            "nothing is free to start; callboard task list --open shows what is held or blocked",
        );
    }
    let names: Vec<String> = rows.it.iter().map(|row| row.task.name().to_string()).collect();
    print_known(context, &names, &digests)
}

fn digest_json(digest: &Digest) -> Value {
    let references: Vec<Value> = digest.references.iter().map(hit_json).collect();
    json!({"references": references, "degraded": digest.degraded})
}

fn print_known(context: &Context, names: &[String], digests: &[Digest]) -> Result<(), Failure> {
    let mut table = Table::new(&["FOR", "SCORE", "WORTH KNOWING", "SNIPPET"]);
    for (name, digest) in names.iter().zip(digests) {
        for hit in &digest.references {
            table.row([
                (name.clone(), Style::Plain),
                (format!("{:.2}", hit.score), Style::Plain),
                (hit.entry.title.clone(), Style::Bold),
                (hit.snippet.clone(), Style::Plain),
            ]);
        }
    }
    if table.is_empty() {
        Ok(())
    } else {
        context.out.raw(&format!("\n{}", table.render(&context.out)))
    }
}
