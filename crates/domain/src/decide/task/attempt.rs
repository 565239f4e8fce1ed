//! Attempts: begin, heartbeat, finish, cancel, and the end of a lease.

use serde_json::json;

use crate::actor::Actor;
use crate::command::AttemptBegin;
use crate::decide::draft::{Draft, NewAttempt};
use crate::decide::input;
use crate::decide::task;
use crate::decide::task::check;
use crate::event::EventName;
use crate::ids::AttemptId;
use crate::limits::*;
use crate::policy::{Phase, Policy};
use crate::refusal::found::OrNotFound as _;
use crate::refusal::{Hold, Refusal};
use crate::retry::judge_key;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Health};
use crate::task::{Check, Dep, Task};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Begins a session. Its key makes a repeated call find the first session instead of a refusal.
pub(crate) fn attempt_begin(
    world: &World<'_>,
    new: &AttemptBegin,
    now: Timestamp,
) -> Result<Change, Refusal> {
    judge_begin_input(world, new)?;
    let mut draft = Draft::of_task(world, new.task, now)?;
    // Found by the key; the caller may have lost the first answer.
    if let Some(existing) = &world.attempt {
        return Ok(draft.unchanged(Reply::Attempt(existing.id)));
    }
    let ground =
        BeginGround { task: &draft.task, deps: &draft.subject.deps, live: draft.live.as_ref() };
    begin_gate(world.policy, &ground, world.actor, new.takeover, now)?;
    let replaced = (new.takeover && task::may_take_over(&draft)).then(|| take_over(&mut draft));
    draft.begin(NewAttempt {
        id: new.attempt,
        kind: new.kind,
        actor: world.actor.clone(),
        key: new.key.clone(),
        client: new.client.clone().or(new.bound_client.clone()),
        model: new.model.clone(),
        worktree: new.worktree.clone(),
        branch: new.branch.clone(),
        head: new.head.clone(),
        lease_s: new.lease_s,
    });
    if draft.task.assignee.is_none() {
        draft.assign();
    }
    // A project without a working label leaves the task where it is.
    if draft.task.phase == Phase::Initial
        && let Some(working) = world.policy.working().cloned()
    {
        draft.move_to(&working);
    }
    let did = format!("began session ses_{}", new.attempt.0);
    let text = replaced.flatten().map(|old| format!("took over ses_{}", old.0));
    draft.attempt_entry(&did, text, new.attempt);
    Ok(draft.done_with(new.attempt))
}

/// A task as found by a caller that wants to begin a session.
pub struct BeginGround<'a> {
    pub task: &'a Task,
    pub deps: &'a [Dep],
    /// The live attempt, its lease judged at the time of the call.
    pub live: Option<&'a Attempt>,
}

/// Whether a caller may begin a session. The engine asks before it makes a worktree; `decide` asks again in the
/// transaction.
pub fn begin_gate(
    policy: &Policy,
    ground: &BeginGround<'_>,
    actor: &Actor,
    takeover: bool,
    now: Timestamp,
) -> Result<(), Refusal> {
    let BeginGround { task: wanted, deps, live } = *ground;
    if wanted.phase.is_closed() {
        return Err(Refusal::TaskClosed { task: wanted.id, label: wanted.label.clone() });
    }
    let replaced = live.filter(|live| takeover && live.may_be_taken_over(policy, now));
    let is_replaced = |holder: &&Actor| replaced.is_some_and(|old| old.actor == **holder);
    let assignee = wanted.assignee.as_ref().filter(|holder| !is_replaced(holder));
    if let Some(holder) = assignee.filter(|holder| *holder != actor) {
        let hold = Hold::of(live, holder, policy, now);
        return Err(Refusal::AlreadyClaimed { task: wanted.id, holder: holder.clone(), hold });
    }
    if let Some(live) = live.filter(|_| replaced.is_none()) {
        return Err(task::active(live, policy, now));
    }
    if wanted.phase == Phase::Initial {
        task::deps_gate(wanted.id, deps)?;
    }
    Ok(())
}

/// Judges the key of a session before a store looks it up: a database need not accept every character.
pub fn judge_session_key(key: &str) -> Result<(), Refusal> {
    input::said("idempotency_key", key, KEY_CHARS_MAX, "idempotency_key cannot be blank")?;
    judge_key("idempotency_key", key, KEY_CHARS_MAX)
}

/// Refuses a caller that takes itself for another actor than it is.
pub fn judge_actor(expected: &str, bound: &Actor) -> Result<(), Refusal> {
    match expected == bound.as_str() {
        true => Ok(()),
        false => Err(Refusal::ActorMismatch { expected: expected.into(), bound: bound.clone() }),
    }
}

fn judge_begin_input(world: &World<'_>, new: &AttemptBegin) -> Result<(), Refusal> {
    if let Some(key) = &new.key {
        judge_session_key(key)?;
    }
    input::optional("client", new.client.as_ref(), 200)?;
    input::optional("model", new.model.as_ref(), 200)?;
    input::optional("worktree", new.worktree.as_ref(), 1000)?;
    input::optional("branch", new.branch.as_ref(), 300)?;
    input::optional("head", new.head.as_ref(), 300)?;
    if let Some(expected) = &new.expected_actor {
        judge_actor(expected, world.actor)?;
    }
    match (&new.client, &new.bound_client) {
        (Some(given), Some(bound)) if given != bound => {
            Err(Refusal::ClientMismatch { given: given.clone(), bound: bound.clone() })
        }
        _ => Ok(()),
    }
}

/// Ends a stalled session in favour of the caller and unassigns its holder.
fn take_over(draft: &mut Draft<'_>) -> Option<AttemptId> {
    let stalled_holder = draft.live.as_ref().map(|live| live.actor.clone());
    let reason = format!("taken over by {}", draft.actor());
    if draft.task.assignee == stalled_holder {
        draft.task.assignee = None;
    }
    draft.end_live(AttemptEnd::Canceled { reason })
}

/// The session a verb names, if it is the caller's own graph session.
fn own_session<'w>(world: &'w World<'_>, id: AttemptId) -> Result<&'w Attempt, Refusal> {
    let attempt = world.attempt.as_ref().or_not_found(&id)?;
    if attempt.kind != AttemptKind::Graph {
        let kind = attempt.kind.as_str();
        return Err(Refusal::invalid(format!(
            "session ses_{} is an attempt of kind {kind}; only sessions begun here can be changed",
            id.0
        )));
    }
    if attempt.actor != *world.actor {
        return Err(Refusal::NotSessionOwner { owner: attempt.actor.clone() });
    }
    Ok(attempt)
}

fn terminal(attempt: &Attempt, world: &World<'_>, now: Timestamp) -> Refusal {
    Refusal::SessionTerminal { health: attempt.health(world.policy, now) }
}

pub(crate) fn attempt_heartbeat(
    world: &World<'_>,
    id: AttemptId,
    progress: Option<&str>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let progress = progress.filter(|text| !text.trim().is_empty());
    if let Some(text) = progress {
        input::longest("progress", text, PROGRESS_CHARS_MAX)?;
    }
    let attempt = own_session(world, id)?;
    let AttemptState::Live { progress: known, lease, .. } = &attempt.state else {
        return Err(terminal(attempt, world, now));
    };
    let news = progress.filter(|text| known.as_deref() != Some(*text));
    let state = AttemptState::Live {
        heartbeat_at: now,
        progress: progress.map(str::to_owned).or_else(|| known.clone()),
        lease: *lease,
    };
    let mut draft = Draft::of_task(world, attempt.task, now)?;
    draft.write(Write::AttemptUpdate { attempt: Attempt { state, ..attempt.clone() } });
    draft.attempt_event(EventName::AttemptHeartbeat, id, json!({"progress": news}));
    match news {
        None => draft.heartbeat_entry(id),
        Some(news) => draft.attempt_entry("heartbeat", Some(news.to_owned()), id),
    }
    Ok(draft.done_with(id))
}

/// Finishes a session with a summary and moves the task to review. Idempotent: a finished session stays as it is. A
/// canceled one is refused, since its work was given up.
pub(crate) fn attempt_finish(
    world: &World<'_>,
    id: AttemptId,
    summary: &str,
    head: Option<String>,
    tree: Option<&str>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    input::said("summary", summary, SUMMARY_CHARS_MAX, "summary is required")?;
    input::optional("head", head.as_ref(), 300)?;
    let attempt = own_session(world, id)?;
    let mut draft = Draft::of_task(world, attempt.task, now)?;
    match attempt.health(world.policy, now) {
        Health::Active | Health::Stalled => {}
        Health::Finished => return Ok(draft.unchanged(Reply::Attempt(id))),
        Health::Canceled => return Err(terminal(attempt, world, now)),
    }
    if world.policy.finish_requires_checks {
        // No check runs here. Results count only for the files as they are now.
        let recorded = |check: &Check| !check.is_command() || check.passes_for(tree, None);
        let unmet = check::unmet(&draft.task, recorded);
        if !unmet.is_empty() {
            return Err(Refusal::ChecksNotPassed { task: attempt.task, checks: unmet });
        }
    }
    let review = world.policy.review().cloned();
    let review =
        review.filter(|label| !draft.task.phase.is_closed() && draft.task.label != label.name);
    if review.is_some() && draft.task.phase == Phase::Initial {
        draft.deps_gate()?;
    }
    draft.end_live(AttemptEnd::Finished { summary: summary.to_owned(), head });
    if let Some(label) = review {
        draft.move_to(&label);
    }
    let did = format!("finished session ses_{}", id.0);
    draft.attempt_entry(&did, Some(summary.to_owned()), id);
    Ok(draft.done_with(id))
}

/// Gives a session up. The task is free afterwards if this actor had it.
pub(crate) fn attempt_cancel(
    world: &World<'_>,
    id: AttemptId,
    reason: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    input::said("reason", reason, REASON_CHARS_MAX, "reason is required")?;
    let attempt = own_session(world, id)?;
    let mut draft = Draft::of_task(world, attempt.task, now)?;
    match attempt.health(world.policy, now) {
        Health::Active | Health::Stalled => {}
        Health::Canceled => return Ok(draft.unchanged(Reply::Attempt(id))),
        Health::Finished => return Err(terminal(attempt, world, now)),
    }
    draft.end_live(AttemptEnd::Canceled { reason: reason.to_owned() });
    if draft.task.assignee.as_ref() == Some(&attempt.actor) {
        draft.unassign();
    }
    let did = format!("canceled session ses_{}", id.0);
    draft.attempt_entry(&did, Some(reason.to_owned()), id);
    Ok(draft.done_with(id))
}

/// Ends the attempt if its lease is over. `Draft` ends such a lease itself, so nothing else is left to do.
pub(crate) fn attempt_expire(
    world: &World<'_>,
    id: AttemptId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let attempt = world.attempt.as_ref().or_not_found(&id)?;
    let draft = Draft::of_task(world, attempt.task, now)?;
    if attempt.lease_is_over(now) {
        Ok(draft.done_with(id))
    } else {
        Ok(draft.unchanged(Reply::Attempt(id)))
    }
}
