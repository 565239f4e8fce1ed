//! The three panels of a review: what the worker says, the checks, and how a merge would go.

use callboard_domain::review::answer::CommentState;
use callboard_engine::{CommentSeen, Foresight};
use maud::{Markup, html};

use super::Page;
use super::diff::anchor;
use super::parts::{Tone, actor, ago, icon, prose, span, task_link};
use super::query::address;
use super::review::{Reviewing, short};
use super::review_checks::{CheckPanel, checks};
use super::review_conflict::conflict_address;

/// How many file names a line of the panel has.
/// The rest is a number: the tree beside the diff names all files.
const NAMES_MAX: usize = 4;

/// Everything that a decision needs besides the diff.
pub(super) fn panels(page: &Page, reviewing: &Reviewing) -> Markup {
    let summary = reviewing.seen.card.summary();
    let target = reviewing.changes.iter().flatten().next().map(|part| &part.part.target);
    html! {
        div.panels {
            section.box {
                div.box-head { h2 { "What it says" } (worked(reviewing)) }
                div.box-body.stack-tight {
                    @match summary {
                        Some(words) => (prose(words)),
                        None => p.soft { "No summary was given." },
                    }
                    (answered(reviewing))
                }
            }
            (checks(page, &checks_of(reviewing)))
            section.box {
                h2.box-head { "Merge" @if let Some(target) = target { " into " code { (target) } } }
                ul.readiness.box-body { @for (tone, glyph, words) in readiness(reviewing) {
                    li class=(tone.class()) { (icon(glyph)) span { (words) } }
                } }
            }
        }
    }
}

/// How long the newest attempt worked before it asked for the review.
fn worked(reviewing: &Reviewing) -> Markup {
    let record = &reviewing.seen.card.record;
    let asked = reviewing.seen.card.card.review.as_ref().map(|review| review.requested_at);
    let began = record.newest.as_ref().map(|attempt| attempt.started_at);
    html! { @if let Some(took) = began.zip(asked).map(|(began, asked)| asked.ms_since(began)).filter(|ms| *ms >= 1000) {
        span.faint.row-end { (span(took)) " of work" }
    } }
}

/// The panel of checks with the words of a review.
fn checks_of(reviewing: &Reviewing) -> CheckPanel<'_> {
    CheckPanel {
        task: reviewing.task(),
        now: reviewing.now,
        tails: &reviewing.tails,
        back: reviewing.here.clone(),
        run: ("Run again", None),
        none: html! { "No check gates this task." },
        running: None,
    }
}

/// The changes that the last round asked for, each with what became of it.
fn answered(reviewing: &Reviewing) -> Markup {
    // Only the last round is answered by this work; earlier rounds were judged before it.
    let Some(round) = reviewing.sent.comments.iter().map(|seen| seen.sent.round).max() else {
        return html! {};
    };
    let last = || reviewing.sent.comments.iter().filter(|seen| seen.sent.round == round);
    let asked = last().count();
    let done = last().filter(|seen| seen.state == Some(CommentState::Answered)).count();
    html! {
        p.faint {
            "Round " (round) " asked for " (asked) @if asked == 1 { " change" } @else { " changes" } ": "
            @if done == asked { "the lines of each changed since." }
            @else { "the lines of " (done) " changed since." }
        }
        ul.asks { @for seen in last() { li { (ask(seen)) } } }
    }
}

/// One requested change, as a link to its lines.
fn ask(seen: &CommentSeen) -> Markup {
    let comment = &seen.sent.comment;
    html! {
        a href={ (address(&[], &[("file", &*comment.path)])) "#" (anchor(&comment.path)) } { bdi { (comment.path) } ":" (comment.first_line) } " "
        (answer_tag(seen))
    }
}

/// What became of the lines of a comment, as a tag.
pub(super) fn answer_tag(seen: &CommentSeen) -> Markup {
    let (tone, words) = match (seen.state, &seen.commit) {
        (Some(CommentState::Answered), Some(commit)) => {
            (Tone::Proved, html! { "answered in " code { (short(commit)) } })
        }
        (Some(CommentState::Answered), None) => {
            (Tone::Proved, html! { "answered: these lines changed" })
        }
        (Some(CommentState::NotTouched), _) => (Tone::Late, html! { "not touched" }),
        (Some(CommentState::Moved { .. }), _) => (Tone::Late, html! { "not touched, moved" }),
        (None, _) => (Tone::Quiet, html! { "sent" }),
    };
    html! { span class={ "tag " (tone.class()) } { (words) } }
}

/// The tone, the glyph and the words of one line.
type ReadyLine = (Tone, &'static str, Markup);

/// How a merge would go, in plain lines.
fn readiness(reviewing: &Reviewing) -> Vec<ReadyLine> {
    let foresight = reviewing.seen.foresight();
    let review = reviewing.seen.card.card.review.as_ref();
    if let Some((review, commit)) = review.and_then(|it| it.merge_commit.as_ref().map(|c| (it, c)))
    {
        let words = html! {
            "Merged as " code { (short(commit)) } ", approved by " (actor(&review.by)) " "
            @if let Some(at) = review.decided_at { (ago(at, reviewing.now)) }
        };
        // After the merge nothing else about it matters.
        return vec![(Tone::Proved, "check", words)];
    }
    let mut lines = in_git(reviewing, &foresight);
    lines.extend(beside(reviewing));
    lines.extend(of_checks(reviewing));
    let waits = reviewing.waits;
    match (waits.is_approved, review.filter(|review| review.is_advice)) {
        (true, _) => lines.push((Tone::Proved, "check", html! { "Approved" })),
        // An agent's verdict is advice, and does not count as the approval.
        (false, Some(advice)) => {
            let words = advice.feedback.as_deref().unwrap_or(advice.state.as_str());
            lines.push((
                Tone::Late,
                "eye",
                html! { (actor(&advice.by)) " advises: " bdi { (words) } },
            ));
        }
        (false, None) if review.is_some_and(|review| review.is_approved()) => {
            lines.push((Tone::Late, "clock", html! { "The approval was for older files" }));
        }
        (false, None) if waits.needs_approval => {
            lines.push((Tone::Late, "clock", html! { "Needs an approval first" }));
        }
        (false, None) => lines.push((Tone::Quiet, "check", html! { "No approval is needed" })),
    }
    lines
}

/// Conflicts, how far behind, what would be committed.
fn in_git(reviewing: &Reviewing, foresight: &Foresight) -> Vec<ReadyLine> {
    let mut lines = Vec::new();
    match (&foresight.fault, foresight.repos) {
        (Some(fault), _) => lines.push((Tone::Late, "warn", html! { "git: " (fault) })),
        (None, 0) => {
            let words = html! { "No work of this task is on this machine" };
            lines.push((Tone::Quiet, "file", words));
        }
        (None, _) if foresight.conflicts.is_empty() => {
            let words = html! {
                "No conflicts; "
                @match foresight.behind { 0 => "up to date", n => { (n) " behind, goes on top" } }
            };
            lines.push((Tone::Proved, "check", words));
        }
        (None, _) => {
            let words = html! {
                "Conflicts in " (conflict_links(reviewing)) "; " (foresight.behind) " behind"
            };
            lines.push((Tone::Failed, "warn", words));
        }
    }
    let left: Vec<String> = reviewing
        .seen
        .work
        .iter()
        .filter_map(|work| work.looked.as_ref().ok())
        .flat_map(|look| look.state.uncommitted.iter().cloned())
        .collect();
    if !left.is_empty() {
        let words = html! {
            (left.len()) @if left.len() == 1 { " leftover" } @else { " leftovers" }
            " would be committed first: " (file_links(&left, reviewing))
        };
        lines.push((Tone::Late, "warn", words));
    }
    // An agent could widen its own rights in these files, so a person has to see them.
    if !foresight.settings.is_empty() {
        let words = html! { "Changes settings of Callboard: " (file_links(&foresight.settings, reviewing)) };
        lines.push((Tone::Late, "warn", words));
    }
    lines
}

/// Tasks at work that change the same files.
fn beside(reviewing: &Reviewing) -> Vec<ReadyLine> {
    let overlaps = &reviewing.overlaps;
    let line = |overlap: &callboard_engine::Overlap| {
        let words = html! {
            (task_link(overlap.task.name())) " is at work on "
            (file_links(&overlap.files, reviewing)) @if overlap.files.len() > 1 { " too" }
        };
        (Tone::Late, "agents", words)
    };
    let mut lines: Vec<ReadyLine> = overlaps.tasks.iter().map(line).collect();
    if overlaps.is_cut {
        let words = html! { "Not every task at work was compared" };
        lines.push((Tone::Quiet, "clock", words));
    }
    lines
}

/// Whether the checks let a merge pass, in one line, and a line for what waits for a person.
fn of_checks(reviewing: &Reviewing) -> Vec<ReadyLine> {
    let mut lines = Vec::new();
    let task = reviewing.task();
    let count = |wanted: &dyn Fn(&&callboard_domain::task::Check) -> bool| {
        task.checks.iter().filter(|check| wanted(check)).count()
    };
    let failing = count(&|check| check.is_command() && !check.is_pass());
    let persons = count(&|check| !check.is_command() && !check.is_pass());
    // Stale: the check passed for other files than those of the work now.
    let stale = count(&|check| check.result() == "stale");
    let commands = count(&|check| check.is_command());
    let tree = task
        .checks
        .iter()
        .filter(|check| check.result() == "pass" && check.is_command())
        .find_map(|check| check.verdict.as_ref()?.tree.as_deref());
    let many = |n: usize| if n == 1 { "check" } else { "checks" };
    match (failing, stale) {
        (0, 0) if commands > 0 => {
            let words = html! { "Checks are for these files" @if let Some(tree) = tree { " " code { (short(tree)) } } };
            lines.push((Tone::Proved, "check", words));
        }
        (0, 0) => {}
        (0, stale) => {
            let words = html! { (stale) " " (many(stale)) " passed for older files" };
            lines.push((Tone::Late, "clock", words));
        }
        (failing, _) => {
            let word = if failing == 1 { " does not pass" } else { " do not pass" };
            lines.push((Tone::Failed, "failed", html! { (failing) " " (many(failing)) (word) }));
        }
    }
    if persons > 0 {
        let word = if persons == 1 { "waits" } else { "wait" };
        lines.push((
            Tone::Late,
            "clock",
            html! { (persons) " " (many(persons)) " " (word) " for you" },
        ));
    }
    lines
}

/// The first files by name. A changed file is a link to its place on the page.
fn file_links(files: &[String], reviewing: &Reviewing) -> Markup {
    let changed = reviewing.files();
    names(files, |file| {
        let is_changed = changed.iter().any(|(path, _)| path == file);
        let query = address(&[], &[("file", file)]);
        is_changed.then(|| format!("{}{query}#{}", reviewing.address(), anchor(file)))
    })
}

/// The files that conflict, each with a link to the lines of both sides.
pub(super) fn conflict_links(reviewing: &Reviewing) -> Markup {
    let address = |file: &str| Some(conflict_address(reviewing, file));
    names(&reviewing.seen.foresight().conflicts, address)
}

/// The first files by name, each as a link where it has an address.
fn names(files: &[String], address_of: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        @for (n, file) in files.iter().take(NAMES_MAX).enumerate() {
            @if n > 0 { ", " }
            @match address_of(file) {
                Some(address) => a href=(address) { bdi { (file) } },
                None => bdi { (file) },
            }
        }
        @if files.len() > NAMES_MAX { " and " (files.len() - NAMES_MAX) " more" }
    }
}
