//! Blocks: given with a reason, and lifted by an answer, by a claim, or by the end of the work.

use serde_json::json;

use crate::actor::Actor;
use crate::command::Command;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::event::{About, Event, EventName};
use crate::ids::TaskId;
use crate::limits::REASON_CHARS_MAX;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::task::block::{Blocked, NO_REASON};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Blocks an open task with a reason, or gives a blocked one a new reason. A closed task waits for nothing.
pub(crate) fn task_block(
    world: &World<'_>,
    id: TaskId,
    reason: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let reason = input::said("reason", reason, REASON_CHARS_MAX, "reason cannot be blank")?;
    let mut draft = Draft::of_task(world, id, now)?;
    if draft.task.phase.is_closed() {
        let words = format!("task {id} is {} and cannot be blocked", draft.task.label);
        return Err(Refusal::invalid(words));
    }
    block(&mut draft, world.actor, reason);
    draft.entry("blocked", Some(reason.trim().to_owned()));
    Ok(draft.done())
}

/// Lifts a block. Idempotent: a task without one stays as it is.
pub(crate) fn task_unblock(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    if draft.task.blocked.is_none() {
        return Ok(draft.unchanged(Reply::Task(id)));
    }
    lift(&mut draft);
    draft.entry("unblocked", None);
    Ok(draft.done())
}

/// Blocks the draft's task. `by` is remembered: only an answer of another actor lifts the block by itself.
pub(crate) fn block(draft: &mut Draft<'_>, by: &Actor, reason: &str) {
    let reason = match reason.trim() {
        "" => NO_REASON,
        reason => reason,
    };
    let data = json!({"by": by, "reason": reason});
    let (by, at, reason) = (by.clone(), draft.now, reason.to_owned());
    draft.task.blocked = Some(Blocked { by, at, reason });
    draft.event(EventName::TaskBlocked, data);
}

/// Lifts the block of the draft's task, if there is one, with its event.
pub(crate) fn lift(draft: &mut Draft<'_>) {
    if draft.task.blocked.take().is_some() {
        draft.event(EventName::TaskUnblocked, json!({}));
    }
}

/// Lifts the block when the change answers it, claims the task or ends the work on it.
pub(crate) fn answered(world: &World<'_>, command: &Command, change: &mut Change) {
    let Some(subject) = world.subject.as_ref().map(|subject| &subject.task) else { return };
    let Some(blocked) = &subject.blocked else { return };
    // A change that only records a refusal answered nothing.
    if change.but.is_some() {
        return;
    }
    let is_taken = change.events.iter().any(|event| event.name == EventName::TaskClaimed);
    let is_answered = command.is_edit() || command.is_answer() && *world.actor != blocked.by;
    // A rule that blocked or unblocked the task itself has the last word.
    let same = change.writes.iter_mut().find_map(|write| match write {
        Write::TaskUpdate { task } => {
            Some(task).filter(|task| task.id == subject.id && task.blocked == subject.blocked)
        }
        _ => None,
    });
    let Some(task) = same else { return };
    let is_over = task.phase != subject.phase
        && matches!(task.phase, Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled);
    if is_taken || is_answered || is_over {
        task.blocked = None;
        let about = About { project: task.project, task: task.id, attempt: None };
        let (actor, name, data) = (world.actor.clone(), EventName::TaskUnblocked, json!({}));
        change.events.push(Event { actor, name, about: Some(about), data });
    }
}
