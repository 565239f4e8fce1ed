//! What the author of a task may correct while the task is open: title, deps and checks.

use serde_json::json;

use crate::command::TaskUpdate;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::decide::task::dependency;
use crate::event::EventName;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World};

pub(crate) fn task_update(
    world: &World<'_>,
    update: &TaskUpdate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if update.title.is_none() && update.deps.is_none() && update.checks.is_none() {
        return Err(Refusal::invalid("nothing to update: give a title, deps or checks"));
    }
    let mut draft = Draft::of_task(world, update.task, now)?;
    if !world.actor.is_human() && update.author.as_ref() != Some(world.actor) {
        let author = update.author.clone();
        return Err(Refusal::NotTaskAuthor { task: update.task, author });
    }
    if draft.task.phase.is_closed() {
        let (label, at) = (draft.task.label.clone(), draft.standing());
        return Err(Refusal::AlreadyOver { task: update.task, label, at });
    }
    let mut fields = Vec::new();
    if let Some(title) = &update.title {
        draft.task.title = input::title(title)?;
        fields.push("title");
    }
    if let Some(deps) = &update.deps
        && dependency::replace(&mut draft, deps)?
    {
        fields.push("deps");
    }
    if let Some(checks) = &update.checks {
        let checks = input::checks(checks)?;
        input::contract(draft.task.contract.as_ref(), &checks)?;
        draft.task.checks = checks;
        fields.push("checks");
    }
    if fields.is_empty() {
        return Ok(draft.unchanged(Reply::Task(update.task)));
    }
    draft.event(EventName::TaskUpdated, json!({"fields": fields}));
    draft.entry("edited", Some(fields.join(", ")));
    Ok(draft.done())
}
