//! Rows as JSON objects, keyed by column: the form in which sets of rows are sent to the server.

use callboard_domain::attempt::{Attempt, AttemptState};
use callboard_domain::comment::Comment;
use callboard_domain::delivery::{Delivery, Tried};
use callboard_domain::desk::TaskRows;
use callboard_domain::ids::{AttemptId, Id, TaskId};
use callboard_domain::job::{Job, JobId};
use callboard_domain::pull::Pull;
use callboard_domain::run::Run;
use callboard_domain::task::Check;
use serde::Serialize;
use serde_json::{Value, json};

use super::batch::CallKey;
use super::rows::uuid;
use crate::jobs::columns;
use crate::retries::{Row, hex};
use crate::runs::{UNNUMBERED, json as to_json};

fn text(id: Id) -> String {
    uuid(id).to_string()
}

fn attempt_text(attempt: Option<AttemptId>) -> Option<String> {
    attempt.map(|attempt| text(attempt.0))
}

fn checks_json(checks: &[Check]) -> String {
    serde_json::to_string(checks).expect("checks are plain data")
}

fn text_of<T: Serialize>(value: Option<&T>) -> Option<String> {
    value.map(|value| serde_json::to_string(value).expect("contracts are plain data"))
}

pub(super) fn task_row(org: i64, rows: &TaskRows) -> Value {
    let task = &rows.task;
    json!({
        "id": text(task.id.id),
        "prefix": task.id.prefix.as_str(),
        "org": org,
        "project": task.project,
        "title": task.title,
        "label": task.label,
        "phase": task.phase.as_str(),
        "priority": task.priority,
        "assignee": task.assignee,
        "parent": task.parent.map(|parent| text(parent.id)),
        "is_plan": task.is_plan,
        "checks": checks_json(&task.checks),
        "contract": text_of(task.contract.as_ref()),
        "verification": text_of(task.verification.as_ref()),
        "open_blockers": task.open_blockers,
        "open_deps": task.open_deps,
        "fence": task.fence,
        "newest_attempt": attempt_text(task.newest_attempt),
        "entries": task.entries,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "removed_at": rows.removed_at,
        "phase_at": task.phase_at,
        "blocked": text_of(task.blocked.as_ref()),
        "number": task.number,
    })
}

pub(super) fn body_row(rows: &TaskRows) -> Value {
    json!({
        "task": text(rows.task.id.id),
        "body": rows.body,
        "execution_contract": rows.execution_contract,
    })
}

pub(super) fn dep_row((task, dep): &(TaskId, TaskId), position: i32) -> Value {
    json!({"task": text(task.id), "dep": text(dep.id), "position": position})
}

pub(super) fn attempt_row(attempt: &Attempt) -> Value {
    let mut row = json!({
        "id": text(attempt.id.0),
        "task": text(attempt.task.id),
        "kind": attempt.kind.as_str(),
        "fence": attempt.fence,
        "actor": attempt.actor,
        "key": attempt.key,
        "client": attempt.client,
        "model": attempt.model,
        "worktree": attempt.worktree,
        "branch": attempt.branch,
        "head_started": attempt.head_started,
        "started_at": attempt.started_at,
    });
    match &attempt.state {
        AttemptState::Live { heartbeat_at, progress, lease } => {
            row["heartbeat_at"] = json!(heartbeat_at);
            row["progress"] = json!(progress);
            row["lease_s"] = json!(lease.map(|lease| lease.granted_s));
            row["lease_expires_at"] = json!(lease.map(|lease| lease.expires_at));
        }
        AttemptState::Ended { at, end } => {
            row["ended_at"] = json!(at);
            row["outcome"] = json!(end.as_str());
            row["words"] = json!(end.words());
            row["head_finished"] = json!(end.head());
        }
    }
    row
}

pub(super) fn output_row((attempt, output): (&AttemptId, &String)) -> Value {
    json!({"attempt": text(attempt.0), "output": output})
}

pub(super) fn comment_row(comment: &Comment) -> Value {
    let resolved = comment.resolved.as_ref();
    json!({
        "id": text(comment.id.0),
        "task": text(comment.task.id),
        "kind": comment.kind.as_str(),
        "body": comment.body,
        "rationale": comment.rationale,
        "parent": comment.parent.map(|parent| text(parent.0)),
        "author": comment.author,
        "created_at": comment.created_at,
        "resolved_at": resolved.map(|resolved| resolved.at),
        "resolved_by": resolved.map(|resolved| &resolved.by),
        "resolution": resolved.and_then(|resolved| resolved.words.as_ref()),
    })
}

pub(super) fn job_row(org: i64, job: &Job) -> Value {
    let (due_at, runner, ended_at, reason) = columns(&job.state);
    json!({
        "id": text(job.id.0),
        "org": org,
        "kind": job.kind.as_str(),
        "key": job.key,
        "task": job.task.map(|task| text(task.id)),
        "tries": job.tries,
        "created_at": job.created_at,
        "state": job.state.as_str(),
        "due_at": due_at,
        "runner": runner,
        "ended_at": ended_at,
        "reason": reason,
        "priority": job.priority,
    })
}

/// `task` is needed for a new run only.
pub(super) fn run_row(org: i64, run: &Run, task: Option<TaskId>) -> Value {
    json!({
        "job": text(run.job.0),
        "org": org,
        "task": task.map(|task| text(task.id)),
        "key": run.order.key(),
        "content_hash": run.content_hash,
        "spec": to_json(&run.order),
        "version": UNNUMBERED,
        "changed_at": run.changed_at,
        "summary": run.summary,
        "attempt": run.attempt,
        "fence": run.fence,
        "started_at": run.started_at,
        "expires_at": run.expires_at,
        "bound_to": run.bound_to,
        "runs_on": run.runs_on,
        "artifacts": to_json(&run.artifacts),
        "question": run.question.as_ref().map(to_json),
        "pr": run.pr.as_ref().map(to_json),
        "up_at": run.up_at,
        "gone_at": run.gone_at,
        "webhook": run.webhook.as_ref().map(to_json),
        "terminal": run.terminal.as_ref().map(to_json),
    })
}

pub(super) fn delivery_row(org: i64, delivery: &Delivery) -> Value {
    json!({
        "job": text(delivery.job.0),
        "org": org,
        "about": text(delivery.about.id()),
        "url": delivery.url,
        "kind": delivery.kind,
        "data": delivery.data.to_string(),
        "ended_at": delivery.ended_at,
    })
}

pub(super) fn tried_row((job, tried): (&JobId, &Tried)) -> Value {
    json!({"job": text(job.0), "tried_at": tried.at, "outcome": tried.outcome})
}

pub(super) fn pull_row(org: i64, pull: &Pull) -> Value {
    json!({
        "org": org,
        "forge": pull.forge,
        "repo": pull.repo,
        "number": pull.number,
        "url": pull.url,
        "status": pull.status,
        "branch": pull.branch,
        "base": pull.base,
        "head": pull.head,
        "title": pull.title,
        "task": pull.task.map(|task| text(task.id)),
        "job": pull.job.map(|job| text(job.0)),
        "machine": pull.machine,
        "created_at": pull.created_at,
        "changed_at": pull.changed_at,
        "is_awaited": pull.is_awaited,
        "merge_commit": pull.merge_commit,
        "is_revoked": pull.is_revoked,
    })
}

pub(super) fn key_row((key, step): &(CallKey, String)) -> Value {
    json!({"org": key.org, "actor": key.actor, "tool": key.tool, "key": key.key, "step": step})
}

pub(super) fn retry_row((key, row): &(CallKey, Row)) -> Value {
    json!({
        "org": key.org,
        "actor": key.actor,
        "tool": key.tool,
        "key": key.key,
        "step": row.step,
        "at": row.at,
        "digest": row.digest.map(hex),
        "kept": row.kept,
    })
}
