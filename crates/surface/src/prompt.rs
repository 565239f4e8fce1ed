//! Prompts for the agent loop: one message each, with the facts of the moment filled in.

use callboard_domain::attempt::ExecutionState;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError, TaskFilter};
use serde_json::{Map, Value};

use crate::front::{PromptArgument, PromptInfo, Unknown};

pub(crate) const PROMPTS: &[PromptInfo] = &[
    PromptInfo {
        name: "start-work",
        title: "Start work",
        description: "Take a task (the next one unless named), work on it and hand it over.",
        arguments: &[PromptArgument {
            name: "task",
            description: "Id of the task to take",
            required: false,
        }],
    },
    PromptInfo {
        name: "review-queue",
        title: "Review queue",
        description: "Look at what waits for review and close or send it back.",
        arguments: &[],
    },
];

pub(crate) async fn text(
    engine: &Engine,
    principal: &Principal,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<Result<String, Unknown>, EngineError> {
    match name {
        "start-work" => start_work(engine, principal, arguments).await.map(Ok),
        "review-queue" => review_queue(engine, principal).await.map(Ok),
        _ => Ok(Err(Unknown(name.into()))),
    }
}

async fn start_work(
    engine: &Engine,
    principal: &Principal,
    arguments: &Map<String, Value>,
) -> Result<String, EngineError> {
    let named = arguments.get("task").and_then(Value::as_str).filter(|id| !id.trim().is_empty());
    let task = match named {
        Some(id) => id.to_owned(),
        None => {
            let op = OpContext::new(principal.clone(), "list");
            match engine.task_next(&op, 1).await?.it.first() {
                Some(row) => row.task.id.to_string(),
                None => {
                    return Ok(
                        "Nothing is ready to start on this callboard. Say so and stop.".into()
                    );
                }
            }
        }
    };
    Ok(format!(
        "Work on task {task} of this callboard as {actor}.\n\
         1. `get` it and read body, deps and checks.\n\
         2. `begin` it with expected_actor \"{actor}\" and a fresh idempotency_key. If it is taken, \
            `list` {{\"ready\": true, \"status\": \"{initial}\", \"assignee\": \"\"}} and take another.\n\
         3. Do the work. `heartbeat` at least every {beat} seconds with a line of progress; stop if \
            the session is terminal.\n\
         4. `run_checks` until every command check passes.\n\
         5. `finish` the session with a summary a reviewer can act on. Do not close the task \
            yourself unless you were asked to.",
        actor = principal.actor,
        initial = engine.policy().initial().name,
        beat = engine.policy().heartbeat_interval_s,
    ))
}

async fn review_queue(engine: &Engine, principal: &Principal) -> Result<String, EngineError> {
    let op = OpContext::new(principal.clone(), "list");
    let filter = TaskFilter {
        execution: Some(ExecutionState::AwaitingReview),
        limit: 20,
        ..TaskFilter::default()
    };
    let rows = engine.task_list(&op, filter).await?.it;
    if rows.is_empty() {
        return Ok("Nothing waits for review on this callboard. Say so and stop.".into());
    }
    let lines: Vec<String> =
        rows.iter().map(|row| format!("- {}: {}", row.task.id, row.task.title)).collect();
    Ok(format!(
        "These tasks wait for review:\n{}\n\
         For each: `get` it, read the summary of its session (`get_session`), look at the change, \
         `run_checks`, `attest` manual checks you can vouch for, then `transition` it to a done \
         state, or `note` what is missing and `transition` it back to work.",
        lines.join("\n")
    ))
}
