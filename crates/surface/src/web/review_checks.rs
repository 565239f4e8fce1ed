//! The checks of a task, on its page and on its review: their results with durations and files, the end of the log of a
//! check that fails, and the forms that run them again or attest them. Also the page with the whole log of a check.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::rights::PersonVerb;
use callboard_domain::runs::notes::CHECK_CONFINED;
use callboard_domain::task::{Check, CheckKind, Task, Verdict, VerdictSource};
use callboard_domain::time::Timestamp;
use callboard_engine::{CheckLogLines, LogLine, LogQuery, LogSpan, LogWindow};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::log::{self, LogView};
use super::parts::{Tone, ago, check_tone, icon, note, pip, span};
use super::review::short;
use super::task::found;
use super::task_verbs::why_not;

/// How many lines of a log stand beside a check.
const TAIL_LINES: usize = 12;
/// The line below the facts at the head of a log, and the number of lines within which it stands.
const HEAD_END: &str = "----";
const HEAD_LINES_MAX: u64 = 12;
/// The logs of so many failing checks are read.
/// Each log is read from disk or from the store while the reader waits.
const TAILS_MAX: usize = 5;

/// The end of the log of a check that fails.
pub(super) struct CheckTail {
    index: usize,
    /// `None`: the log is not on this machine.
    window: Option<LogWindow>,
}

/// Reads the ends of the logs of failing checks.
pub(super) async fn tails(page: &Page, task: &Task) -> Vec<CheckTail> {
    // A manual check has no log, and the log of a check that passed is a click away.
    let is_failed = |check: &Check| check.is_command() && check.result() == "fail";
    let failed = task.checks.iter().enumerate().filter(|(_, check)| is_failed(check));
    let mut tails = Vec::new();
    for (index, _) in failed.take(TAILS_MAX) {
        let query = LogQuery::default();
        let read = page.engine.check_log_lines(&page.op(), task.id, index, &query).await;
        // A log that cannot be read does not keep the review from being shown.
        tails.push(CheckTail { index, window: read.ok().map(|log| log.window) });
    }
    tails
}

/// Where the checks of a task are shown.
pub(super) struct CheckPanel<'p> {
    pub task: &'p Task,
    pub now: Timestamp,
    pub tails: &'p [CheckTail],
    /// The page that comes after a form.
    pub back: String,
    /// The words of the button that runs all checks, and its key.
    pub run: (&'static str, Option<&'static str>),
    /// What stands in the place of checks.
    pub none: Markup,
    /// The state of the job that runs the checks now.
    pub running: Option<&'static str>,
}

/// The panel of the checks.
pub(super) fn checks(page: &Page, panel: &CheckPanel<'_>) -> Markup {
    let task = panel.task;
    let passed = task.checks.iter().filter(|check| check.result() == "pass").count();
    let has_commands = task.checks.iter().any(Check::is_command);
    html! {
        section.box aria-labelledby="checks-title" {
            div.box-head {
                h2 #checks-title { "Checks" } span.faint { (passed) " of " (task.checks.len()) }
                @if let Some(state) = panel.running { span.faint { "running: " (state) } }
                @if page.acts() && has_commands && !task.phase.is_closed() {
                    span.row-end { (run_form(page, panel, None)) }
                }
            }
            @if task.checks.is_empty() { p.box-body.soft { (panel.none) } }
            ol.lines { @for (index, check) in task.checks.iter().enumerate() {
                (line(page, panel, index, check))
            } }
        }
    }
}

/// Runs one check, or all of them, and stays on the page.
fn run_form(page: &Page, panel: &CheckPanel<'_>, index: Option<usize>) -> Markup {
    let (task, denied) = (panel.task, why_not(page, PersonVerb::RunChecks));
    let (words, key) = panel.run;
    // The button of one check has no words; that of all checks has, and they are its name.
    let label = index.map(|index| format!("Run check {} again", index + 1));
    html! {
        form method="post" action={ "/tasks/" (task.name()) "/check" } {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="next" value=(panel.back);
            @if let Some(index) = index { input type="hidden" name="check" value=(index); }
            button.button.button-bare.button-small disabled[denied.is_some()] title=[denied.as_deref()]
                aria-label=[label] data-busy="Running" data-key=[key.filter(|_| index.is_none())] {
                (icon("again")) @if index.is_none() { (words) @if let Some(key) = key { kbd { (key) } } }
            }
        }
        @if let (None, Some(why)) = (index, denied) { span.faint { (why) } }
    }
}

/// One check: result, words, duration, its forms, and the end of its log.
fn line(page: &Page, panel: &CheckPanel<'_>, index: usize, check: &Check) -> Markup {
    let task = panel.task;
    let is_open = !task.phase.is_closed();
    let tail = panel.tails.iter().find(|tail| tail.index == index);
    let word = match (check.result(), check.is_command()) {
        ("pending", true) => "not run",
        // A manual check waits for a person, who reads this page.
        ("pending", false) => "yours",
        (result, _) => result,
    };
    html! {
        li.check-line #{ "check-" (index) } {
            div.row {
                (pip(check)) span class={ "check-result " (check_tone(check).class()) } { (word) }
                div.check-words {
                    @match &check.kind {
                        CheckKind::Command { cmd, .. } => code { (cmd) },
                        CheckKind::Manual => bdi { (check.desc) },
                    }
                    @if let Some(verdict) = &check.verdict { (about(panel.now, verdict)) }
                }
                div.row.row-end {
                    @if let Some(took_ms) = check.verdict.as_ref().and_then(Verdict::took_ms) {
                        a.number href=(log_address(task, index)) title="The log of this run" { (took(took_ms)) }
                    } @else if check.is_command() && check.verdict.is_some() {
                        a href=(log_address(task, index)) { "log" }
                    }
                    @if page.acts() && is_open && check.is_command() { (run_form(page, panel, Some(index))) }
                    @if page.acts() && is_open && !check.is_command() && check.result() != "pass" {
                        (attest_form(page, panel, index))
                    }
                }
            }
            @if let Some(tail) = tail { (tail_of(task, tail)) }
        }
    }
}

/// When a check ran and for which files.
fn about(now: Timestamp, verdict: &Verdict) -> Markup {
    html! {
        span.faint {
            (ago(verdict.at, now))
            @match &verdict.source {
                VerdictSource::Attested { by } => { " by " (by) }
                VerdictSource::Run { exit_code: Some(code), .. } if !verdict.pass => { ", exit code " (code) }
                VerdictSource::Run { .. } => {}
            }
            @if let Some(tree) = &verdict.tree { ", files " code { (short(tree)) } }
        }
    }
}

/// The person's judgement of a manual check. The words say that the person looked, not that a button was pressed.
fn attest_form(page: &Page, panel: &CheckPanel<'_>, index: usize) -> Markup {
    let denied = why_not(page, PersonVerb::Attest);
    html! {
        form.row method="post" action={ "/tasks/" (panel.task.name()) "/attest" } {
            input type="hidden" name="check" value=(index);
            input type="hidden" name="next" value=(panel.back);
            button.button.button-small name="result" value="pass" disabled[denied.is_some()] { "I looked: pass" }
            @if denied.is_none() { button.button.button-bare.button-small name="result" value="fail" { "Fail" } }
        }
        @if let Some(why) = denied { span.faint { (why) } }
    }
}

/// The end of a log, and a link to all of it.
fn tail_of(task: &Task, tail: &CheckTail) -> Markup {
    let Some(window) = &tail.window else {
        return html! { p.limit { "The log of this run is not on this machine." } };
    };
    let printed = printed(&window.lines);
    // The window holds more lines than the panel has room for.
    let lines = printed[printed.len().saturating_sub(TAIL_LINES)..].to_vec();
    html! {
        @let is_silent = lines.is_empty();
        @if !is_silent { (log::tail(&LogWindow { lines, ..window.clone() })) }
        p.limit {
            @if is_silent { "It printed nothing. " }
            a href=(log_address(task, tail.index)) { "The whole log" } ", " (window.total)
            @if window.total == 1 { " line" } @else { " lines" }
        }
    }
}

/// The lines that the command printed, without the facts at the head of the log and the note about its sandbox at the
/// end: the panel has the facts, and the whole log the note.
fn printed(lines: &[LogLine]) -> &[LogLine] {
    let is_head = |line: &LogLine| line.number <= HEAD_LINES_MAX && line.text == HEAD_END;
    let begin = lines.iter().position(is_head).map_or(0, |end| end + 1);
    let is_note = lines.last().is_some_and(|line| line.text.starts_with(CHECK_CONFINED));
    &lines[begin..(lines.len() - usize::from(is_note)).max(begin)]
}

/// The page with the whole log of a check.
fn log_address(task: &Task, index: usize) -> String {
    format!("/tasks/{}/checks/{index}", task.name())
}

/// A duration: seconds with a digit while they are few.
fn took(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms => span(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}

/// The state of a log in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct LogAsked {
    /// `181-680`, `181-` or `-680`.
    #[serde(default)]
    lines: String,
    #[serde(default)]
    errors: String,
    #[serde(default)]
    find: String,
}

/// The log of the last run of a check.
pub(super) async fn log_page(
    page: Page,
    Path((text, index)): Path<(String, usize)>,
    Query(asked): Query<LogAsked>,
) -> Response {
    let id = match found(&page, &text).await {
        Ok(id) => id,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let query = LogQuery {
        span: LogSpan::read(&asked.lines).unwrap_or_default(),
        only: log::wanted(&asked.errors, ""),
        find: asked.find,
    };
    let op = page.op();
    let read = async {
        let record = page.engine.task_get(&op, id).await?;
        let log = page.engine.check_log_lines(&op, id, index, &query).await?;
        Ok((record, log))
    };
    let (record, log) = match read.await {
        Ok(read) => read,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let task = &record.it.task;
    // The task was read before the log, and an edit in between may have changed its checks.
    let Some(check) = task.checks.get(index) else {
        return page.failure(Screen::Board, &unknown(index)).await;
    };
    let content = log_content(check, &log, &query);
    let title = format!("Log of check {index}");
    let mut shown = View::of(Screen::Board, &title, content);
    let name = task.name().to_string();
    let path = (Screen::Board.path().to_owned(), Screen::Board.title().to_owned());
    shown.trail = vec![
        path,
        (format!("/tasks/{name}"), name.clone()),
        (log_address(task, index), title.clone()),
    ];
    let twin = format!("callboard check log {name} {index}");
    shown.twin = &twin;
    page.show(StatusCode::OK, shown).await
}

fn log_content(check: &Check, log: &CheckLogLines, query: &LogQuery) -> Markup {
    let view = LogView { kept: &[], query, is_of_agent: false, follow: None, raw: None };
    let failed = check.result() == "fail";
    html! {
        div.pad.stack {
            @if failed { (note(Tone::Failed, "failed", &html! { code { (check.desc) } " failed." })) }
            p.dots {
                (pip(check)) span { (check.result()) } code { (check.desc) }
                @if let Some(took_ms) = check.verdict.as_ref().and_then(Verdict::took_ms) { span { (took(took_ms)) } }
                span.faint { (log.name) }
            }
            div.row { (log::filters(&log.window, &view)) }
            (log::lines(&log.window, &view))
        }
    }
}

fn unknown(index: usize) -> callboard_engine::EngineError {
    let message = format!("check is unknown: there is no check {index}");
    callboard_domain::refusal::Refusal::invalid_field("check", message).into()
}

#[cfg(test)]
mod tests {
    use callboard_domain::runs::notes::LineAuthor;

    use super::*;

    #[test]
    fn the_end_of_a_log_has_only_what_was_printed() {
        let line = |(number, text): (u64, &str)| LogLine {
            number,
            text: text.into(),
            cut_bytes: 0,
            is_error: false,
            author: LineAuthor::Agent,
        };
        let lines = |texts: &[&str]| (1..).zip(texts.iter().copied()).map(line).collect::<Vec<_>>();
        let shown =
            |all: &[LogLine]| printed(all).iter().map(|line| line.number).collect::<Vec<_>>();
        assert_eq!(
            shown(&lines(&["cmd: make", "exit: 1", "----", "no", "----", "rule"])),
            [4, 5, 6]
        );
        assert_eq!(shown(&lines(&["cmd: true", "----"])), [0_u64; 0]);
        assert_eq!(shown(&lines(&["no head"])), [1]);
        let note = format!("{CHECK_CONFINED}it may write the worktree]");
        assert_eq!(shown(&lines(&["exit: 1", "----", &note])), [0_u64; 0], "a note is no output");
        assert_eq!(shown(&lines(&["exit: 1", "----", "no", &note])), [3]);
        let late: Vec<LogLine> = [(900, "----"), (901, "end")].map(line).into();
        assert_eq!(shown(&late), [900, 901], "a line far below the head is of the command");
    }

    #[test]
    fn short_runs_have_tenths() {
        for (ms, words) in [(0, "0.0 s"), (950, "0.9 s"), (9_999, "9.9 s"), (41_000, "41 s")] {
            assert_eq!(took(ms), words);
        }
    }
}
