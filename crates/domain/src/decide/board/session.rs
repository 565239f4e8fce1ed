//! Sessions of a person and an agent on one task: an attempt without a lease, of the agent that works there and not
//! of the caller.

use serde_json::json;

use crate::actor::Actor;
use crate::board::card::{Card, Mode};
use crate::command::SessionBegin;
use crate::decide::draft::{Draft, NewAttempt};
use crate::decide::task;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::policy::{Phase, Policy};
use crate::refusal::{Hold, Refusal};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::task::{Dep, Task};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World};

pub(crate) fn session_begin(
    world: &World<'_>,
    new: &SessionBegin,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    let ground = SessionGround {
        task: &draft.task,
        card: &draft.card,
        deps: &draft.subject.deps,
        newest: draft.subject.newest.as_ref(),
    };
    session_gate(world.policy, &ground, world.actor, &new.agent, now)?;
    let reason = "another session took its place".into();
    draft.end_live(AttemptEnd::Canceled { reason });
    draft.begin(NewAttempt {
        worktree: new.worktree.clone(),
        branch: new.branch.clone(),
        ..NewAttempt::of(new.attempt, AttemptKind::Pair, new.agent.clone())
    });
    if draft.task.assignee.as_ref() != Some(&new.agent) {
        draft.assign_to(new.agent.clone());
    }
    if draft.task.phase == Phase::Initial
        && let Some(working) = world.policy.working().cloned()
    {
        draft.move_to(&working);
    }
    draft.attempt_entry("began a session", Some(new.agent.to_string()), new.attempt);
    Ok(draft.done())
}

/// The rows a session is judged by.
pub struct SessionGround<'a> {
    pub task: &'a Task,
    pub card: &'a Card,
    pub deps: &'a [Dep],
    pub newest: Option<&'a Attempt>,
}

/// Whether a session of `agent` may begin. The caller may hand over a task it holds itself, and an older session
/// makes way for a new one.
pub fn session_gate(
    policy: &Policy,
    ground: &SessionGround<'_>,
    caller: &Actor,
    agent: &Actor,
    now: Timestamp,
) -> Result<(), Refusal> {
    let task = ground.task.id;
    if ground.card.mode != Mode::Pair {
        return Err(Refusal::NotPair { task });
    }
    if ground.task.phase.is_closed() {
        return Err(Refusal::TaskClosed { task, label: ground.task.label.clone() });
    }
    if ground.task.phase == Phase::Initial {
        task::deps_gate(task, ground.deps)?;
    }
    let is_live = |attempt: &&Attempt| matches!(attempt.state, AttemptState::Live { .. });
    let live = ground.newest.filter(is_live);
    // An actor whose lease is over holds nothing any more.
    if live.is_some_and(|live| live.lease_is_over(now)) {
        return Ok(());
    }
    let ours = [caller, agent];
    if let Some(holder) = ground.task.assignee.as_ref().filter(|holder| !ours.contains(holder)) {
        let hold = Hold::of(live, holder, policy, now);
        return Err(Refusal::AlreadyClaimed { task, holder: holder.clone(), hold });
    }
    match live.filter(|live| live.kind != AttemptKind::Pair) {
        Some(live) => Err(task::active(live, policy, now)),
        None => Ok(()),
    }
}

/// Ends a session and frees the task; worktree and status stay as they are.
pub(crate) fn session_end(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let Some(live) = draft.live.clone().filter(|live| live.kind == AttemptKind::Pair) else {
        return Ok(draft.unchanged(Reply::Task(id)));
    };
    draft.end_live(AttemptEnd::Canceled { reason: "session ended".into() });
    draft.attempt_event(EventName::SessionKilled, live.id, json!({}));
    if draft.task.assignee.as_ref() == Some(&live.actor) {
        draft.unassign();
    }
    draft.attempt_entry("ended a session", None, live.id);
    Ok(draft.done())
}
