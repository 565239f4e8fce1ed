//! A supervisor's tools: the tasks of its epic, the review queue, and how both end.

use callboard_domain::crew::MailId;
use callboard_domain::crew::state::{EpicState, TaskState, failure_reason};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_engine::ports::FileFault;
use callboard_engine::{EngineError, EpicFileFault, EpicTask, EpicTaskMade};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{
    Data, Fault, INVALID_AGENT_STATE, INVALID_INPUT, PERMISSION_DENIED, RESOURCE_NOT_FOUND, Said,
};
use super::permission::is_for;
use super::pipeline::{AgentCall, denied};
use super::{diff, hints};
use crate::args;
use crate::page;
use crate::tool::NoArguments;
use callboard_engine::time::rfc3339_ms;

/// Tasks on a page unless the caller asks for another number.
const PAGE_DEFAULT: u32 = 100;

// The states of a task in the reference, as a filter of lists and as the target of a move.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum TaskWord {
    Pending,
    Assigned,
    InProgress,
    Review,
    Blocked,
    Completed,
    Failed,
}

impl TaskWord {
    /// The domain's state. The words are apart because the schema of the tools must not change with the domain.
    pub fn state(self) -> TaskState {
        match self {
            TaskWord::Pending => TaskState::Pending,
            TaskWord::Assigned => TaskState::Assigned,
            TaskWord::InProgress => TaskState::InProgress,
            TaskWord::Review => TaskState::Review,
            TaskWord::Blocked => TaskState::Blocked,
            TaskWord::Completed => TaskState::Completed,
            TaskWord::Failed => TaskState::Failed,
        }
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum EpicWord {
    Planning,
    InProgress,
    Blocked,
    Completed,
    Cancelled,
}

impl EpicWord {
    fn state(self) -> EpicState {
        match self {
            EpicWord::Planning => EpicState::Planning,
            EpicWord::InProgress => EpicState::InProgress,
            EpicWord::Blocked => EpicState::Blocked,
            EpicWord::Completed => EpicState::Completed,
            EpicWord::Cancelled => EpicState::Cancelled,
        }
    }
}

/// The id in a text; text that is no id names no task.
pub(super) fn task_id(text: &str) -> Result<TaskId, Refusal> {
    let text = text.trim();
    text.parse().map_err(|_| Refusal::TaskNotFound { task: text.to_owned() })
}

/// Refuses an orchestrator, which passes the pattern of these tools.
fn supervisor_only(call: &AgentCall<'_>) -> Result<(), Fault> {
    let kind = call.agent.kind;
    match is_for(kind, call.op.tool) {
        true => Ok(()),
        false => Err(Fault::Said(denied(call.op.tool, kind))),
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CreateTask {
    title: String,
    description: String,
}

/// Adds a task to the supervisor's own epic.
pub(super) async fn create_task(call: &AgentCall<'_>, args: CreateTask) -> Data {
    supervisor_only(call)?;
    let epic = call.engine.epic_of(call.op, call.agent).await?.it.record.task.id;
    add_task(call, epic, args.title, args.description).await
}

/// Adds a task to an epic; shared with `mcp__task__create`, whose caller names the epic. The id comes from the call, so
/// a retried call makes no second task.
pub(super) async fn add_task(
    call: &AgentCall<'_>,
    epic: TaskId,
    title: String,
    description: String,
) -> Data {
    if description.trim().is_empty() {
        return Err(Refusal::invalid_field("description", "description cannot be blank").into());
    }
    let (op, by) = (call.op, call.agent);
    let text = (title, args::description(description)?);
    // `call.id` is stable over retries, so a try whose answer was lost finds its own row.
    let made = call.engine.epic_task_add(op, by, epic, call.id(0), text).await?;
    let EpicTaskMade { task, title, workspace } = made;
    Ok(json!({
        "taskId": task,
        "title": title,
        "worktreeName": workspace,
        "message": "Task created. A worker will be assigned automatically.",
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListTasks {
    state: Option<TaskWord>,
    /// Default 100
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
    /// nextCursor of an earlier answer
    cursor: Option<String>,
}

/// A page of the epic's tasks, the oldest first.
pub(super) async fn list_tasks(call: &AgentCall<'_>, args: ListTasks) -> Data {
    supervisor_only(call)?;
    let epic = call.engine.epic_of(call.op, call.agent).await?.it.record.task.id;
    let cursor = args.cursor.as_deref().map(str::trim).filter(|cursor| !cursor.is_empty());
    let after = cursor.map(|cursor| {
        let words = "cursor must be the nextCursor of an earlier answer";
        Id::parse(cursor).ok_or_else(|| Refusal::invalid_field("cursor", words))
    });
    let (after, limit) = (after.transpose()?, args.limit.unwrap_or(PAGE_DEFAULT) as usize);
    let state = args.state.map(TaskWord::state);
    let (tasks, next) = call.engine.epic_task_list(call.op, epic, state, after, limit).await?;
    let tasks: Vec<Value> = tasks.iter().map(shown).collect();
    let mut data = json!({"epicId": epic, "tasks": tasks});
    if let Some(next) = next {
        data["nextCursor"] = next.to_string().into();
    }
    Ok(data)
}

/// One line of the list; long descriptions are cut.
fn shown(task: &EpicTask) -> Value {
    let EpicTask { row, state, worker, url } = task;
    let newest = row.newest.as_ref();
    let done = (row.task.phase == Phase::ClosedDone).then(|| rfc3339_ms(row.task.phase_at));
    json!({
        "id": row.task.id,
        "number": row.task.number,
        "title": row.task.title,
        "description": page::cut(&row.body),
        "state": state.as_str(),
        "assignedAgentId": worker,
        "prUrl": url,
        "worktreePath": newest.and_then(|newest| newest.worktree.as_deref()),
        "branchName": newest.and_then(|newest| newest.branch.as_deref()),
        "createdAt": rfc3339_ms(row.task.created_at),
        "updatedAt": rfc3339_ms(row.task.updated_at),
        "completedAt": done,
        "failureReason": failure_reason(&row.task, &row.card),
    })
}

/// Tasks in review, the longest wait first. `needsRebase` says that the epic's branch went on since the work began.
pub(super) async fn get_review_queue(call: &AgentCall<'_>, _: NoArguments) -> Data {
    supervisor_only(call)?;
    let epic = call.engine.epic_of(call.op, call.agent).await?.it.record.task.id;
    let waiting = call.engine.epic_reviews(call.op, epic).await?;
    let line = |(place, (task, is_behind)): (usize, &(EpicTask, bool))| {
        json!({
            "position": place + 1,
            "taskId": task.row.task.id,
            "title": task.row.task.title,
            "prUrl": task.url,
            "submittedAt": rfc3339_ms(task.row.task.phase_at),
            "needsRebase": is_behind,
        })
    };
    let queue: Vec<Value> = waiting.iter().enumerate().map(line).collect();
    Ok(json!({"epicId": epic, "queue": queue}))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OneTask {
    task_id: String,
}

/// Merges a task into the epic's branch. Three ends: merged, nothing to merge, or left to the forge.
pub(super) async fn approve_pr(call: &AgentCall<'_>, args: OneTask) -> Data {
    supervisor_only(call)?;
    let task = task_id(&args.task_id)?;
    let approved = call.engine.crew_approve(call.op, call.agent, task).await?;
    let message = match (approved.merged, approved.is_empty) {
        (true, _) => format!("PR merged successfully. {} rebase requests sent.", approved.told),
        (false, true) => {
            "Nothing to merge: the branch has no changes. The task is completed.".to_owned()
        }
        (false, false) => {
            "Auto-merge enabled. The task completes when the PR is merged.".to_owned()
        }
    };
    Ok(json!({
        "taskId": task,
        "prUrl": approved.url,
        "merged": approved.merged,
        "message": message,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestChanges {
    task_id: String,
    feedback: String,
}

/// Sends a task in review back to its worker.
pub(super) async fn request_changes(call: &AgentCall<'_>, args: RequestChanges) -> Data {
    supervisor_only(call)?;
    let task = task_id(&args.task_id)?;
    let mail = MailId(call.id(0));
    call.engine.crew_return(call.op, call.agent, task, args.feedback, mail).await?;
    Ok(json!({
        "taskId": task,
        "message": "Feedback sent to worker. Task returned to IN_PROGRESS.",
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadFile {
    task_id: String,
    /// Relative to the worktree
    file_path: String,
}

/// A file of a task's worktree, as text.
pub(super) async fn read_file(call: &AgentCall<'_>, args: ReadFile) -> Data {
    supervisor_only(call)?;
    let task = task_id(&args.task_id)?;
    let path = &args.file_path;
    match call.engine.epic_file(call.op, call.agent, task, path).await {
        Ok(content) => Ok(json!({"taskId": task, "filePath": path, "content": content})),
        Err(fault) => Err(no_file(path, fault)),
    }
}

/// The work of a task against the epic's branch.
pub(super) async fn get_diff(call: &AgentCall<'_>, args: OneTask) -> Data {
    supervisor_only(call)?;
    let task = task_id(&args.task_id)?;
    let diffs = call.engine.epic_diff(call.op, call.agent, task).await?;
    if diffs.is_empty() {
        return Err(no_worktree());
    }
    Ok(diff::shown(task, &diffs))
}

/// The fault of a task that no worker has begun.
fn no_worktree() -> Fault {
    Fault::Said(Said::new(INVALID_AGENT_STATE, "Task has no worktree").hint(hints::NO_WORKTREE))
}

/// The codes of a file that is not shown.
fn no_file(path: &str, fault: EpicFileFault) -> Fault {
    let fault = match fault {
        EpicFileFault::NoWorktree => {
            return no_worktree();
        }
        EpicFileFault::Engine(error) => return error.into(),
        EpicFileFault::File(fault) => fault,
    };
    let (code, message) = match fault {
        // The path comes from a model: `..`, absolute paths and links out of the worktree end here.
        FileFault::Outside => {
            (PERMISSION_DENIED, "File path must be within the task worktree".to_owned())
        }
        FileFault::NotFound => {
            let said = Said::new(RESOURCE_NOT_FOUND, format!("File not found: {path}"));
            return Fault::Said(
                said.hint("mcp__epic__get_diff names the files that the task changes"),
            );
        }
        FileFault::NotPlain => (INVALID_INPUT, "Not a regular file".to_owned()),
        FileFault::TooLarge(bytes) => (INVALID_INPUT, format!("File is larger than {bytes} bytes")),
        FileFault::NotText => (INVALID_INPUT, "File is not UTF-8 text".to_owned()),
        FileFault::Failed(words) => return Fault::Broken(EngineError::Internal(words)),
    };
    Fault::Said(Said::new(code, message))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CreateEpicPr {
    /// Default: [Epic] and the epic's title
    title: Option<String>,
    /// Default: what became of each task
    description: Option<String>,
}

/// Finishes the epic with one pull request for all of its work. Idempotent: a finished epic answers with its page.
pub(super) async fn create_epic_pr(call: &AgentCall<'_>, args: CreateEpicPr) -> Data {
    supervisor_only(call)?;
    // A blank text counts as left out, and the default stands.
    let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let text = (said(args.title), said(args.description));
    let mail = MailId(call.id(0));
    let finished = call.engine.epic_finish(call.op, call.agent, text, mail).await?;
    Ok(json!({
        "epicId": finished.epic,
        "prUrl": finished.url,
        "prNumber": finished.number,
        "state": EpicState::Completed.as_str(),
        "message": "Epic PR created successfully. Human review requested.",
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UpdateStatus {
    status: EpicWord,
}

/// Moves the supervisor's epic. `skipped` names tasks that could not be given up with it.
pub(super) async fn update_status(call: &AgentCall<'_>, args: UpdateStatus) -> Data {
    let moved = call.engine.epic_move(call.op, call.agent, args.status.state()).await?;
    Ok(json!({
        "epicId": call.agent.epic,
        "state": moved.state.as_str(),
        "previousState": moved.previous.as_str(),
        "skipped": moved.skipped,
        "updatedAt": rfc3339_ms(moved.updated_at),
    }))
}
