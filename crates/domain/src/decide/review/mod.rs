//! Reviews: requested, approved, rejected, and the outcome of merging and rebasing the reviewed work. The record
//! stays with the card.

pub mod checks;
pub mod reject;

use serde_json::json;

use crate::actor::Actor;
use crate::board::card::{Card, Review, ReviewState};
use crate::command::{Checked, ReviewDecide, ReviewOutcome, ReviewSettle, ReviewVerdict};
use crate::decide::board::card::{go, kept, label_of};
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::decide::runs::work;
use crate::decide::task::verification;
use crate::decide::task::{self, Passage};
use crate::event::EventName;
use crate::ids::TaskId;
use crate::limits::REVIEW_CHARS_MAX;
use crate::policy::Phase;
use crate::refusal::{Refusal, ReviewAction};
use crate::review::mark::ReviewMark;
use crate::runs::job::JobState;
use crate::runs::run::RunRecord;
use crate::runs::work::Role;
use crate::task::attempt::{Attempt, AttemptKind, AttemptState};
use crate::task::{Check, Task};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World};

pub(crate) fn review_request(
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
        is_advice: false,
        tree: None,
        rounds: rounds(&draft),
    };
    draft.card.review = Some(review);
    draft.event(EventName::ReviewRequested, json!({}));
    if draft.task.phase != Phase::Review {
        go(&mut draft, &label);
    }
    draft.entry("requested a review", Some(summary.to_owned()));
    Ok(draft.done())
}

pub(crate) fn review_decide(
    world: &World<'_>,
    decision: &ReviewDecide,
    now: Timestamp,
) -> Result<Change, Refusal> {
    input::longest("feedback", &decision.feedback, REVIEW_CHARS_MAX)?;
    let draft = Draft::of_task(world, decision.task, now)?;
    // Judged before the phase: a caller learns who decided instead of which column the task is in.
    decision.seen.judge_verdict(decision.task, draft.card.review.as_ref())?;
    if draft.task.phase != Phase::Review {
        let label = draft.task.label.clone();
        return Err(Refusal::ReviewNotReady { task: decision.task, label });
    }
    decision.seen.judge_work(decision.task, decision.work.as_deref())?;
    match decision.verdict {
        ReviewVerdict::Approve { unmerged, as_reviewer } => {
            approve(draft, decision, unmerged, as_reviewer)
        }
        ReviewVerdict::Reject { to } => reject::reject(draft, decision, to),
    }
}

/// Approves a review. Work that is not merged yet stays in review; the checks must pass either way.
fn approve(
    mut draft: Draft<'_>,
    decision: &ReviewDecide,
    unmerged: bool,
    as_reviewer: bool,
) -> Result<Change, Refusal> {
    let done = label_of(draft.world.policy, Phase::ClosedDone)?.name.clone();
    let seen = (decision.checked.as_ref(), decision.work.as_deref());
    let (label, ran) = match task::passage(&mut draft, &done, seen, as_reviewer)? {
        Passage::Open(label, ran) => (label, ran),
        Passage::Shut(refusal) => return Ok(draft.done_but(refusal)),
    };
    let is_advice = !(as_reviewer || draft.actor().is_human());
    let approval = self::decision(&draft, ReviewState::Approved, &decision.feedback);
    draft.card.review = Some(Review { is_advice, tree: decision.work.clone(), ..approval });
    draft.event(EventName::ReviewApproved, json!({"unmerged": unmerged}));
    if !unmerged {
        go(&mut draft, &label);
    }
    draft.entry("approved", ran.map(|ran| format!("checks: {ran}")).or(said(&decision.feedback)));
    Ok(draft.done())
}

/// The words about an agent that still runs on a task whose work is to be merged or rebased.
pub const AGENT_LINGERS: &str = "the agent on the task has not stopped yet; try again";

/// How far a task is on the way into its target, before any check has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeGate {
    /// The work is merged as this commit; nothing is left to do.
    Merged(String),
    /// This agent has to stop first.
    Occupied(Actor),
    Open,
}

/// What a merge stands on, besides its checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct MergeNeeds<'a> {
    /// Whether the settings ask for an approval first.
    pub approval: bool,
    /// The state of the task's own files: an approval counts for the files it was given for.
    pub work: Option<&'a str>,
    /// The review as the caller saw it; `None` for a caller that merges whatever stands.
    pub seen: Option<&'a ReviewMark>,
}

/// The part of a merge that needs no check results. The engine asks before git does anything; `decide` asks again
/// in the transaction. Outside of review an agent is in the middle of its work, and a merge would take half of
/// that.
pub fn merge_gate(
    task: &Task,
    card: &Card,
    agent: Option<Actor>,
    needs: MergeNeeds<'_>,
) -> Result<MergeGate, Refusal> {
    let review = card.review.as_ref();
    if task.phase == Phase::ClosedDone
        && let Some(commit) = review.and_then(|review| review.merge_commit.clone())
    {
        return Ok(MergeGate::Merged(commit));
    }
    if let Some(seen) = needs.seen {
        seen.judge(task.id, review, needs.work)?;
    }
    if needs.approval && !is_approved(task, card, needs.work) {
        return Err(Refusal::NotApproved { task: task.id });
    }
    match agent {
        None => Ok(MergeGate::Open),
        Some(agent) if task.phase == Phase::Review => Ok(MergeGate::Occupied(agent)),
        Some(agent) => Err(at_work(task, agent, ReviewAction::Merge)),
    }
}

/// Whether the review is approved for the files as they are now; `work` is their state.
fn is_approved(task: &Task, card: &Card, work: Option<&str>) -> bool {
    card.review.as_ref().is_some_and(|review| {
        let at = review.decided_at.unwrap_or(review.requested_at);
        review.is_approved() && task.is_as_approved(at, review.tree.as_deref(), work)
    })
}

/// What a merge waits for from people. The gates of the merge refuse as long as one of them is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeWaits {
    /// Whether the review is approved for the files as they are now.
    pub is_approved: bool,
    /// Whether the settings ask for an approval first.
    pub needs_approval: bool,
    /// How many checks wait for a person.
    pub checks: usize,
}

impl MergeWaits {
    /// `work` is the state of the task's own files.
    pub fn of(task: &Task, card: &Card, needs_approval: bool, work: Option<&str>) -> Self {
        let is_open = |check: &&Check| !check.is_command() && !check.is_pass();
        Self {
            is_approved: is_approved(task, card, work),
            needs_approval,
            checks: task.checks.iter().filter(is_open).count(),
        }
    }

    /// Whether the merge waits for an approval.
    pub fn for_approval(self) -> bool {
        self.needs_approval && !self.is_approved
    }
}

/// Allows a rebase only in review; an agent at work has to stop first.
pub fn rebase_gate(task: &Task, agent: Option<Actor>) -> Result<MergeGate, Refusal> {
    if task.phase != Phase::Review {
        return Err(Refusal::ReviewNotReady { task: task.id, label: task.label.clone() });
    }
    Ok(agent.map_or(MergeGate::Open, MergeGate::Occupied))
}

pub fn at_work(task: &Task, agent: Actor, action: ReviewAction) -> Refusal {
    Refusal::AgentAtWork { task: task.id, agent, action }
}

/// The agent that may change a task's files on its own: that of the live run, or of an ended run with processes
/// left. A reviewer only reads.
pub fn agent_at_work(newest: Option<&Attempt>, works: &[RunRecord]) -> Option<Actor> {
    let newest = newest.filter(|newest| newest.kind == AttemptKind::Job);
    if let Some(live) = newest.filter(|live| matches!(live.state, AttemptState::Live { .. })) {
        return Some(live.actor.clone());
    }
    works.iter().find_map(|work| {
        let is_leased = matches!(work.job.state, JobState::Running { .. } | JobState::Stale { .. });
        let order = work.run.order.work().filter(|_| is_leased || work.is_alive())?;
        match order.role {
            Role::Reviewer => None,
            Role::Crew => Some(order.asked_by.clone()),
            Role::Worker => Some(newest.map_or(&order.asked_by, |run| &run.actor).clone()),
        }
    })
}

/// Judges whether the reviewed work may be merged. Moves nothing: the merge itself comes later.
pub(crate) fn review_clear(
    world: &World<'_>,
    id: TaskId,
    checked: Option<&Checked>,
    needs: MergeNeeds<'_>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let open = work::open_work(world);
    let agent = agent_at_work(draft.subject.newest.as_ref(), open.as_slice());
    match merge_gate(&draft.task, &draft.card, agent, needs)? {
        MergeGate::Merged(_) => return Ok(draft.unchanged(Reply::Task(id))),
        MergeGate::Occupied(agent) => {
            return Err(at_work(&draft.task, agent, ReviewAction::Merge));
        }
        MergeGate::Open => {}
    }
    let done = label_of(world.policy, Phase::ClosedDone)?.name.clone();
    match task::gates(&mut draft, &done, (checked, needs.work), true)? {
        Passage::Open(_, None) => Ok(draft.unchanged(Reply::Task(id))),
        Passage::Open(_, ran) => {
            draft.entry("ran checks", ran);
            Ok(draft.done())
        }
        Passage::Shut(refusal) => Ok(draft.done_but(refusal)),
    }
}

/// Records what git did. Nothing here can be refused, because it has happened.
pub(crate) fn review_settle(
    world: &World<'_>,
    settle: &ReviewSettle,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, settle.task, now)?;
    let label = |phase| label_of(world.policy, phase).cloned();
    match &settle.outcome {
        ReviewOutcome::Merged { commit, pushed, branches } => {
            verification::approve(&mut draft, true, None);
            merged(&mut draft, commit.clone());
            draft.branches_merged(branches);
            let commits: Vec<&String> =
                branches.iter().filter_map(|one| one.commit.as_ref()).collect();
            let data = json!({"commit": commit, "commits": commits, "pushed": pushed});
            draft.event(EventName::ReviewMerged, data);
            if draft.task.phase != Phase::ClosedDone {
                go(&mut draft, &label(Phase::ClosedDone)?);
            }
            draft.entry("merged", Some(settle.words.clone()));
        }
        ReviewOutcome::MergeFailed { files } => {
            in_conflict(&mut draft, files);
            draft.event(EventName::ReviewFailed, json!({"action": "merge", "files": files.len()}));
            let waits = draft.task.phase == Phase::Initial && draft.deps_gate().is_err();
            if draft.task.phase != Phase::Review && !waits {
                go(&mut draft, &label(Phase::Review)?);
            }
            draft.entry("could not merge", Some(settle.words.clone()));
        }
        ReviewOutcome::Rebased => {
            in_conflict(&mut draft, &[]);
            draft.event(EventName::ReviewRebased, json!({}));
            draft.entry("rebased", Some(settle.words.clone()));
        }
        ReviewOutcome::RebaseConflict { files } => {
            in_conflict(&mut draft, files);
            draft.event(EventName::ReviewFailed, json!({"action": "rebase", "files": files.len()}));
            draft.scratchpad = kept(&draft.scratchpad, &settle.words);
            go(&mut draft, &label(Phase::Working)?);
            draft.entry("could not rebase", Some(settle.words.clone()));
        }
        ReviewOutcome::RebaseFailed => {
            draft.event(EventName::ReviewFailed, json!({"action": "rebase"}));
            draft.entry("could not rebase", Some(settle.words.clone()));
        }
    }
    Ok(draft.done())
}

/// Records a merge. The actor that merges approves the work with that, unless it was approved before.
pub(crate) fn merged(draft: &mut Draft<'_>, commit: Option<String>) {
    let review = match draft.card.review.take_if(|review| review.is_approved()) {
        Some(known) => known,
        None => decision(draft, ReviewState::Approved, ""),
    };
    draft.card.review = Some(Review { conflict_files: Vec::new(), merge_commit: commit, ..review });
}

/// Records the files in conflict, if the card has a review.
fn in_conflict(draft: &mut Draft<'_>, files: &[String]) {
    if let Some(review) = &mut draft.card.review {
        review.conflict_files = files.to_vec();
    }
}

fn said(feedback: &str) -> Option<String> {
    Some(feedback.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A decision about the work. The card may have no review yet: a task can come into review without a request.
pub(crate) fn decision(draft: &Draft<'_>, state: ReviewState, feedback: &str) -> Review {
    let (by, now) = (draft.actor().clone(), draft.now);
    let known = draft.card.review.clone();
    let (summary, requested_at, conflict_files) = match known {
        Some(known) => (known.summary, known.requested_at, known.conflict_files),
        None => (String::new(), now, Vec::new()),
    };
    Review {
        state,
        summary,
        feedback: said(feedback),
        by,
        requested_at,
        decided_at: Some(now),
        conflict_files,
        merge_commit: None,
        is_advice: false,
        tree: None,
        rounds: rounds(draft),
    }
}

/// A decision that sends the work back, which is one more round.
pub(crate) fn sent_back(draft: &Draft<'_>, feedback: &str) -> Review {
    let rejection = decision(draft, ReviewState::Rejected, feedback);
    Review { rounds: rejection.rounds.saturating_add(1), ..rejection }
}

/// How many times the work was sent back so far.
pub(crate) fn rounds(draft: &Draft<'_>) -> u32 {
    draft.card.review.as_ref().map_or(0, |review| review.rounds)
}
