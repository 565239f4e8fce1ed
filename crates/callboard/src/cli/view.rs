//! Tasks for people, and as `--json` prints them: the shapes of the graph toolset.

use callboard_domain::board::card::AgentMessage;
use callboard_domain::board::why::Why;
use callboard_domain::decide::verification;
use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::refusal::{Refusal, UnmetCheck};
use callboard_domain::runs::job::{Job, JobState};
use callboard_domain::task::block::Blocked;
use callboard_domain::task::comment::Comment;
use callboard_domain::task::{Check, CheckKind, Task, TaskRecord, TaskRow, VerdictSource};
use callboard_domain::time::Timestamp;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{At, EngineError};
use callboard_surface::toolsets::graph::view;
use serde_json::{Value, json};

/// Agents may write control characters, and a terminal must not obey them.
pub use callboard_domain::event::plain;

use super::context::Open;
use crate::output::{Failure, List, Object, Out, Style, Table};

/// Lines from the end of a failed check's log.
const LOG_LINES_SHOWN: usize = 10;
const COLUMNS: [&str; 7] = ["ID", "PRIO", "STATUS", "READY", "CHECKS", "ASSIGNEE", "TITLE"];
/// How many characters from the end of an id commands accept in its place.
const ID_END_CHARS: usize = 8;

impl Open {
    /// Prints the result of a command that changed one task: its line, or the whole task as JSON.
    pub fn print_changed(&self, seen: &At<TaskRecord>) -> Result<(), Failure> {
        if self.out.json {
            return self.print_json(seen);
        }
        let mut table = task_table().without_heads();
        table.row(cells(&seen.it.task, None, &self.out));
        self.out.raw(&table.render(&self.out))
    }

    /// Prints the result of a command that moved a task, or tried to.
    pub fn print_moved(
        &self,
        id: TaskId,
        moved: Result<At<TaskRecord>, EngineError>,
    ) -> Result<(), Failure> {
        match moved {
            Ok(seen) => self.print_changed(&seen),
            Err(error) => {
                if let EngineError::Refused(Refusal::ChecksNotPassed { checks, .. }) = &error {
                    self.show_logs(checks);
                }
                Err(Failure::from(error).about(id))
            }
        }
    }

    /// Prints the ends of the logs of failed checks, which a person would look at next.
    pub fn show_logs(&self, checks: &[UnmetCheck]) {
        let Some(root) = self.root.as_ref().filter(|_| !self.out.json) else { return };
        for check in checks {
            let Some(log) = &check.log else { continue };
            // A log that cannot be read is still named in the hint.
            let text = std::fs::read(root.join(log)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            // Facts about the run stand above this line, the output of the check below it.
            let output = text.split_once("\n----\n").map_or("", |(_, output)| output);
            let lines: Vec<&str> = output.lines().collect();
            for line in &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
                self.out.note(&format!("  {}", plain(line)));
            }
        }
    }

    /// Prints a task's checks, one per line.
    pub fn print_checks(&self, seen: &At<TaskRecord>) -> Result<(), Failure> {
        if self.out.json {
            return self.print_json(seen);
        }
        self.out.raw(&check_lines(&seen.it.task, &self.out))
    }

    pub fn print_json(&self, seen: &At<TaskRecord>) -> Result<(), Failure> {
        self.out.object(Object::Task, view::task(&seen.it, self.policy(), seen.now))
    }

    /// Prints a page of tasks; `more` says that others follow the last one.
    pub async fn print_rows(&self, rows: &At<Vec<TaskRow>>, more: bool) -> Result<(), Failure> {
        let next = rows.it.last().filter(|_| more).map(|row| row.task.id);
        if self.out.json {
            let row = |row| task_row_json(row, self.policy(), rows.now);
            let tasks: Vec<_> = rows.it.iter().map(row).collect();
            return self.out.list(List::Tasks, tasks, json!(next));
        }
        let mut table = task_table();
        let waits = |row: &&TaskRow| {
            let is_held_up = row.task.phase == Phase::Initial || row.task.blocked.is_some();
            is_held_up && !row.task.is_ready()
        };
        let waiting: Vec<TaskRow> = rows.it.iter().filter(waits).cloned().collect();
        let whys = self.engine().whys(&self.op("list"), &waiting, rows.now).await?;
        let mut whys = whys.iter();
        for row in &rows.it {
            let why = waits(&row).then(|| whys.next()).flatten();
            table.row(cells(&row.task, why, &self.out));
        }
        if !table.is_empty() {
            self.out.raw(&table.render(&self.out))?;
        }
        if let Some(next) = next {
            self.out.note(&format!("more: --after {next}"));
        }
        Ok(())
    }
}

/// The state of the job that runs a task's checks for review.
pub fn check_job_line(job: &Job) -> String {
    let why = match &job.state {
        JobState::Failed { reason, .. } => format!(": {}", plain(reason)),
        _ => String::new(),
    };
    format!("{:<10}{}{why} ({})\n", "checking", job.state.as_str(), job.id)
}

pub fn check_job_json(job: &Job) -> Value {
    let reason = match &job.state {
        JobState::Failed { reason, .. } => Some(reason),
        _ => None,
    };
    json!({
        "id": job.id,
        "taskId": job.task,
        "role": job.kind,
        "state": job.state.as_str().to_uppercase(),
        "attempt": job.tries,
        "reason": reason,
        "askedAt": rfc3339_ms(job.created_at),
    })
}

/// The contract of a task, and the state of its verification.
pub fn verification_words(task: &Task, policy: &Policy) -> String {
    let contract = verification::contract(task, policy);
    let known = task.verification.as_ref();
    let named = known.and_then(|known| known.external_ref.as_ref());
    let reference = named.or(contract.external_ref.as_ref());
    let mut words = contract.kind.as_str().to_owned();
    words += &reference.map(|reference| format!(" {}", plain(reference))).unwrap_or_default();
    if let Some(known) = known {
        words += &format!(", {}", known.status.as_str());
        words += &known.reason.as_ref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    }
    words
}

pub fn verification_json(task: &Task, policy: &Policy) -> Value {
    let known = task.verification.as_ref();
    json!({
        "contract": verification::contract(task, policy),
        "explicit": task.contract.is_some(),
        "status": known.map(|known| known.status),
        "reason": known.and_then(|known| known.reason.as_ref()),
        "external_ref": known.and_then(|known| known.external_ref.as_ref()),
    })
}

pub fn comment_line(comment: &Comment) -> String {
    let name = if comment.blocks() { "blocker" } else { "comment" };
    let open = if comment.is_open() { "open" } else { "resolved" };
    let Comment { id, kind, author, body, .. } = comment;
    format!("{name:<10}{id} ({}, {open}) {author}: {}\n", kind.as_str(), plain(body))
}

/// A message that no agent has got yet.
pub fn told_json(told: &AgentMessage) -> Value {
    json!({"by": told.by, "at": rfc3339_ms(told.at), "text": told.text})
}

pub fn comment_json(comment: &Comment) -> Value {
    let resolved = comment.resolved.as_ref();
    json!({
        "id": comment.id.to_string(),
        "kind": comment.kind.as_str(),
        "author": comment.author,
        "body": comment.body,
        "rationale": comment.rationale,
        "parent": comment.parent.map(|parent| parent.to_string()),
        "created_at": rfc3339_ms(comment.created_at),
        "open": comment.is_open(),
        "resolved_by": resolved.map(|resolved| &resolved.by),
        "resolution": resolved.and_then(|resolved| resolved.words.as_ref()),
    })
}

/// An item of lists of tasks.
pub fn task_row_json(row: &TaskRow, policy: &Policy, now: Timestamp) -> Value {
    let mut document = view::task_row(row, policy, now);
    document["priority"] = row.task.priority.into();
    document
}

fn task_table() -> Table {
    Table::new(&COLUMNS)
        .shorten(2, short_status)
        .shorten(3, short_ready)
        .shorten(4, short_checks)
        .shorten(5, short_actor)
}

/// The end of an id, which every command accepts in its place.
pub fn short_id(id: &str) -> String {
    if TaskName::parse(id).is_some() {
        return id.to_owned();
    }
    let count = id.chars().count();
    id.chars().skip(count.saturating_sub(ID_END_CHARS)).collect()
}

/// `claude-1` for `agent:claude-1`.
pub fn short_actor(actor: &str) -> String {
    actor.split_once(':').map_or(actor, |(_, name)| name).to_owned()
}

/// The word without its glyph.
fn short_status(status: &str) -> String {
    status.split_once(' ').map_or(status, |(_, word)| word).to_owned()
}

/// `blocked` for `blocked: the door is locked`.
fn short_ready(ready: &str) -> String {
    ready.split_once(':').map_or(ready, |(word, _)| word).to_owned()
}

/// `1/2 ✗` for `1/2 fail`.
fn short_checks(checks: &str) -> String {
    let glyphs = [(" pass", " ✓"), (" fail", " ✗"), (" pending", " ·")];
    glyphs.iter().fold(checks.to_owned(), |text, (word, glyph)| text.replace(word, glyph))
}

/// The cells of a task; a task that cannot start shows its why-line, where one is given.
fn cells(task: &Task, why: Option<&Why>, out: &Out) -> [(String, Style); 7] {
    let ready = match (task.phase.is_closed(), task.is_ready(), why) {
        (true, ..) => ("-".to_owned(), Style::Dim),
        (false, true, _) => ("ready".to_owned(), Style::Green),
        (false, false, None) => ("blocked".to_owned(), Style::Yellow),
        (false, false, Some(why)) => (blocked_line(why), Style::Yellow),
    };
    let assignee = task.assignee.as_ref().map_or("-".into(), ToString::to_string);
    [
        (task.name().to_string(), Style::Plain),
        (task.priority.to_string(), Style::Dim),
        status(task, out),
        ready,
        checks(&task.checks),
        (assignee, Style::Plain),
        (task.title.clone(), Style::Plain),
    ]
}

/// `blocked: no key` for a block, `blocked: waits for SHOP-3` for anything else in the way.
fn blocked_line(why: &Why) -> String {
    let line = why.line();
    let mut rest = line.chars();
    let first = rest.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    let line = format!("{first}{}", rest.as_str());
    if line.starts_with("blocked: ") { line } else { format!("blocked: {line}") }
}

/// `agent:x, 2026-01-01T00:00:00.000Z: why`.
pub fn blocked_words(blocked: &Blocked) -> String {
    format!("{}, {}: {}", blocked.by, rfc3339_ms(blocked.at), plain(&blocked.reason))
}

/// The status word. On a terminal it has a glyph beside it, so that nothing depends on colour.
pub fn status(task: &Task, out: &Out) -> (String, Style) {
    let (glyph, style) = match task.phase {
        Phase::Initial => ("○", Style::Plain),
        Phase::Working => ("◐", Style::Yellow),
        Phase::Review => ("◑", Style::Cyan),
        Phase::ClosedDone => ("●", Style::Green),
        Phase::ClosedCanceled => ("✕", Style::Dim),
    };
    let text = if out.terminal { format!("{glyph} {}", task.label) } else { task.label.clone() };
    (text, style)
}

pub fn checks(checks: &[Check]) -> (String, Style) {
    let count = |result: &str| checks.iter().filter(|check| check.result() == result).count();
    let (passed, failed, all) = (count("pass"), count("fail"), checks.len());
    match (all, failed) {
        (0, _) => ("-".into(), Style::Dim),
        (_, 0) if passed == all => (format!("{passed}/{all} pass"), Style::Green),
        (_, 0) if count("stale") > 0 => (format!("{passed}/{all} stale"), Style::Yellow),
        (_, 0) => (format!("{passed}/{all} pending"), Style::Plain),
        _ => (format!("{passed}/{all} fail"), Style::Red),
    }
}

pub fn check_lines(task: &Task, out: &Out) -> String {
    let line = |(index, check): (usize, &Check)| {
        let (result, style) = check_result(check, out);
        format!("check {index:<4}{}  {}\n", out.styled(style, &result), said(check))
    };
    task.checks.iter().enumerate().map(line).collect()
}

fn check_result(check: &Check, out: &Out) -> (String, Style) {
    let result = check.result();
    let (glyph, style) = match result {
        "pass" => ("✓", Style::Green),
        "fail" => ("✗", Style::Red),
        "stale" => ("↻", Style::Yellow),
        _ => ("·", Style::Plain),
    };
    let text = if out.terminal { format!("{glyph} {result}") } else { result.to_owned() };
    (format!("{text:<9}"), style)
}

fn said(check: &Check) -> String {
    let what = match &check.kind {
        CheckKind::Command { cmd, .. } if *cmd == check.desc => plain(cmd),
        CheckKind::Command { cmd, .. } => format!("{} ({})", plain(&check.desc), plain(cmd)),
        CheckKind::Manual => format!("manual: {}", plain(&check.desc)),
    };
    match check.verdict.as_ref().map(|verdict| &verdict.source) {
        Some(VerdictSource::Run { log, .. }) => format!("{what}  [{log}]"),
        Some(VerdictSource::Attested { by }) => format!("{what}  [{by}]"),
        None => what,
    }
}

pub fn plain_lines(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
