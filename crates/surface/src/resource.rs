//! Resources: `callboard://tasks/{id}` is graph's `get`, readable and watchable in every toolset.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError, TaskFilter};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::front::{ResourceInfo, ResourceTemplate, Unknown};
use crate::toolsets::graph::view;

const TASKS: &str = "callboard://tasks/";
const PAGE: usize = 50;

pub(crate) const TEMPLATES: &[ResourceTemplate] = &[ResourceTemplate {
    uri_template: "callboard://tasks/{id}",
    name: "task",
    title: "Task",
    description: "One task with body, check results and provenance, as `get` returns it.",
}];

fn task_of(uri: &str) -> Option<TaskId> {
    uri.strip_prefix(TASKS)?.parse().ok()
}

pub(crate) async fn list(
    engine: &Engine,
    principal: &Principal,
    cursor: Option<&str>,
) -> Result<(Vec<ResourceInfo>, Option<String>), EngineError> {
    let after = match cursor.map(str::parse::<TaskId>) {
        None => None,
        Some(Ok(task)) => Some(task.id),
        Some(Err(_)) => return Err(Refusal::invalid("unknown cursor").into()),
    };
    let op = OpContext::new(principal.clone(), "resources");
    let filter = TaskFilter { after, newest_first: true, limit: PAGE + 1, ..TaskFilter::default() };
    let rows = engine.task_list(&op, filter).await?.it;
    let next = (rows.len() > PAGE).then(|| rows[PAGE - 1].task.id.to_string());
    let info = |task: &callboard_domain::task::Task| ResourceInfo {
        uri: format!("{TASKS}{}", task.id),
        name: task.id.to_string(),
        title: task.title.clone(),
    };
    Ok((rows.iter().take(PAGE).map(|row| info(&row.task)).collect(), next))
}

pub(crate) async fn read(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<Result<Value, Unknown>, EngineError> {
    let Some(task) = task_of(uri) else { return Ok(Err(Unknown(uri.into()))) };
    let op = OpContext::new(principal.clone(), "get");
    match engine.task_get(&op, task).await {
        Ok(seen) => Ok(Ok(view::task(&seen.it, engine.policy(), seen.now))),
        Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => Ok(Err(Unknown(uri.into()))),
        Err(error) => Err(error),
    }
}

pub(crate) async fn watch(
    engine: &Arc<Engine>,
    principal: &Principal,
    uri: &str,
    changes: mpsc::Sender<String>,
) -> Result<Result<(), Unknown>, EngineError> {
    let Some(task) = task_of(uri) else { return Ok(Err(Unknown(uri.into()))) };
    let watch = engine.task_watch(task).await?;
    if let Err(unknown) = read(engine, principal, uri).await? {
        return Ok(Err(unknown));
    }
    let uri = uri.to_owned();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = changes.closed() => return,
                () = watch.changed() => {}
            }
            if changes.send(uri.clone()).await.is_err() {
                return;
            }
        }
    });
    Ok(Ok(()))
}
