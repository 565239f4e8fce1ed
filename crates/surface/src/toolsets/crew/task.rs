//! Tools for single tasks: status by their workers, comments by every agent, assignment by their leads.

use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::AgentType;
use callboard_engine::{CrewSaid, task_state};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::{Data, Fault, PERMISSION_DENIED};
use super::epic::{TaskWord, add_task, task_id};
use super::pipeline::AgentCall;
use callboard_engine::time::rfc3339_ms;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateStatus {
    status: TaskWord,
    /// Required for BLOCKED and FAILED
    reason: Option<String>,
    /// Only with REVIEW; left out, a pull request is opened
    pr_url: Option<String>,
}

/// Moves the worker's own task: no argument names another one.
pub(super) async fn update_status(call: &AgentCall<'_>, args: UpdateStatus) -> Data {
    let to = args.status.state();
    let url = args.pr_url.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    // A pull request belongs to the hand-over; with another state the address would be lost silently.
    if url.is_some() && !matches!(args.status, TaskWord::Review) {
        return Err(Refusal::invalid_field("prUrl", "prUrl goes only with REVIEW").into());
    }
    // `mail` is the id of the letter that the move may send; a retry sends no second one.
    let said = CrewSaid { to, reason: args.reason, url, mail: MailId(call.id(0)) };
    let moved = call.engine.crew_move(call.op, call.agent, said).await?;
    Ok(json!({
        "taskId": moved.task,
        "state": moved.state.as_str(),
        "previousState": moved.previous.as_str(),
        "prUrl": moved.url,
        "changed": moved.changed,
        "updatedAt": rfc3339_ms(moved.updated_at),
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddComment {
    body: String,
    /// Default: your own task
    task_id: Option<String>,
}

/// Adds a note to a task of the agent's epic; an orchestrator may comment on any task.
pub(super) async fn add_comment(call: &AgentCall<'_>, args: AddComment) -> Data {
    let task = args.task_id.as_deref().map(task_id).transpose()?;
    let comment = call.engine.crew_comment(call.op, call.agent, task, args.body).await?;
    Ok(json!({
        "commentId": comment.id.to_string(),
        "taskId": comment.task,
        "timestamp": rfc3339_ms(comment.created_at),
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EpicTaskCreateRequest {
    title: String,
    description: String,
    /// Default: your own epic
    epic_id: Option<String>,
}

pub(super) async fn create(call: &AgentCall<'_>, args: EpicTaskCreateRequest) -> Data {
    let epic = match args.epic_id.as_deref().map(str::trim) {
        None => call.engine.epic_of(call.op, call.agent).await?.it.record.task.id,
        Some(text) => {
            let epic = text.parse();
            epic.map_err(|_| Refusal::EpicNotFound { epic: text.to_owned() })?
        }
    };
    // An orchestrator may add to any epic, a supervisor to its own.
    if call.agent.kind == AgentType::Supervisor && call.agent.epic != Some(epic) {
        let words = "Epic does not belong to this supervisor";
        return Err(Fault::said(PERMISSION_DENIED, words));
    }
    add_task(call, epic, args.title, args.description).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Assign {
    task_id: String,
    agent_id: String,
}

/// Gives a task to a worker. The domain judges whether this agent may, and whether the worker is free.
pub(super) async fn assign(call: &AgentCall<'_>, args: Assign) -> Data {
    let task = task_id(&args.task_id)?;
    let name = args.agent_id.trim();
    let not_found = || Refusal::AgentNotFound { agent: name.to_owned() };
    let worker = AgentId::parse(name).ok_or_else(not_found)?;
    let seen = call.engine.crew_assign(call.op, call.agent, task, &worker).await?;
    Ok(json!({
        "taskId": task,
        "agentId": worker,
        "state": task_state(&seen.it, seen.now).as_str(),
        "message": "Task assigned.",
    }))
}
