//! What this toolset answers with. Times have six digits; what was not asked for is null.

use callboard_domain::policy::Phase;
use callboard_domain::task::{Dep, Task, TaskRecord};
use serde_json::{Value, json};

use super::words::{self, Status};
use crate::time::rfc3339_us;

pub(super) fn task(record: &TaskRecord) -> Value {
    let task = &record.task;
    json!({
        "task_id": task.id,
        "title": task.title,
        "status": Status::of(task.phase).word(),
        "description": record.body,
        "runtime": runtime(task, &record.deps),
        "updated_at": rfc3339_us(task.updated_at),
        "priority": words::priority(task.priority),
        "project_id": words::project_id(task.project),
        "created_at": rfc3339_us(task.created_at),
        "parent_id": task.parent,
        "closed_as": closed_as(task),
    })
}

fn closed_as(task: &Task) -> Option<&'static str> {
    match task.phase {
        Phase::ClosedCanceled => Some("canceled"),
        Phase::ClosedDone => Some("done"),
        Phase::Initial | Phase::Working | Phase::Review => None,
    }
}

/// How a task stands besides its status.
pub(super) fn runtime(task: &Task, deps: &[Dep]) -> Value {
    let waits = task.phase == Phase::Initial;
    let open: Vec<_> = deps.iter().filter(|dep| waits && dep.is_open()).map(|dep| dep.id).collect();
    json!({
        "is_running": false,
        "is_reviewing": false,
        "is_blocked": !open.is_empty(),
        "blocked_reason": null,
        "blocked_by_task_ids": open,
        "overlap_hints": [],
        "blocked_at": null,
        "is_pending": false,
        "pending_reason": null,
        "pending_at": null,
    })
}
