//! The resources of every toolset: `callboard://tasks/{id}` is a task, readable and watchable; below it
//! `…/checks/{index}/log`, readable, is the end of a check's output. Other resources are a hook of their toolset.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::store::FileSpan;
use callboard_engine::{CheckLog, Engine, EngineError, LOG_TAIL_BYTES, TaskFilter};
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::front::{NoResource, ResourceInfo, ResourceTemplate, ResourceText, Unknown};
use crate::lookup::{LookupError, ResourceError};
use crate::task_name;
use crate::toolsets;

const TASKS: &str = "callboard://tasks/";
/// Tasks on a page of the list of resources.
const PAGE: usize = 50;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

pub(crate) const TEMPLATES: &[ResourceTemplate] = &[
    ResourceTemplate {
        uri_template: "callboard://tasks/{id}",
        name: "task",
        title: "Task",
        description: "One task with body, check results and provenance, as `get` returns it.",
        media_type: JSON,
    },
    ResourceTemplate {
        uri_template: "callboard://tasks/{id}/checks/{index}/log",
        name: "check_log",
        title: "Check log",
        description: "The output of a command check's last run; only the end of a long log.",
        media_type: TEXT,
    },
];

/// The task in an address, by its id or its short name, and the index of the check whose log is wanted, if any.
async fn parts_of(
    engine: &Engine,
    op: &OpContext,
    uri: &str,
) -> Result<Option<(TaskId, Option<usize>)>, EngineError> {
    let Some(rest) = uri.strip_prefix(TASKS) else { return Ok(None) };
    // Every other text below `TASKS` is taken for a task's id, and then does not parse as one.
    let (task, check) = match rest.strip_suffix("/log").and_then(|it| it.split_once("/checks/")) {
        Some((task, check)) => match check.parse() {
            Ok(index) => (task, Some(index)),
            Err(_) => return Ok(None),
        },
        None => (rest, None),
    };
    Ok(task_name::task_of(engine, op, task).await?.map(|task| (task, check)))
}

/// A page of tasks as resources, the newest first. The cursor is the last task's id.
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
    // One row more than a page tells whether a next page follows.
    let filter = TaskFilter { after, newest_first: true, limit: PAGE + 1, ..TaskFilter::default() };
    let rows = engine.task_list(&op, filter).await?.it;
    let next = (rows.len() > PAGE).then(|| rows[PAGE - 1].task.id.to_string());
    let info = |task: &callboard_domain::task::Task| ResourceInfo {
        uri: format!("{TASKS}{}", task.id),
        name: task.id.to_string(),
        title: task.title.clone(),
        media_type: JSON,
    };
    Ok((rows.iter().take(PAGE).map(|row| info(&row.task)).collect(), next))
}

/// Reads a task or the end of a check's log. A task that does not exist is an unknown resource, in the protocol's own
/// words.
pub(crate) async fn read(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<ResourceText, ResourceError> {
    let op = OpContext::new(principal.clone(), "get");
    let text = match parts_of(engine, &op, uri).await? {
        Some((task, None)) => engine.task_get(&op, task).await.map(|seen| ResourceText {
            media_type: JSON,
            text: toolsets::task_resource(&seen.it, engine.policy(), seen.now).to_string(),
            ttl_ms: None,
        }),
        Some((task, Some(index))) => {
            let span = FileSpan::Tail { bytes_max: LOG_TAIL_BYTES };
            let log = engine.check_log(&op, task, index, span).await;
            log.map(|log| ResourceText {
                media_type: TEXT,
                text: log_text(&log, task, index),
                ttl_ms: None,
            })
        }
        None => return Err(NoResource::unknown(uri).into()),
    };
    match text {
        Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => {
            Err(NoResource::unknown(uri).into())
        }
        found => Ok(found?),
    }
}

/// The text of a log; when bytes are missing, it begins with a note about them.
fn log_text(log: &CheckLog, task: TaskId, index: usize) -> String {
    let (size, shown) = (log.part.size, log.part.bytes.len());
    if log.is_whole() {
        return log.text();
    }
    format!(
        "[the last {shown} of {size} bytes; callboard check log {task} {index} --tail {size} \
         prints all]\n{}",
        log.text()
    )
}

/// Sends the address on every change of the task, until the receiver is dropped. Logs cannot be watched.
pub(crate) async fn watch(
    engine: &Arc<Engine>,
    principal: &Principal,
    uri: &str,
    changes: mpsc::Sender<String>,
) -> Result<(), LookupError> {
    let op = OpContext::new(principal.clone(), "get");
    let Some((task, None)) = parts_of(engine, &op, uri).await? else {
        return Err(Unknown(uri.into()).into());
    };
    // The watch begins before the read that proves the task's existence, so that no change is lost in between.
    let watch = engine.task_watch(task).await?;
    read(engine, principal, uri).await.map_err(|error| match error {
        LookupError::Absent(_) => Unknown(uri.into()).into(),
        LookupError::Failed(error) => LookupError::Failed(error),
    })?;
    let uri = uri.to_owned();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                // A watch whose client left must not wait for a change that may never come.
                () = changes.closed() => return,
                () = watch.changed() => {}
            }
            if changes.send(uri.clone()).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}
