//! Tools over tasks. A handler reads, calls one engine verb and renders.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::{Envelope, Next, Reply};
use super::view;
use super::words::{Status, Written, written};
use crate::tool::Call;

pub(super) fn task_id(text: &str) -> Result<TaskId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::TaskNotFound { task: text.into() })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskArgument {
    task_id: String,
}

pub(super) async fn get_task(call: &Call<'_>, args: TaskArgument) -> Reply {
    let seen = call.engine.task_get(call.op, task_id(&args.task_id)?).await?;
    Ok(view::task(&seen.it))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Move {
    task_id: String,
    /// BACKLOG, IN_PROGRESS, REVIEW or DONE
    status: String,
}

pub(super) async fn tasks_move(call: &Call<'_>, args: Move) -> Reply {
    let status = written(&args.status)?;
    let task = task_id(&args.task_id)?;
    let record = call.engine.task_get(call.op, task).await?.it;
    let status = match status {
        Written::Status(status) => status,
        Written::TaskType(mode) => {
            let arguments = json!({"task_id": task, "task_type": mode.word()});
            let message = format!("'{}' is a task type, not a status", mode.word());
            let no = Envelope::no("STATUS_WAS_TASK_TYPE", message)
                .hint("Set the mode with tasks_update")
                .next(Next::new("tasks_update", arguments));
            return Ok(no.answer(call, json!({"task_id": task, "new_status": null})));
        }
    };
    let label = call.engine.policy().first_of(status.phase()).map(|label| label.name.clone());
    let label = label.unwrap_or(record.task.label);
    let moved = call.engine.task_transition(call.op, task, label).await?.it;
    let new_status = Status::of(moved.task.phase).word();
    let done = Envelope::yes("Task moved").code("MOVED");
    Ok(done.answer(call, json!({"task_id": task, "new_status": new_status})))
}

pub(super) async fn tasks_delete(call: &Call<'_>, args: TaskArgument) -> Reply {
    let task = task_id(&args.task_id)?;
    call.engine.task_remove(call.op, task).await?;
    let done = Envelope::yes("Deleted successfully").code("DELETED");
    Ok(done.answer(call, json!({ "task_id": task })))
}
