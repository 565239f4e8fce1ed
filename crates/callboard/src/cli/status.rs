//! `callboard status`: one screen for a person who comes back to the board.

use callboard_domain::board::inbox::{Inbox, InboxFact, InboxRow};
use callboard_domain::board::why::{Tone, Why};
use callboard_domain::policy::Phase;
use callboard_domain::task::TaskRow;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{At, Holder, Holders};
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::view::plain;
use super::waiting;
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

/// How many held tasks beyond the shown ones are counted.
const HELD_COUNTED: usize = 100;

pub async fn cmd_status(context: &Context, args: StatusArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op("status");
    let limit = args.limit as usize;
    let inbox = waiting::inbox(open.engine(), &op).await?.it;
    // A script gets every holder; a person sees the first ones.
    let most = if context.out.json { usize::MAX } else { limit + HELD_COUNTED };
    let At { it: Holders { first, is_cut }, now } = open.engine().holders(&op, most).await?;
    let holders = At { it: first, now };
    // One more than is shown, so that the last line can say that there are more.
    let next = open.engine().task_next(&op, limit + 1).await?.it;
    if context.out.json {
        return context.out.object(Object::Status, document(&inbox, &holders, &next));
    }
    // Reasons cost reads, so only those of the shown lines are asked for.
    let shown: Vec<TaskRow> = holders.it.iter().take(limit).map(|one| one.row.clone()).collect();
    let whys = open.engine().whys(&op, &shown, holders.now).await?;
    let needs = inbox.rows.iter().map(needs).collect();
    let holds = |(place, holder)| works(&open, holder, whys.get(place), &holders);
    let works = holders.it.iter().enumerate().map(holds).collect();
    let next = next.iter().map(start).collect();
    section(&open, ("needs you", "nothing waits for you"), needs, false, limit)?;
    section(&open, ("at work", "no actor holds a task"), works, is_cut, limit)?;
    section(&open, ("next", "nothing is free to start"), next, false, limit)
}

/// One part of the screen, cut at the limit. `is_cut`: there are more lines than these.
fn section(
    open: &Open,
    (name, none): (&str, &str),
    lines: Vec<String>,
    is_cut: bool,
    limit: usize,
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
    match (more, is_cut) {
        (0, _) => Ok(()),
        (_, false) => out.line(&format!("  … and {more} more")),
        (_, true) => out.line(&format!("  … and more than {more} more")),
    }
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

/// A row of the inbox: its cause, its subject, and the consequence or the command that answers.
fn needs(row: &InboxRow) -> String {
    let task = row.task.as_ref().map(|task| format!("{}  ", task.name)).unwrap_or_default();
    let (title, consequence) = (plain(&row.title), plain(&row.consequence));
    match &row.fact {
        InboxFact::Question { job, text, .. } => {
            format!("question  {task}{}: callboard job answer {job} yes|no", plain(text))
        }
        InboxFact::RunFailed { job, reason } => format!("failed    {task}{job}  {}", plain(reason)),
        InboxFact::Review { .. } => format!("review    {task}{title}"),
        InboxFact::Plan { plan, .. } => format!("plan      {plan}  {title}"),
        InboxFact::Mail { mail, .. } => format!("mail      {mail}  {title}"),
        InboxFact::Silent
        | InboxFact::Conflict { .. }
        | InboxFact::VerificationFailed { .. }
        | InboxFact::CheckStreak { .. }
        | InboxFact::Approved
        | InboxFact::WorkerFailed { .. }
        | InboxFact::DiskOver { .. }
        | InboxFact::Blocked { .. }
        | InboxFact::Comment { .. } => {
            format!("{:<10}{task}{title}: {consequence}", row.cause.as_str())
        }
    }
}

/// A holder with its task; with the why-line where something is late, failed, or asks for a person.
fn works(open: &Open, holder: &Holder, why: Option<&Why>, all: &At<Vec<Holder>>) -> String {
    let Holder { actor, row } = holder;
    let newest = row.newest.as_ref().filter(|newest| newest.is_live(all.now));
    let since =
        newest.map(|newest| format!(", since {}", open.out.when(newest.started_at, all.now)));
    let (task, status) = (&row.task, &row.task.label);
    let since = since.unwrap_or_default();
    let why = why.filter(|why| match why.tone {
        Tone::Person | Tone::Late | Tone::Failed => true,
        Tone::Plain | Tone::Now | Tone::Proved => false,
    });
    let why = why.map(|why| format!(": {}", why.line())).unwrap_or_default();
    format!("{actor}  {}  {} ({status}{since}){why}", task.name(), plain(&task.title))
}

fn start(row: &TaskRow) -> String {
    format!("{}  {}", row.task.name(), plain(&row.task.title))
}

/// The whole screen for scripts. `reviews`, `questions` and `failed` are rows of the inbox once more, with keys of
/// their own.
fn document(inbox: &Inbox, holders: &At<Vec<Holder>>, next: &[TaskRow]) -> Value {
    let rows = &inbox.rows;
    let holder = |one: &Holder| {
        let task = &one.row.task;
        json!({"actor": one.actor, "id": task.id, "number": task.number, "title": task.title, "status": task.label})
    };
    let start = |row: &TaskRow| json!({"id": row.task.id, "number": row.task.number, "title": row.task.title});
    json!({
        "inbox": rows.iter().map(inbox_json).collect::<Vec<_>>(),
        "reviews": rows.iter().filter_map(review_json).collect::<Vec<_>>(),
        "questions": rows.iter().filter_map(question_json).collect::<Vec<_>>(),
        "failed": rows.iter().filter_map(failed_json).collect::<Vec<_>>(),
        "working": holders.it.iter().map(holder).collect::<Vec<_>>(),
        "next": next.iter().map(start).collect::<Vec<_>>(),
    })
}

fn inbox_json(row: &InboxRow) -> Value {
    json!({
        "key": row.key,
        "cause": row.cause.as_str(),
        "title": row.title,
        "task": row.task.as_ref().map(|task| task.id),
        "actor": row.actor,
        "since": rfc3339_ms(row.since),
        "deadline": row.deadline.map(rfc3339_ms),
        "consequence": row.consequence,
    })
}

/// A task in review, whatever its strongest cause is.
fn review_json(row: &InboxRow) -> Option<Value> {
    let task = row.task.as_ref().filter(|task| task.phase == Phase::Review)?;
    Some(json!({"id": task.id, "number": task.name.number, "title": task.title}))
}

/// A question of an agent, if the row is one.
fn question_json(row: &InboxRow) -> Option<Value> {
    let InboxFact::Question { job, number, text, command } = &row.fact else { return None };
    let task = row.task.as_ref().map(|task| task.id);
    Some(json!({"job": job, "task": task, "number": number, "text": text, "command": command}))
}

/// A failed run, if the row is one.
fn failed_json(row: &InboxRow) -> Option<Value> {
    let InboxFact::RunFailed { job, reason } = &row.fact else { return None };
    Some(json!({"job": job, "task": row.task.as_ref().map(|task| task.id), "summary": reason}))
}
