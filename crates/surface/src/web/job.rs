//! One job: the open question on top, the steps with their times, the output of its agent, the facts and the artifacts.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::event::EventName;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::{ArtifactName, RunRecord};
use callboard_domain::runs::steps::{RunStep, RunStepKind};
use callboard_domain::task::{Check, CheckKind};
use callboard_domain::time::Timestamp;
use callboard_engine::{ArtifactText, At, EngineError, JobLook, JobSeen, JobsWanted};
use maud::{Markup, html};

use super::frame::{Screen, View};
use super::job_verbs::{question, verbs};
use super::jobs::{asked, short, state_badge, state_words, title, wait_words, what};
use super::parts::{Tone, actor, ago, icon, moment, note, pip, span};
use super::{CONTENT_POLICY, Page};

/// How many lines of a log stand on the page.
const LINES_SHOWN: usize = 500;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// How many jobs are searched for the end of an id.
const SEARCHED_MAX: usize = 500;
/// A bar is never narrower than this, in hundredths of a per cent.
const BAR_MIN: i64 = 60;
const WHOLE: i64 = 10_000;
const KEYS: &[(&str, &str)] =
    &[("y", "allow once what the agent asks for"), ("x", "refuse it"), ("o", "open the task")];

pub(super) async fn show(page: Page, Path(text): Path<String>) -> Response {
    let looked = match found(&page, &text).await {
        Ok(id) => page.engine.job_look(&page.op(), id).await,
        Err(error) => Err(error),
    };
    match looked {
        Ok(look) => shown(&page, StatusCode::OK, &look, None).await,
        Err(error) => page.failure(Screen::Jobs, &error).await,
    }
}

/// The job with this id, or with an id of which only one recent job has this end.
pub(super) async fn found(page: &Page, text: &str) -> Result<JobId, EngineError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let missing = || Refusal::JobNotFound { job: text.to_owned() }.into();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(missing());
    }
    let wanted = JobsWanted { state: None, every_kind: true, limit: SEARCHED_MAX };
    let jobs = page.engine.job_list(&page.op(), wanted).await?;
    let mut fits = jobs.iter().map(|seen| seen.job.id).filter(|id| id.to_string().ends_with(text));
    match (fits.next(), fits.next()) {
        (Some(id), None) => Ok(id),
        _ => Err(missing()),
    }
}

/// The page of a job. `fault` is the message about a form that was refused.
pub(super) async fn shown(
    page: &Page,
    status: StatusCode,
    look: &At<JobLook>,
    fault: Option<&str>,
) -> Response {
    let JobSeen { job, run } = &look.it.line.seen;
    let log = match run {
        Some(_) => page.engine.run_log(&page.op(), job.id).await.map(|(_, text)| text),
        None => Ok(None),
    };
    let log = match log {
        Ok(log) => log,
        Err(error) => return page.failure(Screen::Jobs, &error).await,
    };
    let name = short(&job.id.to_string());
    let content = html! {
        @if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        div.job-head {
            div #head data-live { (head(look)) }
            @if page.acts() { (verbs(page, look)) }
        }
        div.job {
            section.job-main aria-label="Output" {
                div #question data-live { (question(page, look)) }
                div #log data-live data-every=[(!job.is_over() && run.is_some()).then_some("2")] {
                    (output(look, log.as_deref()))
                }
            }
            div.job-side #steps data-live {
                (steps(look))
                (artifacts(&look.it.line.seen, log.as_deref()))
                (facts(look))
            }
        }
    };
    let title = title(&look.it.line);
    let mut view = View::of(Screen::Jobs, &title, content);
    view.trail = vec![
        (Screen::Jobs.path().into(), Screen::Jobs.title().into()),
        (format!("/jobs/{}", job.id), name.clone()),
    ];
    view.keys = KEYS;
    let twin = format!("callboard job show {name}");
    view.twin = &twin;
    page.show(status, view).await
}

fn head(look: &At<JobLook>) -> Markup {
    let line = &look.it.line;
    let JobSeen { job, run } = &line.seen;
    html! {
        h1 { bdi { (title(line)) } }
        div.dots {
            (state_badge(&line.seen))
            span { (what(job, &line.seen)) }
            @if let Some(attempt) = &look.it.attempt { (actor(&attempt.actor)) }
            @if let Some(run) = run.as_ref().filter(|run| run.attempt > 0) {
                span { "run " (run.attempt) ", fence " (run.fence) }
            }
            span { (ago(job.created_at, look.now)) }
            @if let Some(task) = &line.task { a.id href={ "/tasks/" (task.name()) } data-key="o" { (task.name()) } }
        }
        @if let Some(wait) = &line.wait {
            p.why { (icon("clock")) span { (wait_words(wait, look.now)) } }
        }
    }
}

/// The steps as bars on one scale of time.
fn steps(look: &At<JobLook>) -> Markup {
    let steps = &look.it.steps;
    let first = steps.first().map_or(look.now, |step| step.began_at);
    let ended = |step: &RunStep| step.ended_at.unwrap_or(look.now);
    let last = steps.iter().map(ended).max().unwrap_or(look.now);
    let scale = Scale { first, length: last.0.saturating_sub(first.0) };
    html! {
        section aria-labelledby="steps-title" {
            h2 #steps-title { "Steps" }
            ol.track { @for step in steps {
                @let (tone, glyph, words) = step_words(look, step);
                li class=(tone.class()) {
                    (glyph) span.track-words { (words) }
                    span.faint { @match (step.ended_at, step.began_at) {
                        (Some(at), began) if at == began => (ago(at, look.now)),
                        _ => (span(ended(step).ms_since(step.began_at))),
                    } }
                    @let (x, width) = scale.bar(step.began_at, ended(step));
                    svg aria-hidden="true" { line x1="0" x2="100%" y1="5.5" y2="5.5" {} rect x=(x) y="2" width=(width) height="7" rx="2" {} }
                }
            }
            @for (index, check) in unrun(look) {
                li.is-quiet {
                    (pip(check)) span.track-words { "Check " (index + 1) ": " (check_words(check)) }
                    span.faint { "not yet" }
                    svg aria-hidden="true" { line x1="0" x2="100%" y1="5.5" y2="5.5" {} }
                }
            } }
        }
    }
}

/// The time that all bars of a page share.
struct Scale {
    first: Timestamp,
    /// In microseconds.
    length: i64,
}

impl Scale {
    /// Start and width of a bar in per cent.
    fn bar(&self, began: Timestamp, ended: Timestamp) -> (String, String) {
        let length = self.length.max(1);
        let at = |time: Timestamp| {
            let passed = i128::from(time.0.saturating_sub(self.first.0).clamp(0, length));
            (passed * i128::from(WHOLE) / i128::from(length)) as i64
        };
        let width = (at(ended) - at(began)).max(BAR_MIN);
        let start = at(began).min(WHOLE - width);
        let percent = |part: i64| format!("{}.{:02}%", part / 100, part % 100);
        (percent(start), percent(width))
    }
}

/// Checks of the task that did not run during a job that goes on.
fn unrun(look: &At<JobLook>) -> Vec<(usize, &Check)> {
    let line = &look.it.line;
    let ran = |index: usize| {
        let is_it = |step: &RunStep| matches!(step.kind, RunStepKind::Check { index: at, .. } if at == index);
        look.it.steps.iter().any(is_it)
    };
    let task = line.task.as_ref().filter(|_| !line.seen.job.is_over());
    let checks = task.into_iter().flat_map(|task| task.checks.iter().enumerate());
    checks.filter(|(index, check)| check.is_command() && !ran(*index)).collect()
}

fn check_words(check: &Check) -> Markup {
    html! { @match &check.kind {
        CheckKind::Command { cmd, .. } => code { (cmd) },
        CheckKind::Manual => bdi { (check.desc) },
    } }
}

/// The tone, the glyph and the words of a step.
fn step_words(look: &At<JobLook>, step: &RunStep) -> (Tone, Markup, Markup) {
    let line = &look.it.line;
    let JobSeen { job, run } = &line.seen;
    let is_open = step.ended_at.is_none();
    let glyph = |name: &str| html! { span.glyph { (icon(name)) } };
    let over = |open: (Tone, &str)| match is_open {
        true => (open.0, glyph(open.1)),
        false => (Tone::Proved, glyph("done")),
    };
    match step.kind {
        RunStepKind::Queued => {
            let (tone, glyph) = over((Tone::Quiet, "blocked"));
            (tone, glyph, html! { @if step.run > 1 { "Queued again" } @else { "Queued" } })
        }
        RunStepKind::SetUp => {
            let (tone, glyph) = over((Tone::Now, "working"));
            (tone, glyph, html! { "Worktree and start of the agent" })
        }
        RunStepKind::Held => {
            let (tone, glyph) = (Tone::Late, glyph("lock"));
            (tone, glyph, html! { "Held by processes of an earlier run" })
        }
        RunStepKind::Work => {
            let (tone, glyph) = over((Tone::Now, "working"));
            let words = match run {
                Some(_) if step.run > 1 => format!("Agent, run {}", step.run),
                Some(_) => "Agent".to_owned(),
                None => what(job, &line.seen).to_owned(),
            };
            (tone, glyph, html! { (words) })
        }
        RunStepKind::Question { number, granted } => {
            let known = run.as_ref().and_then(|run| run.question.as_ref());
            let known = known.filter(|question| u64::from(question.number) == number);
            let (tone, word) = match granted {
                None if is_open => (Tone::Person, "asks"),
                None => (Tone::Quiet, "not answered"),
                Some(true) => (Tone::Proved, "allowed"),
                Some(false) => (Tone::Failed, "refused"),
            };
            let words = html! {
                "Question " (number) ", " (word)
                @if let Some(question) = known { ": " (asked(question)) }
            };
            (tone, glyph("ask"), words)
        }
        RunStepKind::Lost => (Tone::Late, glyph("warn"), html! { "Runner silent or gone" }),
        RunStepKind::Check { index, is_pass } => {
            let check = line.task.as_ref().and_then(|task| task.checks.get(index));
            let (tone, name, word) = match is_pass {
                true => (Tone::Proved, "pip-pass", "passed"),
                false => (Tone::Failed, "pip-fail", "failed"),
            };
            let words = html! {
                "Check " (index + 1) " " (word) @if let Some(check) = check { ": " (check_words(check)) }
            };
            (tone, glyph(name), words)
        }
        RunStepKind::Verdict(name) => {
            let (tone, icon, words) = match name {
                EventName::ReviewApproved => (Tone::Proved, "check", "Approved"),
                EventName::ReviewRejected => (Tone::Late, "back", "Sent back"),
                EventName::VerificationPassed => (Tone::Proved, "check", "Verified"),
                EventName::VerificationFailed => (Tone::Failed, "cross", "Verification failed"),
                _ => (Tone::Person, "review", "Review requested"),
            };
            (tone, glyph(icon), html! { (words) })
        }
        RunStepKind::End => {
            let (tone, icon, word) = state_words(&job.state);
            let said = run.as_ref().and_then(|run| run.summary.as_deref());
            let reason = match &job.state {
                JobState::Failed { reason, .. } => Some(said.unwrap_or(reason)),
                _ => said,
            };
            let words = html! { (word) @if let Some(reason) = reason { ": " bdi { (reason) } } };
            (tone, glyph(icon), words)
        }
    }
}

fn artifacts(seen: &JobSeen, log: Option<&str>) -> Markup {
    let Some(run) = &seen.run else { return html! {} };
    let mut files: Vec<(ArtifactName, Option<u64>)> = Vec::new();
    for name in run.artifact_names().filter(|name| *name != ArtifactName::Logs) {
        files.push((name, run.artifact(name).map(|artifact| artifact.size)));
    }
    files.extend(log.map(|log| (ArtifactName::Logs, Some(log.len() as u64))));
    html! {
        section aria-labelledby="artifacts-title" {
            h2 #artifacts-title { "Artifacts" }
            @if files.is_empty() { p.soft { "None so far." } }
            ul.files { @for (name, bytes) in &files { li.row {
                (icon("file"))
                a href={ "/jobs/" (seen.job.id) "/files/" (name.as_str()) } download { (name.as_str()) }
                @if let Some(bytes) = bytes { span.faint.row-end { (size(*bytes)) } }
            } } }
        }
    }
}

/// A size in the shortest words.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

fn facts(look: &At<JobLook>) -> Markup {
    let line = &look.it.line;
    let JobSeen { job, run } = &line.seen;
    let order = run.as_ref().and_then(|run| run.order.work());
    let spec = run.as_ref().and_then(|run| run.order.patch());
    let attempt = look.it.attempt.as_ref();
    let terminal = run.as_ref().and_then(|run| {
        RunRecord { job: job.clone(), run: run.clone() }
            .terminal()
            .map(|terminal| terminal.attach())
    });
    let model = order.and_then(|order| order.model.as_deref());
    let model = model.or(spec.map(|spec| &*spec.execution.preferred_model));
    let model = model.or(attempt.and_then(|attempt| attempt.model.as_deref()));
    html! {
        section aria-labelledby="facts-title" {
            h2 #facts-title { "Facts" }
            dl.facts {
                dt { "Job" } dd { code { (job.id) } }
                dt { "Kind" } dd { (job.kind.as_str()) @if let Some(order) = order { ", " (order.role.as_str()) } }
                @if let Some(order) = order { dt { "Asked by" } dd { (actor(&order.asked_by)) } }
                @if let Some(attempt) = attempt { dt { "Agent" } dd { (actor(&attempt.actor)) } }
                @if let Some(model) = model { dt { "Model" } dd { bdi { (model) } } }
                @if let Some(words) = order.and_then(|order| order.instructions.as_deref()) { dt { "Told" } dd { bdi { (words) } } }
                @if let Some(run) = run {
                    dt { "Machine" } dd { @match run.runs_on.as_deref().or(run.bound_to.as_deref()) {
                        Some(machine) => bdi { (machine) },
                        None => "not chosen yet",
                    } }
                    @if let Some(limit) = spec.and_then(|spec| spec.execution.timeout_s) {
                        dt { "Time limit" } dd { (span(i64::from(limit) * 1000)) " a run" }
                    }
                    dt { "Given up at" } dd { (moment(run.expires_at)) }
                    dt { "Tokens, cost" } dd { "not reported" }
                    @if let Some(pr) = &run.pr {
                        dt { "Pull request" } dd { (pr.forge) " " (pr.number) ", " (pr.status) ", " code { (pr.branch) } }
                    }
                    @if run.webhook.is_some() { dt { "At the end" } dd { "a message to a webhook" } }
                }
                @if let Some(branch) = attempt.and_then(|attempt| attempt.branch.as_deref()) { dt { "Branch" } dd { code { (branch) } } }
                @if let Some(folder) = attempt.and_then(|attempt| attempt.worktree.as_deref()) { dt { "Worktree" } dd { code { (folder) } } }
                @if let Some(attach) = terminal { dt { "Terminal" } dd { code { (attach) } } }
                dt { "Queued" } dd { (moment(job.created_at)) }
            }
        }
    }
}

/// The newest lines of the log.
fn output(look: &At<JobLook>, log: Option<&str>) -> Markup {
    let job = &look.it.line.seen.job;
    let Some(log) = log else {
        let words = match (&look.it.line.seen.run, job.is_over()) {
            (None, _) => "A job of the server itself has no output.",
            (Some(_), true) => "The agent printed nothing.",
            (Some(_), false) => "Nothing is printed yet. New lines appear here.",
        };
        return html! { p.job-none.soft { (words) } };
    };
    let (first, lines) = newest_lines(log);
    html! {
        p.log-head.faint {
            "Lines " (first) " to " (first + lines.len() - 1) ". "
            @if first > 1 { a href={ "/jobs/" (job.id) "/files/" (ArtifactName::Logs.as_str()) } { "The whole log" } " has the lines before." }
        }
        ol.log tabindex="0" aria-label="Log" { @for (n, line) in lines.iter().enumerate() {
            li { span.log-number aria-hidden="true" { (first + n) } span { (line) } }
        } }
    }
}

/// The last lines of a text as a page shows them, and the number of the first.
fn newest_lines(text: &str) -> (usize, Vec<String>) {
    let count = text.lines().count();
    let skipped = count.saturating_sub(LINES_SHOWN);
    (skipped + 1, text.lines().skip(skipped).map(plain_line).collect())
}

/// A line without escape sequences and control characters, cut to a length.
fn plain_line(line: &str) -> String {
    let cut = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
    let mut shown = String::with_capacity(cut.len());
    let mut chars = cut.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.as_str().starts_with('[') => {
                chars.next();
                // A sequence ends with its first letter.
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            '\t' => shown.push('\t'),
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }
    if cut.len() < line.len() {
        shown.push('…');
    }
    shown
}

/// An artifact as a download.
pub(super) async fn file(page: Page, Path((text, name)): Path<(String, String)>) -> Response {
    match file_text(&page, &text, &name).await {
        Ok(text) => {
            let mut headers = HeaderMap::new();
            let kept = [
                (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
                (header::CONTENT_DISPOSITION, "attachment"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            headers.extend(kept.map(|(name, value)| (name, HeaderValue::from_static(value))));
            (headers, text).into_response()
        }
        Err(error) => page.failure(Screen::Jobs, &error).await,
    }
}

async fn file_text(page: &Page, text: &str, name: &str) -> Result<String, EngineError> {
    let id = found(page, text).await?;
    let missing = || Refusal::JobNotFound { job: format!("{text} with {name}") }.into();
    let found = match ArtifactName::parse(name).ok_or_else(missing)? {
        ArtifactName::Logs => page.engine.run_log(&page.op(), id).await?.1,
        other => match page.engine.run_artifact(&page.op(), id, other).await? {
            ArtifactText::Text(text) => Some(text),
            ArtifactText::Missing(_) => None,
        },
    };
    found.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_log_is_plain_text() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let cut = "x".repeat(LINE_BYTES_MAX) + "…";
        let table = [
            ("plain\tline", "plain\tline"),
            ("\u{1b}[1;31mred\u{1b}[0m end", "red end"),
            ("bell\u{7} and \u{1b}", "bell and "),
            ("\u{1b}[", ""),
            (&*long, &*cut),
        ];
        for (line, shown) in table {
            assert_eq!(plain_line(line), shown);
        }
    }

    #[test]
    fn a_long_log_is_shown_from_its_end() {
        let log = |lines: usize| (1..=lines).map(|n| format!("{n}\n")).collect::<String>();
        for (lines, first) in [(1, 1), (LINES_SHOWN, 1), (LINES_SHOWN + 3, 4)] {
            let (number, shown) = newest_lines(&log(lines));
            assert_eq!((number, &*shown[0]), (first, &*first.to_string()));
            assert_eq!(shown.last(), Some(&lines.to_string()));
        }
    }

    #[test]
    fn bars_lie_on_one_scale_and_are_never_invisible() {
        let scale = Scale { first: Timestamp(100), length: 1000 };
        let table = [
            (100, 600, "0.00%", "50.00%"),
            (600, 1100, "50.00%", "50.00%"),
            (350, 350, "25.00%", "0.60%"),
            (1100, 1100, "99.40%", "0.60%"),
            (0, 2000, "0.00%", "100.00%"),
        ];
        for (began, ended, start, width) in table {
            let bar = scale.bar(Timestamp(began), Timestamp(ended));
            assert_eq!(bar, (start.to_owned(), width.to_owned()));
        }
        let moment = Scale { first: Timestamp(5), length: 0 };
        assert_eq!(moment.bar(Timestamp(5), Timestamp(5)).1, "0.60%");
    }

    #[test]
    fn a_size_has_the_shortest_words() {
        for (bytes, words) in [(999, "999 B"), (84_200, "84 kB"), (1_260_000, "1.2 MB")] {
            assert_eq!(size(bytes), words);
        }
    }
}
