//! The answers of this toolset. Times have six digits; fields that were not requested are null.

use callboard_domain::board::card::{Card, Review, ReviewState, Terminal};
use callboard_domain::policy::Phase;
use callboard_domain::runs::run::holder;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Dep, Task, TaskRecord};
use callboard_domain::time::Timestamp;
use callboard_engine::store::CardRow;
use callboard_engine::{CardSeen, PendingFor, WorkLog, WorkNow, WorkspaceSeen};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::words::{self, Status, TaskType};
use crate::page::{cut, lean};
use callboard_engine::time::rfc3339_us;

/// How much of long texts is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    Summary,
    Full,
}

impl Detail {
    /// Characters of the notes that are shown, from their end.
    /// The numbers here and in the next two functions are those of the reference.
    fn scratchpad_chars(self) -> usize {
        match self {
            Detail::Summary => 8_000,
            Detail::Full => 32_000,
        }
    }

    /// The newest runs whose logs are shown.
    pub fn runs(self) -> usize {
        match self {
            Detail::Summary => 3,
            Detail::Full => 10,
        }
    }

    /// The caps of one log, and of all logs.
    fn log_chars(self) -> (usize, usize) {
        match self {
            Detail::Summary => (2_500, 7_500),
            Detail::Full => (10_000, 24_000),
        }
    }
}

/// The requested parts besides the task.
pub(super) struct Shown {
    pub scratchpad: Option<String>,
    /// Logs of runs, oldest first.
    pub logs: Option<Vec<WorkLog>>,
    pub work: WorkNow,
    pub review: bool,
    pub detail: Detail,
}

/// The answer of `get_task`. Keys of parts that were not asked for are `null`.
pub(super) fn task(seen: &CardSeen, shown: &Shown, now: Timestamp) -> Value {
    let CardSeen { record, card } = seen;
    let task = &record.task;
    let scratchpad = shown.scratchpad.as_deref();
    let scratchpad = scratchpad.map(|text| end_of(text, shown.detail.scratchpad_chars()));
    let (scratchpad, truncated) = scratchpad.unzip();
    let review = card.review.as_ref().filter(|_| shown.review);
    let (logs, logs_truncated) = shown.logs.as_deref().map(|all| logs(all, shown.detail)).unzip();
    json!({
        "task_id": task.id,
        "number": task.number,
        "title": task.title,
        "status": Status::of(task.phase).word(),
        "description": record.body,
        "acceptance_criteria": card.criteria,
        "scratchpad": scratchpad,
        "review_feedback": review.map(feedback),
        "logs": logs,
        "runtime": runtime(task, &record.deps, record.newest.as_ref(), &shown.work, now),
        "updated_at": rfc3339_us(task.updated_at),
        "priority": words::priority(task.priority),
        "task_type": TaskType::of(card.mode).word(),
        "project_id": words::project_id(task.project),
        "created_at": rfc3339_us(task.created_at),
        "parent_id": task.parent,
        "base_branch": card.base_branch,
        "agent_backend": card.agent,
        "terminal_backend": card.terminal.map(Terminal::as_str),
        "closed_as": closed_as(task),
        "review": review.map(review_record),
        "scratchpad_truncated": truncated,
        "logs_truncated": logs_truncated,
    })
}

/// The end of a text, and whether its beginning is missing.
fn end_of(text: &str, chars_max: usize) -> (String, bool) {
    let chars = text.chars().count();
    if chars <= chars_max {
        return (text.to_owned(), false);
    }
    let end: String = text.chars().skip(chars - chars_max).collect();
    (format!("[truncated {} chars]{end}", chars - chars_max), true)
}

/// The end of each log, within the cap of all: older logs are cut first. The second value says whether anything was
/// cut.
fn logs(all: &[WorkLog], detail: Detail) -> (Vec<Value>, bool) {
    let (each_max, mut left) = detail.log_chars();
    let mut is_cut = false;
    let mut shown = Vec::new();
    // From the newest run back, because the newest explains the present state best.
    for log in all.iter().rev() {
        if left == 0 {
            is_cut = true;
            break;
        }
        let (content, cut) = end_of(&log.text, each_max.min(left));
        left -= log.text.chars().count().min(each_max).min(left);
        is_cut |= cut;
        let at = rfc3339_us(log.began_at);
        shown.push(json!({"run": log.run, "content": content, "created_at": at}));
    }
    shown.reverse();
    (shown, is_cut)
}

/// The review in one line: its result, or its summary.
fn feedback(review: &Review) -> String {
    let said = review.feedback.as_deref().unwrap_or_default();
    match review.state {
        ReviewState::Requested => format!("requested: {}", review.summary),
        ReviewState::Approved if said.is_empty() => format!("approved: {}", review.summary),
        ReviewState::Approved => format!("approved: {said}"),
        ReviewState::Rejected => format!("rejected: {said}"),
    }
}

fn review_record(review: &Review) -> Value {
    json!({
        "state": review.state.as_str(),
        "summary": review.summary,
        "feedback": review.feedback,
        "by": review.by,
        "requested_at": rfc3339_us(review.requested_at),
        "decided_at": review.decided_at.map(rfc3339_us),
        "conflict_files": review.conflict_files,
    })
}

/// A canceled task stands in the column of done ones, so its end is named.
fn closed_as(task: &Task) -> Option<&'static str> {
    match task.phase {
        Phase::ClosedCanceled => Some("canceled"),
        Phase::Initial | Phase::Working | Phase::Review | Phase::ClosedDone => None,
    }
}

/// An element of the list.
pub(super) fn row(row: &CardRow, work: &WorkNow, now: Timestamp) -> Value {
    let CardRow { task, card, .. } = row;
    lean(json!({
        "task_id": task.id,
        "number": task.number,
        "title": task.title,
        "status": Status::of(task.phase).word(),
        "description": cut(&row.body),
        "scratchpad": row.scratchpad.as_deref().map(cut),
        "acceptance_criteria": card.criteria.iter().map(|text| cut(text)).collect::<Vec<_>>(),
        "runtime": runtime(task, &row.deps, row.newest.as_ref(), work, now),
        "updated_at": rfc3339_us(task.updated_at),
        "priority": words::priority(task.priority),
        "task_type": TaskType::of(card.mode).word(),
        "project_id": words::project_id(task.project),
        "closed_as": closed_as(task),
    }))
}

/// A task as a wait shows it: without long texts.
pub(super) fn snapshot(task: &Task, card: &Card) -> Value {
    json!({
        "id": task.id,
        "number": task.number,
        "title": task.title,
        "status": Status::of(task.phase).word(),
        "priority": words::priority(task.priority),
        "task_type": TaskType::of(card.mode).word(),
        "project_id": words::project_id(task.project),
        "updated_at": rfc3339_us(task.updated_at),
        "created_at": rfc3339_us(task.created_at),
    })
}

/// A task that the text of another mentions.
pub(super) fn linked(record: &TaskRecord) -> Value {
    json!({
        "task_id": record.task.id,
        "title": record.task.title,
        "status": Status::of(record.task.phase).word(),
        "description": cut(&record.body),
    })
}

/// The context for work on a task; with its worktrees, if there are any.
pub(super) fn context(
    seen: &CardSeen,
    scratchpad: &str,
    places: &[WorkspaceSeen],
    linked: Vec<Value>,
    work: &WorkNow,
    now: Timestamp,
) -> Value {
    let CardSeen { record, card } = seen;
    let task = &record.task;
    // A task may have worktrees in several repositories; the first one stands for the workspace.
    let place = places.iter().find_map(|seen| seen.part.worktree.as_ref());
    json!({
        "task_id": task.id,
        "number": task.number,
        "title": task.title,
        "description": record.body,
        "acceptance_criteria": card.criteria,
        "task_type": TaskType::of(card.mode).word(),
        "scratchpad": scratchpad,
        "workspace_id": place.map(|_| format!("ws_{}", task.id)),
        "workspace_branch": place.map(|place| &place.branch),
        "workspace_path": place.map(|place| &place.path),
        "working_dir": place.map(|place| &place.path),
        "repos": places.iter().map(repo_at_work).collect::<Vec<_>>(),
        "repo_count": places.len(),
        "linked_tasks": linked,
        "runtime": runtime(task, &record.deps, record.newest.as_ref(), work, now),
    })
}

/// A repository with the work done there for one task.
fn repo_at_work(seen: &WorkspaceSeen) -> Value {
    let WorkspaceSeen { part, name, state } = seen;
    // A repository that git cannot read does not hide the others.
    let (state, error) = match state {
        Ok(state) => (state.as_ref(), None),
        Err(fault) => (None, Some(fault.to_string())),
    };
    let diff = state.map(|state| {
        let diff = state.diff;
        json!({"files": diff.files, "insertions": diff.insertions, "deletions": diff.deletions})
    });
    json!({
        "repo_id": format!("repo_{}", part.repo.id),
        "name": name,
        "path": part.repo.path,
        "worktree_path": part.worktree.as_ref().map(|place| &place.path),
        "target_branch": part.target,
        "has_changes": state.map(|state| state.has_changes()),
        "diff_stats": diff,
        "error": error,
    })
}

/// The runtime state of a task, for an answer that shows nothing else of it.
pub(super) fn runtime_of(seen: &CardSeen, work: &WorkNow, now: Timestamp) -> Value {
    let record = &seen.record;
    runtime(&record.task, &record.deps, record.newest.as_ref(), work, now)
}

/// What happens on a task now: an agent at work, a block, or what the start of an agent waits for.
fn runtime(
    task: &Task,
    deps: &[Dep],
    newest: Option<&Attempt>,
    work: &WorkNow,
    now: Timestamp,
) -> Value {
    let waits = task.phase == Phase::Initial;
    // Deps block only a task that has not begun.
    let open: Vec<_> = deps.iter().filter(|dep| waits && dep.is_open()).map(|dep| dep.id).collect();
    // Nothing waits for a closed task any more, blocked or not.
    let blocked = task.blocked.as_ref().filter(|_| !task.phase.is_closed());
    // A job that makes a patch works elsewhere; only its attempt shows on the task.
    let makes_patch = |newest: &Attempt| newest.actor == holder() && newest.is_live(now);
    let makes_patch = newest.is_some_and(makes_patch) && task.phase == Phase::Working;
    let mut view = json!({
        "is_running": work.is_running || makes_patch,
        "is_reviewing": work.is_reviewing && task.phase == Phase::Review,
        "is_blocked": !open.is_empty() || blocked.is_some(),
        "blocked_reason": blocked.map(|blocked| &blocked.reason),
        "blocked_by_task_ids": open,
        "overlap_hints": work.overlaps,
        "blocked_at": blocked.map(|blocked| rfc3339_us(blocked.at)),
        "is_pending": work.pending.is_some(),
        "pending_reason": work.pending.as_ref().map(|pending| match &pending.why {
            PendingFor::Place => "Waiting for a free agent slot",
            PendingFor::Runner => "Waiting for a runner",
            PendingFor::Processes(words) => words,
        }),
        "pending_at": work.pending.as_ref().map(|pending| rfc3339_us(pending.since)),
    });
    if let Some(blocked) = blocked {
        view["blocked_by"] = json!(blocked.by);
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_logs_make_way() {
        let log = |run, chars| WorkLog { run, began_at: Timestamp(0), text: "x".repeat(chars) };
        let shown = |all: &[WorkLog]| {
            let (shown, is_cut) = logs(all, Detail::Summary);
            let chars = shown.iter().map(|entry| {
                let text = entry["content"].as_str().unwrap_or_default();
                (entry["run"].as_u64(), text.chars().filter(|c| *c == 'x').count())
            });
            (chars.collect::<Vec<_>>(), is_cut)
        };
        assert_eq!(shown(&[]), (vec![], false));
        assert_eq!(shown(&[log(1, 2500), log(2, 9)]), (vec![(Some(1), 2500), (Some(2), 9)], false));
        let three = [log(7, 3000), log(8, 2500), log(9, 2500)];
        let expected = vec![(Some(7), 2500), (Some(8), 2500), (Some(9), 2500)];
        assert_eq!(shown(&three), (expected, true));
        let four = [log(6, 1), log(7, 2500), log(8, 2500), log(9, 2500)];
        assert_eq!(shown(&four).0.len(), 3);
        assert!(shown(&four).1);
    }
}
