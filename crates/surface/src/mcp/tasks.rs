//! The extension `io.modelcontextprotocol/tasks`: tickets in the protocol's shapes, and the work behind a new one.
//! Clients poll; no notification is ever sent about a task.

use std::sync::Arc;

use callboard_domain::handle::HandleEnd;
use callboard_engine::context::{OpContext, Scope};
use callboard_engine::{LongCall, Words};
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, DetailedTask,
    ErrorCode, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::handler::is_modern;
use super::render;
use crate::front::{Front, ToolReply};
use crate::lookup::LookupError;
use crate::ticket::{Ticket, TicketState};
use callboard_engine::time::rfc3339_ms;

/// The key of an answer's `_meta` that names a task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Whether this client supports tasks.
pub(super) fn are_declared(ctx: &RequestContext<RoleServer>) -> bool {
    is_modern(ctx) && ctx.client_capabilities().is_some_and(|known| known.supports_tasks())
}

/// The error for a client that must declare tasks first.
pub(super) fn needed() -> ErrorData {
    let needed = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(needed)
}

/// How the work behind a ticket ended.
pub(super) enum Ended {
    Answered(Result<CallToolResult, ErrorData>),
    Canceled,
}

/// A handle for a running call; `run` must follow. `None` when no handle can be written now: then the caller can only
/// wait.
pub(super) async fn open(
    front: &Front,
    op: &OpContext,
    scope: Scope,
    words: Words,
) -> Option<Arc<LongCall>> {
    let opened = front.engine().handle_open(op, scope, words).await;
    opened
        .inspect_err(|error| tracing::warn!(%error, tool = op.tool, "a long call gets no handle"))
        .ok()
}

/// Returns the task to the client; the work goes on behind it.
pub(super) fn run(
    front: &Front,
    call: Arc<LongCall>,
    work: impl Future<Output = Ended> + Send + 'static,
) -> CallToolResponse {
    let created = CreateTaskResult::new(task(&Ticket::of_call(&call)));
    front.engine().handle_run(call, async move { end_of(work.await) });
    CallToolResponse::Task(created)
}

/// The end of a call as the handle's row keeps it: the result exactly as its caller would have received it.
fn end_of(ended: Ended) -> HandleEnd {
    let failed = |error: ErrorData| HandleEnd::Failed(serde_json::to_value(error).ok());
    match ended {
        Ended::Canceled => HandleEnd::Cancelled,
        Ended::Answered(Ok(result)) => match serde_json::to_value(result) {
            Ok(result) => HandleEnd::Completed(result),
            Err(error) => failed(ErrorData::internal_error(error.to_string(), None)),
        },
        Ended::Answered(Err(error)) => failed(error),
    }
}

/// Names in an answer the id under which its work can be followed.
pub(super) fn name_in(result: &mut CallToolResult, id: &str) {
    let meta = result.meta.get_or_insert_default();
    meta.insert(RELATED.to_owned(), json!({ "taskId": id }));
}

/// A ticket as `tasks/get` answers it.
pub(super) fn detailed(ticket: Ticket) -> Result<GetTaskResult, ErrorData> {
    let task = task(&ticket);
    // A refusal of a tool is a completed task with `isError`; "failed" means that there is no result.
    let payload = match ticket.state {
        TicketState::Working => TaskPayload::Working,
        TicketState::Asking(questions) => TaskPayload::InputRequired {
            input_requests: serde_json::from_value(Value::Object(questions))
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
        },
        TicketState::Completed(result) => TaskPayload::Completed { result: object(result) },
        TicketState::Answered(reply) => {
            let result = match reply {
                ToolReply::Done(value) => CallToolResult::structured(value),
                ToolReply::Refused(value) => CallToolResult::structured_error(value),
            };
            let result = serde_json::to_value(result)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            TaskPayload::Completed { result: object(result) }
        }
        TicketState::Failed(error) => {
            TaskPayload::Failed { error: object(error.unwrap_or_else(gone)) }
        }
        TicketState::Cancelled => TaskPayload::Cancelled,
    };
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

fn task(ticket: &Ticket) -> Task {
    let (created, updated) = (rfc3339_ms(ticket.created_at), rfc3339_ms(ticket.updated_at));
    // `DetailedTask` replaces the status with that of its payload.
    let mut task = Task::new(&ticket.id, TaskStatus::Working, created, updated)
        .with_ttl_ms(ticket.ttl_ms)
        .with_poll_interval_ms(ticket.poll_ms);
    task.status_message = ticket.message.clone();
    task
}

/// The error of a call whose server has stopped: its result is unknown.
fn gone() -> Value {
    let message = "the server that ran this call has stopped; read the present state, \
                   and call again";
    json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": message })
}

/// The protocol wants an object; any other value goes under the key `value`.
fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => JsonObject::from_iter([("value".to_owned(), other)]),
    }
}

/// The ticket, or a protocol error.
pub(super) fn known<T>(answer: Result<T, LookupError>) -> Result<T, ErrorData> {
    answer.map_err(|error| render::unknown("task", error))
}
