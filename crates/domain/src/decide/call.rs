//! Calls as such, where a toolset keeps them in the log: no row changes, history does.

use serde_json::json;

use crate::event::{Event, EventName};
use crate::ids::TaskId;
use crate::world::{Change, Reply, World};

/// The task is only named: whoever follows it has nothing to look at.
pub(super) fn call_refuse(
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

pub(super) fn call_answer(world: &World<'_>, tool: &str, task: Option<TaskId>) -> Change {
    let (actor, name) = (world.actor.clone(), EventName::CallAnswered);
    noted(Event { actor, name, about: None, data: json!({"tool": tool, "task": task}) })
}

fn noted(event: Event) -> Change {
    Change { writes: Vec::new(), events: vec![event], reply: Reply::Noted, but: None }
}
