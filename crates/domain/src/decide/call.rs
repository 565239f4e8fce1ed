//! Calls that a toolset keeps in the log: they add an event and change no row.

use serde_json::json;

use crate::event::{Event, EventName};
use crate::ids::TaskId;
use crate::world::{Change, Reply, World};

/// Logs a refused call. The event names the task only in its data: followers of the task have nothing to look at.
pub(crate) fn call_refuse(
    world: &World<'_>,
    tool: &str,
    action: Option<&str>,
    code: &str,
    task: Option<TaskId>,
) -> Change {
    let mut data = json!({"tool": tool, "code": code, "task": task});
    if let Some(action) = action {
        data["action"] = action.into();
    }
    let (actor, name) = (world.actor.clone(), EventName::CallRefused);
    noted(Event { actor, name, about: None, data })
}

pub(crate) fn call_answer(world: &World<'_>, tool: &str, task: Option<TaskId>) -> Change {
    let (actor, name) = (world.actor.clone(), EventName::CallAnswered);
    noted(Event { actor, name, about: None, data: json!({"tool": tool, "task": task}) })
}

fn noted(event: Event) -> Change {
    Change { writes: Vec::new(), events: vec![event], reply: Reply::Noted, but: None }
}
