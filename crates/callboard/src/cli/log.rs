//! `callboard log`: what happened, and what happens now.

use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::TaskId;
use callboard_surface::time::rfc3339_ms;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::view::plain;
use crate::output::{Exit, Failure, Style, Table};

/// Show who did what, when
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard log SHOP-01j8x2k7\n  callboard log --follow --json")]
pub struct LogArgs {
    /// Only this task
    id: Option<String>,
    /// Go on printing what happens
    #[arg(short, long)]
    follow: bool,
    /// The newest N events only
    #[arg(long, value_name = "N", default_value_t = 50)]
    tail: usize,
}

const PAGE: usize = 1000;

pub async fn cmd_log(context: &Context, args: LogArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let task = match &args.id {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    if args.follow {
        return follow(&open, task, args.tail).await;
    }
    let events = newest(&open, task, args.tail).await?;
    if context.out.json {
        let events: Vec<Value> = events.iter().map(to_json).collect();
        return context.out.document(&json!({"events": events}));
    }
    let mut table = Table::new(&["AT", "WHO", "EVENT", "TASK", "WHAT"]).whole();
    events.iter().for_each(|event| table.row(cells(event)));
    context.out.raw(&table.render(&context.out))
}

async fn follow(open: &Open, task: Option<TaskId>, tail: usize) -> Result<(), Failure> {
    let op = open.op_long("log")?;
    // Watching starts before reading, so nothing falls between the two.
    let watch = match task {
        Some(task) => open.engine().task_watch(task).await?,
        None => open.engine().event_watch().await?,
    };
    let mut fresh = newest(open, task, tail).await?;
    let mut seen = open.engine().last_seq().await?.min(fresh.last().map_or(u64::MAX, |e| e.seq));
    loop {
        for event in &fresh {
            seen = seen.max(event.seq);
            print_line(open, event)?;
        }
        if fresh.len() < PAGE {
            tokio::select! {
                () = watch.changed() => {}
                () = op.cancel.cancelled() => return Err(Failure::Silent(Exit::Interrupted as u8)),
            }
        }
        fresh = open.engine().event_list(&op, seen, task, PAGE).await?;
    }
}

/// The last `tail` events. The log is read from its end where that is known.
async fn newest(
    open: &Open,
    task: Option<TaskId>,
    tail: usize,
) -> Result<Vec<LoggedEvent>, Failure> {
    let op = open.op("log");
    let last = open.engine().last_seq().await?;
    let mut after = if task.is_some() { 0 } else { last.saturating_sub(tail as u64) };
    let mut events: Vec<LoggedEvent> = Vec::new();
    loop {
        let page = open.engine().event_list(&op, after, task, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map_or(after, |event| event.seq);
        events.extend(page);
        events.drain(..events.len().saturating_sub(tail));
        if is_last {
            return Ok(events);
        }
    }
}

fn print_line(open: &Open, event: &LoggedEvent) -> Result<(), Failure> {
    if open.out.json {
        return open.out.line(&to_json(event).to_string());
    }
    let cells = cells(event).map(|(text, style)| open.out.styled(style, &text));
    open.out.line(cells.join("  ").trim_end())
}

fn to_json(event: &LoggedEvent) -> Value {
    json!({
        "seq": event.seq,
        "at": rfc3339_ms(event.at),
        "actor": event.actor,
        "event": event.name.as_str(),
        "task": event.task(),
        "attempt": event.about.and_then(|about| about.attempt),
        "data": event.data,
    })
}

fn cells(event: &LoggedEvent) -> [(String, Style); 5] {
    [
        (rfc3339_ms(event.at), Style::Dim),
        (event.actor.to_string(), Style::Plain),
        (event.name.as_str().to_owned(), Style::Bold),
        (event.task().map(|task| task.to_string()).unwrap_or_default(), Style::Plain),
        (summary(&event.data), Style::Plain),
    ]
}

/// `from in_review, to done`: the values of an event in its order, but for hashes.
fn summary(data: &Value) -> String {
    let shown = |(name, value): (&String, &Value)| match value {
        _ if name == "tree" => None,
        Value::Null => None,
        Value::String(text) => Some(format!("{name} {}", plain(text))),
        Value::Bool(_) | Value::Number(_) => Some(format!("{name} {value}")),
        Value::Array(items) if items.is_empty() => None,
        Value::Array(_) | Value::Object(_) => Some(format!("{name} {value}")),
    };
    let fields: Vec<String> = data.as_object().into_iter().flatten().filter_map(shown).collect();
    fields.join(", ")
}
