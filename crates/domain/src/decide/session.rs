//! Sessions of a person and an agent on one task: an attempt without a lease, of the agent that works
//! there and not of whoever asked for it.

use serde_json::json;

use super::draft::Draft;
use super::task;
use crate::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::card::Mode;
use crate::command::SessionBegin;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

pub(super) fn session_begin(
    world: &World<'_>,
    new: &SessionBegin,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    judge(&draft, new)?;
    if draft.task.phase == Phase::Initial {
        draft.deps_gate()?;
    }
    let reason = "another session took its place".into();
    draft.end_live(AttemptEnd::Canceled { reason });
    draft.task.fence += 1;
    draft.task.newest_attempt = Some(new.attempt);
    let attempt = Attempt {
        id: new.attempt,
        task: new.task,
        kind: AttemptKind::Pair,
        fence: draft.task.fence,
        actor: new.agent.clone(),
        key: None,
        client: None,
        model: None,
        worktree: new.worktree.clone(),
        branch: new.branch.clone(),
        head_started: None,
        started_at: now,
        state: AttemptState::Live { heartbeat_at: now, progress: None, lease: None },
    };
    draft.write(Write::AttemptInsert { attempt });
    let data = json!({"agent": new.agent, "fence": draft.task.fence});
    draft.attempt_event(EventName::SessionCreated, new.attempt, data);
    if draft.task.assignee.as_ref() != Some(&new.agent) {
        draft.task.assignee = Some(new.agent.clone());
        draft.event(EventName::TaskClaimed, json!({"assignee": new.agent}));
    }
    if draft.task.phase == Phase::Initial
        && let Some(working) = world.policy.working().cloned()
    {
        draft.move_to(&working);
    }
    draft.attempt_entry("began a session", Some(new.agent.to_string()), new.attempt);
    Ok(draft.done())
}

/// The caller may hand over what it holds itself, and an older session makes way for a new one.
fn judge(draft: &Draft<'_>, new: &SessionBegin) -> Result<(), Refusal> {
    if draft.subject.card.mode != Mode::Pair {
        return Err(Refusal::NotPair { task: new.task });
    }
    if draft.task.phase.is_closed() {
        let label = draft.task.label.clone();
        return Err(Refusal::TaskClosed { task: new.task, label });
    }
    let ours = [draft.actor(), &new.agent];
    if let Some(holder) = draft.task.assignee.as_ref().filter(|holder| !ours.contains(holder)) {
        return Err(draft.claimed_by(holder));
    }
    match &draft.live {
        Some(live) if live.kind != AttemptKind::Pair => Err(task::session_active(draft)),
        _ => Ok(()),
    }
}

/// Worktree and status stay as they are; the task is free again.
pub(super) fn session_end(
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
