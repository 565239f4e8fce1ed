//! Fixtures that answer with a task. Their handles are real ones, so that the suite tests the handles of long calls.

use std::sync::Arc;
use std::time::Duration;

use callboard_engine::context::{OpContext, Principal, Scope};
use callboard_engine::{Engine, LongCall, Words};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, InputRequiredResult, JsonObject, Tool,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::super::tasks::{self, Ended};
use super::{Called, Context, input, parsed, text, tool};
use crate::front::Front;

/// The duration of jobs that finish by themselves.
const A_WHILE: Duration = Duration::from_secs(1);

/// The real front and principal for a fixture.
pub(in crate::mcp) struct Host<'a> {
    pub front: &'a Arc<Front>,
    pub principal: Principal,
}

pub(super) fn tools() -> impl Iterator<Item = Tool> {
    let with =
        |name, properties: Value| tool(name, json!({ "type": "object", "properties": properties }));
    let string = json!({ "type": "string" });
    [
        with("greet", json!({ "name": string })),
        with("slow_compute", json!({ "seconds": { "type": "number" }, "label": string })),
        with("confirm_delete", json!({ "filename": string })),
        with("failing_job", json!({})),
        with("protocol_error_job", json!({})),
        with("multi_input", json!({})),
        with("test_tool_with_task", json!({})),
    ]
    .into_iter()
}

/// `None` for a tool that is not one of these.
pub(super) async fn call(
    request: &CallToolRequestParams,
    arguments: &JsonObject,
    ctx: &Context,
    host: &Host<'_>,
) -> Option<Called> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let declared = tasks::are_declared(ctx);
    Some(match request.name.as_ref() {
        "greet" => text(&format!("Hello, {}!", given("name"))),
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let result = said(&format!("{} is computed.", given("label")));
            // A call without a delay is answered at once, tasks or not.
            if declared && !time.is_zero() {
                host.task("slow_compute", |job| job.after(time, Ok(result))).await
            } else {
                tokio::time::sleep(time).await;
                Ok(result.into())
            }
        }
        "failing_job"
        | "protocol_error_job"
        | "confirm_delete"
        | "multi_input"
        | "test_tool_with_task"
            if !declared =>
        {
            // Without tasks these tools have no way to answer.
            Err(tasks::needed())
        }
        "failing_job" => {
            let failed =
                CallToolResult::error(vec![ContentBlock::text("It failed, as it should.")]);
            host.task("failing_job", |job| job.after(A_WHILE, Ok(failed))).await
        }
        "protocol_error_job" => {
            let error = ErrorData::internal_error("It broke, as it should.", None);
            host.task("protocol_error_job", |job| job.after(A_WHILE, Err(error))).await
        }
        "confirm_delete" => {
            let question =
                input::asked(&format!("Delete {}?", given("filename")), "confirm", "boolean");
            host.task("confirm_delete", |job| job.asks(json!({ "confirm": question }))).await
        }
        "multi_input" => {
            let question = |what: &str| input::asked(what, "name", "string");
            let both = json!({ "first": question("Who?"), "second": question("Who else?") });
            host.task("multi_input", |job| job.asks(both)).await
        }
        "test_tool_with_task" => {
            match input::answer(request.input_responses.as_ref(), "user_name", "name") {
                Some(name) => {
                    let result = said(&format!("Hello, {name}!"));
                    host.task("test_tool_with_task", |job| job.after(A_WHILE, Ok(result))).await
                }
                None => {
                    let question = input::asked("What is your name?", "name", "string");
                    let requests = Some(parsed(json!({ "user_name": question })));
                    Ok(InputRequiredResult::new(requests, None).into())
                }
            }
        }
        _ => return None,
    })
}

fn said(words: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

impl Host<'_> {
    /// Opens a handle, starts the work behind it and answers with the task.
    async fn task<Work>(&self, tool: &'static str, work: impl FnOnce(Job) -> Work) -> Called
    where
        Work: Future<Output = Ended> + Send + 'static,
    {
        let op = OpContext::new(self.principal.clone(), tool);
        let opened = tasks::open(self.front, &op, Scope::TasksRead, Words::default()).await;
        let call = opened.ok_or_else(|| ErrorData::internal_error("no handle", None))?;
        let engine = self.front.engine().clone();
        let job = Job { engine, call: call.clone(), cancel: op.cancel };
        Ok(tasks::run(self.front, call, work(job)))
    }
}

/// The work of one fixture.
struct Job {
    engine: Arc<Engine>,
    call: Arc<LongCall>,
    cancel: CancellationToken,
}

impl Job {
    async fn after(self, time: Duration, result: Result<CallToolResult, ErrorData>) -> Ended {
        tokio::select! {
            () = tokio::time::sleep(time) => Ended::Answered(result),
            () = self.cancel.cancelled() => Ended::Canceled,
        }
    }

    async fn asks(self, questions: Value) -> Ended {
        let questions: Map<String, Value> = parsed(questions);
        match self.engine.handle_ask(&self.call, questions).await {
            Ok(answers) => Ended::Answered(Ok(said(&Value::Object(answers).to_string()))),
            // The call ended before all questions were answered.
            Err(_) => Ended::Canceled,
        }
    }
}
