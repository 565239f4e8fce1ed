//! The steps of a job as a waterfall: bars on one scale of time. A step that has output is a link to its log.

use callboard_domain::event::EventName;
use callboard_domain::runs::job::JobState;
use callboard_domain::runs::steps::{RunStep, RunStepKind};
use callboard_domain::task::{Check, CheckKind};
use callboard_domain::time::Timestamp;
use callboard_engine::{At, JobLook, JobSeen};
use maud::{Markup, html};

use super::job_log::{JobRequest, LogOf};
use super::jobs::{asked, state_words, wait_words, what};
use super::parts::{Choice, Tone, ago, icon, pip, span, tabs};

/// A bar is never narrower than this, in hundredths of a per cent.
const BAR_MIN: i64 = 60;
/// The whole width in hundredths of a per cent: whole numbers need no rounding of floats in the page.
const WHOLE: i64 = 10_000;

/// The steps as bars on one scale of time.
pub(super) fn steps(look: &At<JobLook>, asked: &JobRequest, chosen: LogOf) -> Markup {
    let all = &look.it.steps;
    let first = all.first().map_or(look.now, |step| step.began_at);
    let ended = |step: &RunStep| step.ended_at.unwrap_or(look.now);
    // A step that goes on ends now, so the scale grows while the job runs.
    let last = all.iter().map(ended).max().unwrap_or(look.now);
    let scale = Scale { first, length: last.0.saturating_sub(first.0) };
    // The words of a question that the reader chose; other words that are looked for choose no step.
    let finds = |step: &RunStep| log_of(look, step)?.1.filter(|words| asked.finds(words));
    let words_found = all.iter().find_map(finds);
    let is_shown = |step: &&RunStep| asked.run().is_none_or(|run| run == step.run);
    html! {
        section aria-labelledby="steps-title" {
            h2 #steps-title { "Steps" }
            (runs(look, asked))
            ol.track { @for step in all.iter().filter(is_shown) {
                @let (tone, glyph, words) = step_words(look, step);
                @let log = log_of(look, step);
                @let is_chosen = log.is_some_and(|(of, find)| of == chosen && find == words_found);
                li.(tone.class()) .is-chosen[is_chosen] {
                    (glyph)
                    @match log {
                        Some((of, find)) => a.track-words.cover href=(asked.of_step(of, find)) aria-current=[is_chosen.then_some("true")] { (words) },
                        None => span.track-words { (words) },
                    }
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

/// The runs of a job as tabs, where there are several. Their output is one log.
fn runs(look: &At<JobLook>, asked: &JobRequest) -> Markup {
    let last = look.it.steps.iter().map(|step| step.run).max().unwrap_or(1);
    // One run needs no choice.
    if last < 2 {
        return html! {};
    }
    let words: Vec<_> = (1..=last).map(|run| format!("Run {run}")).collect();
    let all = Choice {
        href: asked.of_run(None),
        word: "All runs",
        count: None,
        is_current: asked.run().is_none(),
    };
    let one = |(run, word)| Choice {
        href: asked.of_run(Some(run)),
        word,
        count: None,
        is_current: asked.run() == Some(run),
    };
    let each = (1..=last).zip(words.iter().map(|word| &**word)).map(one);
    tabs("Runs", std::iter::once(all).chain(each))
}

/// The log of a step, and the words that find the step in it. A question is in the log once it is answered; a check that a
/// later edit of the task took away has no log.
fn log_of<'l>(look: &'l At<JobLook>, step: &RunStep) -> Option<(LogOf, Option<&'l str>)> {
    let line = &look.it.line;
    let run = line.seen.run.as_ref();
    match step.kind {
        RunStepKind::Work => run.map(|_| (LogOf::Agent, None)),
        RunStepKind::Question { number, granted: Some(_) } => {
            let question = run?.question.as_ref()?;
            let is_known = u64::from(question.number) == number;
            is_known.then_some((LogOf::Agent, Some(question.text.as_str())))
        }
        RunStepKind::Check { index, .. } => {
            let checks = line.task.as_ref().map(|task| &task.checks)?;
            checks.get(index).map(|_| (LogOf::Check(index), None))
        }
        RunStepKind::Question { granted: None, .. }
        | RunStepKind::Queued
        | RunStepKind::SetUp
        | RunStepKind::Held
        | RunStepKind::Lost
        | RunStepKind::Verdict(_)
        | RunStepKind::Commit { .. }
        | RunStepKind::End => None,
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
            // A span is any number of microseconds, and the product must not overflow.
            let passed = i128::from(time.0.saturating_sub(self.first.0).clamp(0, length));
            (passed * i128::from(WHOLE) / i128::from(length)) as i64
        };
        let width = (at(ended) - at(began)).max(BAR_MIN);
        // A bar of the least width at the end must not leave the picture.
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

/// What a check does: its command, or what a person looks at.
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
    // A step that is over went well; steps that may fail have arms of their own.
    let over = |open: (Tone, &str)| match is_open {
        true => (open.0, glyph(open.1)),
        false => (Tone::Proved, glyph("done")),
    };
    match step.kind {
        RunStepKind::Queued => {
            let (tone, glyph) = over((Tone::Quiet, "blocked"));
            let wait = line.wait.as_ref().filter(|_| is_open);
            let words = html! {
                @if step.run > 1 { "Queued again" } @else { "Queued" }
                @if let Some(wait) = wait { ". " (wait_words(wait, look.now)) }
            };
            (tone, glyph, words)
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
            // Steps have no results. The one that ended together with the job shows how the job ended.
            let is_last = step.ended_at == look.it.steps.last().and_then(|last| last.ended_at);
            let (tone, glyph) = match &job.state {
                // The run that ended the job did not end well.
                JobState::Failed { .. } | JobState::Canceled { .. } | JobState::Expired { .. }
                    if is_last =>
                {
                    let (tone, name, _) = state_words(&job.state);
                    (tone, glyph(name))
                }
                _ => over((Tone::Now, "working")),
            };
            let words = match run {
                Some(_) if step.run > 1 => format!("Agent, run {}", step.run),
                Some(_) => "Agent".to_owned(),
                None => what(job, &line.seen).to_owned(),
            };
            (tone, glyph, html! { (words) })
        }
        RunStepKind::Question { number, granted } => {
            let known = run.as_ref().and_then(|run| run.question.as_ref());
            // A run keeps its last question alone; for an earlier one only the number is known.
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
        RunStepKind::Commit { commits, is_leftovers } => {
            let words = html! {
                (commits) @if commits == 1 { " commit" } @else { " commits" }
                @if is_leftovers { ", with what the agent had not committed" }
            };
            (Tone::Proved, glyph("file"), words)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
