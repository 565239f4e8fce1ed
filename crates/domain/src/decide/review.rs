//! Reviews: asked for, approved, rejected. The record stays with the card; merging is another step.

use serde_json::json;

use super::card::{go, label_of};
use super::draft::Draft;
use super::{input, task};
use crate::card::{Card, Review, ReviewState};
use crate::command::{ReviewDecide, ReviewVerdict};
use crate::event::EventName;
use crate::ids::TaskId;
use crate::limits::REVIEW_CHARS_MAX;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::world::{Change, World, Write};

pub(super) fn review_request(
    world: &World<'_>,
    id: TaskId,
    summary: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let summary = input::said("summary", summary, REVIEW_CHARS_MAX, "summary cannot be blank")?;
    let mut draft = Draft::of_task(world, id, now)?;
    let label = label_of(world.policy, Phase::Review)?.clone();
    if draft.task.phase == Phase::Initial {
        draft.deps_gate()?;
    }
    let review = Review {
        state: ReviewState::Requested,
        summary: summary.trim().to_owned(),
        feedback: None,
        by: world.actor.clone(),
        requested_at: now,
        decided_at: None,
        conflict_files: Vec::new(),
        merge_commit: None,
    };
    put(&mut draft, review);
    draft.event(EventName::ReviewRequested, json!({}));
    if draft.task.phase != Phase::Review {
        go(&mut draft, &label);
    }
    draft.entry("requested a review", Some(summary.to_owned()));
    Ok(draft.done())
}

pub(super) fn review_decide(
    world: &World<'_>,
    decision: &ReviewDecide,
    now: Timestamp,
) -> Result<Change, Refusal> {
    input::longest("feedback", &decision.feedback, REVIEW_CHARS_MAX)?;
    let mut draft = Draft::of_task(world, decision.task, now)?;
    if draft.task.phase != Phase::Review {
        let label = draft.task.label.clone();
        return Err(Refusal::ReviewNotReady { task: decision.task, label });
    }
    match decision.verdict {
        ReviewVerdict::Approve { unmerged } => approve(draft, decision, unmerged),
        ReviewVerdict::Reject { to } => {
            let label = label_of(world.policy, to)?.clone();
            decided(&mut draft, ReviewState::Rejected, &decision.feedback);
            // What is done again is judged again.
            draft.task.verification = None;
            draft.event(EventName::ReviewRejected, json!({}));
            go(&mut draft, &label);
            if draft.live.is_none() && draft.task.assignee.is_some() {
                draft.unassign();
            }
            draft.entry("rejected", said(&decision.feedback));
            Ok(draft.done())
        }
    }
}

/// What still has to be merged stays in review; the checks must pass either way.
fn approve(
    mut draft: Draft<'_>,
    decision: &ReviewDecide,
    unmerged: bool,
) -> Result<Change, Refusal> {
    let done = label_of(draft.world.policy, Phase::ClosedDone)?.name.clone();
    let passed = task::passage(&mut draft, &done, decision.checked.as_ref(), true)?;
    let (label, ran) = match passed {
        Ok(passed) => passed,
        Err(refusal) => return Ok(draft.done_but(refusal)),
    };
    decided(&mut draft, ReviewState::Approved, &decision.feedback);
    draft.event(EventName::ReviewApproved, json!({"unmerged": unmerged}));
    if !unmerged {
        go(&mut draft, &label);
    }
    draft.entry("approved", ran.map(|ran| format!("checks: {ran}")).or(said(&decision.feedback)));
    Ok(draft.done())
}

fn said(feedback: &str) -> Option<String> {
    Some(feedback.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A task can come into review without anybody asking here, so there may be no record yet.
pub(super) fn decided(draft: &mut Draft<'_>, state: ReviewState, feedback: &str) {
    let (by, now) = (draft.actor().clone(), draft.now);
    let known = draft.subject.card.review.clone();
    let (summary, requested_at, conflict_files) = match known {
        Some(known) => (known.summary, known.requested_at, known.conflict_files),
        None => (String::new(), now, Vec::new()),
    };
    let review = Review {
        state,
        summary,
        feedback: said(feedback),
        by,
        requested_at,
        decided_at: Some(now),
        conflict_files,
        merge_commit: None,
    };
    put(draft, review);
}

pub(super) fn put(draft: &mut Draft<'_>, review: Review) {
    let card = Card { review: Some(review), ..draft.subject.card.clone() };
    draft.write(Write::CardPut { task: draft.task.id, card });
}
