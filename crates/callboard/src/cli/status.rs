//! `callboard status`: one screen for a person who comes back to the board.

use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::TaskRow;
use callboard_engine::store::CardRow;
use callboard_engine::{At, Holder};
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::job::question_json;
use super::view::{plain, short_id};
use super::waiting::Waiting;
use crate::output::{Failure, Object, Style, window_width};

/// Show what needs you, who works on what, and what is next
///
/// At most so many lines of each as fit on a screen; the last line says how many more there are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard status")]
pub struct StatusArgs {
    /// At most this many lines of each
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn cmd_status(context: &Context, args: StatusArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op("status");
    let limit = args.limit as usize;
    let waiting = Waiting::look(open.engine(), &op).await?;
    let holders = open.engine().holders(&op).await?;
    let next = open.engine().task_next(&op, limit + 1).await?.it;
    if context.out.json {
        return context.out.object(Object::Status, document(&waiting, &holders, &next));
    }
    let mut needs: Vec<String> = waiting.reviews.iter().map(review).collect();
    needs.extend(waiting.questions.iter().map(|record| asked(&open, record)));
    needs.extend(waiting.failed.iter().map(|record| failed(&open, record)));
    let works = holders.it.iter().map(|holder| works(&open, holder, &holders)).collect();
    let next = next.iter().map(start).collect();
    section(&open, "needs you", needs, limit, "nothing waits for you")?;
    section(&open, "at work", works, limit, "no actor holds a task")?;
    section(&open, "next", next, limit, "nothing is free to start")
}

fn section(
    open: &Open,
    name: &str,
    lines: Vec<String>,
    limit: usize,
    none: &str,
) -> Result<(), Failure> {
    let out = &open.out;
    out.line(&out.styled(Style::Bold, name))?;
    if lines.is_empty() {
        return out.line(&format!("  {none}"));
    }
    let more = lines.len().saturating_sub(limit);
    for line in lines.into_iter().take(limit) {
        out.line(&fitted(open, &format!("  {line}")))?;
    }
    if more > 0 { out.line(&format!("  … and {more} more")) } else { Ok(()) }
}

/// A line cut to the width of the terminal.
fn fitted(open: &Open, line: &str) -> String {
    let room = window_width();
    if !open.out.terminal || line.chars().count() <= room {
        return line.to_owned();
    }
    let head: String = line.chars().take(room.saturating_sub(1)).collect();
    format!("{head}…")
}

/// On a terminal the end of an id, which every command accepts.
fn id(open: &Open, id: impl ToString) -> String {
    let id = id.to_string();
    if open.out.terminal { short_id(&id) } else { id }
}

fn review(row: &CardRow) -> String {
    format!("review    {}  {}", row.task.name(), plain(&row.task.title))
}

fn asked(open: &Open, record: &RunRecord) -> String {
    let text = record.asks().map(|asked| plain(&asked.text)).unwrap_or_default();
    let task = record.job.task.map(|task| format!("{}  ", id(open, task))).unwrap_or_default();
    format!("question  {task}{text}: callboard job answer {} yes|no", record.job.id)
}

fn failed(open: &Open, record: &RunRecord) -> String {
    let task = record.job.task.map(|task| format!("{}  ", id(open, task))).unwrap_or_default();
    let why = record.run.summary.as_deref().map(plain).unwrap_or_default();
    format!("failed    {task}{}  {why}", record.job.id)
}

fn works(open: &Open, holder: &Holder, all: &At<Vec<Holder>>) -> String {
    let Holder { actor, row } = holder;
    let newest = row.newest.as_ref().filter(|newest| newest.is_live(all.now));
    let since =
        newest.map(|newest| format!(", since {}", open.out.when(newest.started_at, all.now)));
    let (task, status) = (&row.task, &row.task.label);
    let since = since.unwrap_or_default();
    format!("{actor}  {}  {} ({status}{since})", task.name(), plain(&task.title))
}

fn start(row: &TaskRow) -> String {
    format!("{}  {}", row.task.name(), plain(&row.task.title))
}

fn document(waiting: &Waiting, holders: &At<Vec<Holder>>, next: &[TaskRow]) -> Value {
    let review = |row: &CardRow| json!({"id": row.task.id, "number": row.task.number, "title": row.task.title});
    let failed = |record: &RunRecord| json!({"job": record.job.id, "task": record.job.task, "summary": record.run.summary});
    let holder = |one: &Holder| {
        let task = &one.row.task;
        json!({"actor": one.actor, "id": task.id, "number": task.number, "title": task.title, "status": task.label})
    };
    let start = |row: &TaskRow| json!({"id": row.task.id, "number": row.task.number, "title": row.task.title});
    json!({
        "reviews": waiting.reviews.iter().map(review).collect::<Vec<_>>(),
        "questions": waiting.questions.iter().map(question_json).collect::<Vec<_>>(),
        "failed": waiting.failed.iter().map(failed).collect::<Vec<_>>(),
        "working": holders.it.iter().map(holder).collect::<Vec<_>>(),
        "next": next.iter().map(start).collect::<Vec<_>>(),
    })
}
