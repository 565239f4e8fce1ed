//! Facts for an agent about itself.

use callboard_domain::crew::state::EpicState;
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_engine::{CardSeen, task_state};
use serde_json::{Value, json};

use super::envelope::{self, Data, Fault};
use super::permission::is_for;
use super::pipeline::AgentCall;
use crate::tool::NoArguments;
use callboard_engine::time::rfc3339_ms;

const NO_TASK: &str = "Agent does not have a current task assigned";

/// The agent itself, with its state, epic and task as they are now.
pub(super) async fn get_status(call: &AgentCall<'_>, _: NoArguments) -> Data {
    let standing = call.engine.agent_standing(call.op, call.agent).await?;
    let agent = call.agent;
    Ok(json!({
        "id": agent.id,
        "type": agent.kind,
        "state": standing.state.as_str(),
        "currentEpicId": standing.epic,
        "currentTaskId": standing.task,
        "tmuxSessionName": standing.terminal.map(|terminal| terminal.session),
        "lastActiveAt": rfc3339_ms(agent.last_active_at),
        "createdAt": rfc3339_ms(agent.created_at),
        "updatedAt": rfc3339_ms(agent.updated_at),
    }))
}

/// The worker's own task. Other types pass the pattern of this tool and are refused here.
pub(super) async fn get_task(call: &AgentCall<'_>, _: NoArguments) -> Data {
    if !is_for(call.agent.kind, call.op.tool) {
        return Err(Fault::state("Only WORKER agents can get task details"));
    }
    let task = current_task(call).await?;
    let pulls = call.engine.pulls_of_task(call.op, task.record.task.id).await?;
    let url = pulls.first().map(|pull| pull.url.as_str());
    Ok(task_shown(&task, url, call.engine.now()))
}

/// The epic that the agent leads, or that the worker's task is part of.
pub(super) async fn get_epic(call: &AgentCall<'_>, _: NoArguments) -> Data {
    let epic = match call.agent.kind {
        // A worker belongs to an epic only through its task.
        AgentType::Worker => current_task(call).await?.record.task.parent,
        AgentType::Supervisor | AgentType::Orchestrator => call.agent.epic,
    };
    let epic = epic.ok_or_else(|| Fault::state("Agent does not have a current epic"))?;
    let found = call.engine.agent_card(call.op, Some(epic)).await?;
    found.as_ref().map(epic_shown).ok_or_else(|| epic_not_found(epic))
}

/// The fault of an epic that was removed while the agent still names it.
fn epic_not_found(epic: TaskId) -> Fault {
    Fault::said(envelope::RESOURCE_NOT_FOUND, format!("Epic with ID '{epic}' not found"))
}

/// The current task of a worker; a closed task is none.
async fn current_task(call: &AgentCall<'_>) -> Result<CardSeen, Fault> {
    let id = call.agent.task.ok_or_else(|| Fault::state(NO_TASK))?;
    let Some(task) = call.engine.agent_card(call.op, Some(id)).await? else {
        let words = format!("Task with ID '{id}' not found");
        return Err(Fault::said(envelope::RESOURCE_NOT_FOUND, words));
    };
    match task.record.task.phase.is_closed() {
        true => Err(Fault::state(NO_TASK)),
        false => Ok(task),
    }
}

/// A task in the keys of the reference.
fn task_shown(seen: &CardSeen, url: Option<&str>, now: Timestamp) -> Value {
    let record = &seen.record;
    // The worktree and the branch are those of the newest attempt, also after its end.
    let newest = record.newest.as_ref();
    json!({
        "id": record.task.id,
        "number": record.task.number,
        "title": record.task.title,
        "description": record.body,
        "state": task_state(seen, now).as_str(),
        "epicId": record.task.parent,
        "worktreePath": newest.and_then(|attempt| attempt.worktree.as_ref()),
        "branchName": newest.and_then(|attempt| attempt.branch.as_ref()),
        "prUrl": url,
        "createdAt": rfc3339_ms(record.task.created_at),
        "updatedAt": rfc3339_ms(record.task.updated_at),
    })
}

fn epic_shown(seen: &CardSeen) -> Value {
    let CardSeen { record, .. } = seen;
    let state = EpicState::of(&record.task);
    // The time of a cancelled epic is not a completion.
    let completed_at = (state == EpicState::Completed).then_some(record.task.phase_at);
    json!({
        "id": record.task.id,
        "number": record.task.number,
        "title": record.task.title,
        "description": record.body,
        "state": state.as_str(),
        "createdAt": rfc3339_ms(record.task.created_at),
        "updatedAt": rfc3339_ms(record.task.updated_at),
        "completedAt": completed_at.map(rfc3339_ms),
    })
}
