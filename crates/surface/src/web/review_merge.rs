//! A merge while it runs: its steps as lines, and how it ended.

use callboard_domain::review::merging::{MergeOutcome, MergeStep, StepState};
use callboard_engine::MergeSeen;
use maud::{Markup, html};

use super::parts::{Tone, actor, ago, icon, note};
use super::review::{Reviewing, short};

/// The steps of the merge that runs, or the reason why the last one came to nothing. A merge that succeeded is told by
/// the review itself.
pub(super) fn merge_lines(reviewing: &Reviewing) -> Markup {
    let Some(seen) = &reviewing.merging else { return html! {} };
    let targets = reviewing.seen.work.iter().map(|work| work.part.target.as_str());
    let target = targets.into_iter().next().unwrap_or("the target");
    let here = reviewing.address();
    let words = match &seen.outcome {
        None => html! {
            p role="status" data-every {
                (actor(&seen.by)) " started this merge " (ago(seen.began_at, reviewing.now)) ". "
                a href=(here) { "Look again" }
            }
            (steps(seen, target))
        },
        Some(MergeOutcome::Merged { commit }) => html! {
            p role="status" {
                @match commit { Some(commit) => { "Merged as " code { (short(commit)) } "." } None => "There was nothing to merge." }
                " " a href=(here) { "Show the review as it is now" }
            }
            (steps(seen, target))
        },
        Some(MergeOutcome::Failed { words }) => html! {
            p role="status" { b { "Not merged: " bdi { (words) } "." } " Nothing was published. " a href=(here) { "Show the review as it is now" } }
            (steps(seen, target))
        },
    };
    let (tone, glyph) = match &seen.outcome {
        None => (Tone::Now, "merge"),
        Some(MergeOutcome::Merged { .. }) => (Tone::Proved, "merge"),
        Some(MergeOutcome::Failed { .. }) => (Tone::Failed, "warn"),
    };
    html! { div.merging { (note(tone, glyph, &words)) } }
}

fn steps(seen: &MergeSeen, target: &str) -> Markup {
    html! {
        ol.merge-steps { @for (step, state) in seen.step.line(seen.outcome.as_ref()) {
            li aria-current=[(state == StepState::Now).then_some("step")] { (line(step, state, target, seen.outcome.is_some())) }
        } }
    }
}

fn line(step: MergeStep, state: StepState, target: &str, is_over: bool) -> Markup {
    let (glyph, word) = match state {
        StepState::Over => ("done", "done"),
        StepState::Now => ("working", "runs"),
        StepState::Ahead if is_over => ("blocked", "not reached"),
        StepState::Ahead => ("blocked", "comes next"),
        StepState::Failed => ("failed", "failed here"),
    };
    html! { (icon(glyph)) span { bdi { (step.words(target)) } } span.faint { (word) } }
}
