//! The three panels of a review, and the bar that decides.

use callboard_domain::policy::Phase;
use callboard_domain::task::Check;
use callboard_engine::merge_message;
use maud::{Markup, html};

use super::Page;
use super::parts::{Tone, icon, prose};
use super::review::{Reviewing, check_lines, fingerprint, is_approved};
use super::task_verbs::{Verb, form};

/// What the worker says, the checks, and how a merge would go.
pub(super) fn panels(page: &Page, reviewing: &Reviewing) -> Markup {
    let task = reviewing.task();
    let review = reviewing.seen.card.card.review.as_ref();
    let passed = task.checks.iter().filter(|check| check.result() == "pass").count();
    html! {
        div.panels {
            section.box {
                h2.box-head { "What it says" }
                div.box-body.stack-tight {
                    @match review.filter(|review| !review.summary.is_empty()) {
                        Some(review) => (prose(&review.summary)),
                        None => p.soft { "No summary was given." },
                    }
                    @if let Some(words) = answered(reviewing) { p.faint { (words) } }
                }
            }
            section.box {
                div.box-head {
                    h2 { "Checks" } span.faint { (passed) " of " (task.checks.len()) }
                    @if page.acts() && task.checks.iter().any(Check::is_command) && !task.phase.is_closed() {
                        span.row-end { (form(page, task, Verb::Check)) }
                    }
                }
                @if task.checks.is_empty() { p.box-body.soft { "No check gates this task." } }
                (check_lines(page, reviewing))
            }
            section.box {
                h2.box-head { "Merge" }
                ul.readiness.box-body { @for (tone, glyph, words) in readiness(reviewing) {
                    li class=(tone.class()) { (icon(glyph)) span { (words) } }
                } }
            }
        }
    }
}

/// How many comments of the last round were answered.
fn answered(reviewing: &Reviewing) -> Option<String> {
    use callboard_domain::review::answer::CommentState::Answered;
    let round = reviewing.sent.comments.iter().map(|seen| seen.sent.round).max()?;
    let last = reviewing.sent.comments.iter().filter(|seen| seen.sent.round == round);
    let (asked, done) = last.fold((0, 0), |(asked, done), seen| {
        (asked + 1, done + usize::from(seen.state == Some(Answered)))
    });
    Some(format!("Round {round} asked for {asked} changes; the lines of {done} changed since."))
}

/// How a merge would go, in plain lines.
fn readiness(reviewing: &Reviewing) -> Vec<(Tone, &'static str, String)> {
    let foresight = reviewing.seen.foresight();
    let task = reviewing.task();
    let mut lines = Vec::new();
    let review = reviewing.seen.card.card.review.as_ref();
    if let Some(commit) = review.and_then(|review| review.merge_commit.as_ref()) {
        lines.push((Tone::Proved, "check", format!("Merged as {commit}")));
        return lines;
    }
    match (&foresight.fault, foresight.repos) {
        (Some(fault), _) => lines.push((Tone::Late, "warn", format!("git: {fault}"))),
        (None, 0) => {
            lines.push((Tone::Quiet, "file", "No work of this task is on this machine".into()))
        }
        (None, _) if foresight.conflicts.is_empty() => {
            let behind = match foresight.behind {
                0 => "up to date".to_owned(),
                n => format!("{n} behind, goes on top"),
            };
            lines.push((Tone::Proved, "check", format!("No conflicts; {behind}")));
        }
        (None, _) => {
            lines.push((
                Tone::Failed,
                "warn",
                format!("Conflicts in {}", foresight.conflicts.join(", ")),
            ));
        }
    }
    if foresight.has_uncommitted {
        lines.push((Tone::Late, "warn", "Uncommitted files would be committed first".into()));
    }
    if !foresight.settings.is_empty() {
        let words = format!("Changes settings of Callboard: {}", foresight.settings.join(", "));
        lines.push((Tone::Late, "warn", words));
    }
    let failing = task.checks.iter().filter(|check| check.is_command() && !check.is_pass()).count();
    let persons =
        task.checks.iter().filter(|check| !check.is_command() && !check.is_pass()).count();
    let stale = task.checks.iter().filter(|check| check.result() == "stale").count();
    match (failing, stale) {
        (0, 0) if !task.checks.is_empty() => {
            lines.push((Tone::Proved, "check", "Checks are for these files".into()))
        }
        (0, 0) => {}
        (0, stale) => {
            lines.push((Tone::Late, "clock", format!("{stale} checks passed for older files")))
        }
        (failing, _) => {
            lines.push((Tone::Failed, "failed", format!("{failing} checks do not pass")))
        }
    }
    if persons > 0 {
        let words = if persons == 1 { "check waits" } else { "checks wait" };
        lines.push((Tone::Late, "clock", format!("{persons} {words} for you")));
    }
    match (is_approved(reviewing), review.filter(|review| review.is_advice)) {
        (true, _) => lines.push((Tone::Proved, "check", "Approved".into())),
        (false, Some(advice)) => {
            let words = format!(
                "{} advises: {}",
                advice.by,
                advice.feedback.as_deref().unwrap_or(advice.state.as_str())
            );
            lines.push((Tone::Late, "eye", words));
        }
        (false, None) => lines.push((Tone::Late, "clock", "Needs an approval first".into())),
    }
    lines
}

/// The bar that sticks: progress, which changes are shown, and the three verdicts.
pub(super) fn decide(page: &Page, reviewing: &Reviewing, since_last: bool) -> Markup {
    let files = reviewing.files();
    let viewed = files.iter().filter(|(path, blob)| reviewing.is_viewed(path, *blob)).count();
    let share = viewed * 100 / files.len().max(1);
    let here = format!("/tasks/{}/review", reviewing.task().name());
    html! {
        div.decide {
            svg.meter role="img" aria-label={ (viewed) " of " (files.len()) " files viewed" } {
                rect width={ (share) "%" } height="6" {}
            }
            span.number { (viewed) " of " (files.len()) " viewed" }
            @if reviewing.look.is_some() {
                nav.segments aria-label="Which changes" {
                    a href=(here) aria-current=[(!since_last).then_some("page")] { "All" }
                    a href={ (here) "?since=last" } aria-current=[since_last.then_some("page")] { "Since your last look" }
                }
            }
            div.row.row-end { (verdicts(page, reviewing, &here)) }
        }
    }
}

fn verdicts(page: &Page, reviewing: &Reviewing, here: &str) -> Markup {
    let task = reviewing.task();
    if task.phase != Phase::Review {
        let words = if task.phase.is_closed() {
            "The task is closed."
        } else {
            "The agent is still at work."
        };
        return html! { span.soft { (words) } };
    }
    if !page.acts() {
        return html! { span.soft { "Sign in to decide: " code { "callboard open" } } };
    }
    let once = || {
        html! {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="head" value=[reviewing.head()];
            input type="hidden" name="seen" value=(fingerprint(reviewing.seen.card.card.review.as_ref()));
        }
    };
    let drafts = reviewing.drafts.len();
    let approved = is_approved(reviewing);
    html! {
        details.menu.verb {
            summary.button data-key="b" {
                (icon("back")) "Send back" @if drafts > 0 { span.tag.is-person { (drafts) } } kbd { "b" }
            }
            form.stack-tight method="post" action={ (here) "/reject" } {
                (once())
                div.field {
                    label for="reject-text" { "Your words to the agent" }
                    textarea.input #reject-text name="text" rows="4" required[drafts == 0] {}
                }
                @if drafts > 0 {
                    details {
                        summary { "Goes along: " (drafts) @if drafts == 1 { " comment" } @else { " comments" } }
                        pre.code { (reviewing.preview) }
                    }
                }
                div.row {
                    button.button.button-main name="to" value="work" data-busy="Sending" { "Send back to work" }
                    button.button name="to" value="queue" { "Send to the queue" }
                }
            }
        }
        @if !approved {
            details.menu.verb {
                summary.button.button-main data-key="a" { (icon("check")) "Approve" kbd { "a" } }
                form.stack-tight method="post" action={ (here) "/approve" } {
                    (once())
                    div.field {
                        label for="approve-text" { "A word about it, if you like" }
                        textarea.input #approve-text name="text" rows="2" {}
                    }
                    div.row {
                        button.button.button-main data-busy="Approving" { "Approve" }
                        button.button name="merge" value="1" data-busy="Merging" { "Approve and merge" }
                    }
                }
            }
        }
        details.menu.verb {
            summary.button.button-main[approved] data-key="m" { (icon("merge")) "Merge" kbd { "m" } }
            form.stack-tight method="post" action={ (here) "/merge" } {
                (once())
                p { "One commit goes to the target, after the checks pass on the merged files:" }
                pre.code { (merge_message(&reviewing.seen.card.record)) }
                div.row {
                    button.button.button-main data-busy="Merging" { "Merge" }
                    @if !reviewing.seen.foresight().conflicts.is_empty() {
                        button.button formaction={ (here) "/rebase" } { "Rebase first" }
                    }
                }
            }
        }
    }
}
