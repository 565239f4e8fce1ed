//! Messages for the agent of a task. Each waits beside the task until an agent has it: an agent at work that can be
//! spoken to, else the next one that starts.

use serde_json::json;

use crate::board::card::AgentMessage;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::limits::{NOTE_CHARS_MAX, TOLD_MAX};
use crate::refusal::Refusal;
use crate::runs::job::JobId;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World};

pub(crate) fn task_tell(
    world: &World<'_>,
    id: TaskId,
    text: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let text = input::said("text", text, NOTE_CHARS_MAX, "text cannot be blank")?;
    let mut draft = Draft::of_task(world, id, now)?;
    // No agent starts on a closed task.
    draft.open_gate()?;
    let told = &mut draft.card.told;
    if told.len() >= TOLD_MAX {
        let words = format!("{TOLD_MAX} messages wait for an agent of {id} already");
        return Err(Refusal::invalid(words));
    }
    let after = told.last().map_or(now, |last| Timestamp(last.at.0 + 1));
    told.push(AgentMessage { by: world.actor.clone(), at: now.max(after), text: text.to_owned() });
    draft.event(EventName::TaskTold, json!({"text": text}));
    draft.entry("told its agent", Some(text.to_owned()));
    Ok(draft.done())
}

/// Removes the messages that an agent has received. Idempotent: repeating the call changes nothing.
pub(crate) fn task_hear(
    world: &World<'_>,
    id: TaskId,
    job: JobId,
    upto: Timestamp,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let before = draft.card.told.len();
    draft.card.told.retain(|told| told.at > upto);
    let heard = before - draft.card.told.len();
    if heard == 0 {
        return Ok(draft.unchanged(Reply::Task(id)));
    }
    draft.event(EventName::TaskHeard, json!({"job": job, "messages": heard}));
    let words = if heard == 1 { "a message".to_owned() } else { format!("{heard} messages") };
    draft.entry("gave its agent", Some(words));
    Ok(draft.done())
}
