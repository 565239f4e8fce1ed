//! The shapes graph replies with: task, list element, session.

use callboard_domain::ids::{AttemptId, Id, TaskId};
use callboard_domain::policy::Policy;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptState};
use callboard_domain::task::block::Blocked;
use callboard_domain::task::{Check, CheckKind, Task, TaskRecord, TaskRow, VerdictSource};
use callboard_domain::time::Timestamp;
use serde_json::{Map, Value, json};

use super::words;
use crate::page::cut;
use callboard_engine::time::rfc3339_ms;

/// The full task, the shape of `get`.
pub fn task(record: &TaskRecord, policy: &Policy, now: Timestamp) -> Value {
    let whole = |text: &str| text.to_owned();
    let deps: Vec<_> = record.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id).collect();
    let mut view = head(&record.task, &json!(deps), policy, whole);
    let provenance: Vec<Value> = record
        .entries
        .iter()
        .map(|entry| {
            let mut line = json!({"who": entry.who, "at": rfc3339_ms(entry.at), "did": entry.did});
            if let Some(text) = &entry.text {
                line["text"] = text.as_str().into();
            }
            line
        })
        .collect();
    // The record holds the newest entries; `task.entries` counts all of them.
    let omitted =
        record.task.entries as usize - record.entries.len().min(record.task.entries as usize);
    view.insert("provenance".into(), provenance.into());
    if omitted > 0 {
        view.insert("provenanceOmitted".into(), omitted.into());
    }
    view.insert("body".into(), record.body.as_str().into());
    tail(&mut view, &record.task, record.newest.as_ref(), policy, now);
    view.into()
}

/// An element of `list`: the task without provenance and body.
pub fn task_row(row: &TaskRow, policy: &Policy, now: Timestamp) -> Value {
    let mut view = head(&row.task, &json!(row.deps), policy, cut);
    tail(&mut view, &row.task, row.newest.as_ref(), policy, now);
    view.into()
}

/// The keys that a task begins with, whole or cut by `text`.
fn head(
    task: &Task,
    deps: &Value,
    policy: &Policy,
    text: impl Fn(&str) -> String,
) -> Map<String, Value> {
    let checks: Vec<Value> = task.checks.iter().map(|c| check(c, policy, &text)).collect();
    let mut view = Map::new();
    view.insert("id".into(), json!(task.id));
    view.insert("number".into(), task.number.into());
    view.insert("title".into(), task.title.as_str().into());
    view.insert("status".into(), task.label.as_str().into());
    view.insert("assignee".into(), json!(task.assignee));
    view.insert("deps".into(), deps.clone());
    view.insert("ready".into(), task.is_ready().into());
    view.insert("checks".into(), checks.into());
    view
}

/// The keys that a task ends with. `blocked` is there only while the task is blocked.
fn tail(
    view: &mut Map<String, Value>,
    task: &Task,
    newest: Option<&Attempt>,
    policy: &Policy,
    now: Timestamp,
) {
    let state = newest.and_then(|attempt| attempt.execution_state(task.phase, policy, now));
    let session = newest.map(|attempt| format!("ses_{}", attempt.id.0));
    view.insert("parent".into(), json!(task.parent));
    if let Some(Blocked { by, at, reason }) = &task.blocked {
        let blocked = json!({"by": by, "at": rfc3339_ms(*at), "reason": reason});
        view.insert("blocked".into(), blocked);
    }
    view.insert("updatedAt".into(), rfc3339_ms(task.updated_at).into());
    view.insert("executionState".into(), json!(state.map(|state| state.as_str())));
    view.insert("sessionId".into(), json!(session));
}

/// One check with its last result. Which keys there are depends on its kind alone, so a client need not test for them.
fn check(check: &Check, policy: &Policy, text: &impl Fn(&str) -> String) -> Value {
    let verdict = check.verdict.as_ref();
    let mut view = json!({"desc": text(&check.desc)});
    match &check.kind {
        CheckKind::Command { cmd, cwd, timeout_s } => {
            view["cmd"] = text(cmd).into();
            view["result"] = check.result().into();
            view["cwd"] = cwd.as_str().into();
            view["timeout"] = timeout_s.unwrap_or(policy.check_timeout_default_s).into();
        }
        CheckKind::Manual => {
            view["type"] = "manual".into();
            view["result"] = check.result().into();
            // A manual check runs nowhere. The key stays, so that both kinds have it.
            view["cwd"] = ".".into();
        }
    }
    view["ranAt"] = json!(verdict.map(|v| rfc3339_ms(v.at)));
    view["tree"] = json!(verdict.and_then(|v| v.tree.as_deref()));
    match verdict.map(|v| &v.source) {
        Some(VerdictSource::Run { exit_code, log, .. }) => {
            view["exitCode"] = json!(exit_code);
            view["log"] = log.as_str().into();
        }
        Some(VerdictSource::Attested { by }) => view["attestedBy"] = json!(by),
        None if check.is_command() => {
            view["exitCode"] = Value::Null;
            view["log"] = Value::Null;
        }
        None => view["attestedBy"] = Value::Null,
    }
    view
}

/// A session, whole.
pub fn session(attempt: &Attempt, policy: &Policy, now: Timestamp) -> Value {
    session_with(attempt, policy, now, str::to_owned)
}

/// A session inside a list: long texts are cut.
pub fn session_row(attempt: &Attempt, policy: &Policy, now: Timestamp) -> Value {
    session_with(attempt, policy, now, cut)
}

/// The shape of a session. An attempt of another toolset is shown in these words, too: its release or its expiry is a
/// reason to cancel.
fn session_with(
    attempt: &Attempt,
    policy: &Policy,
    now: Timestamp,
    text: impl Fn(&str) -> String,
) -> Value {
    let health = attempt.health(policy, now);
    let id = format!("ses_{}", attempt.id.0);
    let (ended_at, end) = match &attempt.state {
        AttemptState::Live { .. } => (None, None),
        AttemptState::Ended { at, end } => (Some(rfc3339_ms(*at)), Some(end)),
    };
    let (head_finished, summary, cancel_reason) = match end {
        None => (None, None, None),
        Some(AttemptEnd::Finished { summary, head }) => (head.clone(), Some(text(summary)), None),
        Some(AttemptEnd::Canceled { reason }) => (None, None, Some(text(reason))),
        Some(AttemptEnd::Released) => (None, None, Some("released".into())),
        Some(AttemptEnd::Expired) => (None, None, Some("lease expired".into())),
    };
    let live = match &attempt.state {
        // An attempt whose lease has run out is over by the clock, before any process writes that down (decision 0016).
        AttemptState::Live { heartbeat_at, progress, .. } if attempt.is_live(now) => {
            json!({
                "session": id,
                "heartbeatAt": rfc3339_ms(*heartbeat_at),
                "progress": progress.as_deref().map(&text),
                "worktree": attempt.worktree,
            })
        }
        AttemptState::Live { .. } | AttemptState::Ended { .. } => Value::Null,
    };
    json!({
        "id": id,
        "task": attempt.task,
        "attempt": attempt.id,
        "kind": attempt.kind.as_str(),
        "fence": attempt.fence,
        "actor": attempt.actor,
        "client": attempt.client,
        "model": attempt.model,
        "status": words::session_status(health),
        "health": health.as_str(),
        "idempotencyKey": attempt.key,
        "startedAt": rfc3339_ms(attempt.started_at),
        "endedAt": ended_at,
        "branch": attempt.branch,
        "headStarted": attempt.head_started,
        "headFinished": head_finished,
        "summary": summary,
        "cancelReason": cancel_reason,
        "live": live,
        "heartbeatIntervalSeconds": policy.heartbeat_interval_s,
        "staleAfterSeconds": policy.stale_after_s,
    })
}

/// The session that `begin` answers with, and whether its files are its own.
pub fn begun(attempt: &Attempt, policy: &Policy, now: Timestamp) -> Value {
    let mut view = session(attempt, policy, now);
    match &attempt.worktree {
        Some(_) => view["checkout"] = "worktree".into(),
        None => {
            view["checkout"] = "shared".into();
            view["hint"] = "The checkout is shared: others may change the same files. begin with \
                            worktree \"new\" gives a task a folder and a branch of its own."
                .into();
        }
    }
    view
}

/// A page of tasks. A cut page says how to go on.
pub(super) fn task_page(tasks: Vec<Value>, next: Option<String>) -> Value {
    match next {
        None => json!({"tasks": tasks, "next": null}),
        // A bare cursor is easily overlooked, so the hint says in words that the list goes on.
        Some(next) => {
            let shown = tasks.len();
            let hint = format!(
                "The page is cut after {shown}; more tasks follow. Go on with list, the same filters \
                 and \"after\": \"{next}\"."
            );
            json!({"tasks": tasks, "next": next, "hint": hint})
        }
    }
}

/// Where the next page of tasks starts: the last one shown, in work's order with its priority.
pub(super) fn task_next(task: &Task, as_work: bool) -> String {
    match as_work {
        true => format!("{}.{}", task.priority, task.id),
        false => task.id.to_string(),
    }
}

/// Reads `task_next`. A cursor of the other order is refused: the page after it would skip tasks.
pub(super) fn task_cursor(after: &str, as_work: bool) -> Result<(Option<u16>, Id), Refusal> {
    let id = |text: &str| text.parse::<TaskId>().ok().map(|task| task.id);
    let read = || match (as_work, after.split_once('.')) {
        (true, Some((priority, task))) => Some((Some(priority.parse().ok()?), id(task)?)),
        (false, None) => Some((None, id(after)?)),
        (true, None) | (false, Some(_)) => None,
    };
    read().ok_or_else(|| Refusal::invalid("after must be the `next` of the answer before"))
}

/// Where the next page of sessions starts: start time and id of the last one shown.
pub(super) fn session_next(attempt: &Attempt) -> String {
    format!("{}.ses_{}", attempt.started_at.0, attempt.id.0)
}

/// Reads `session_next`.
pub(super) fn session_cursor(text: &str) -> Result<(Timestamp, Id), Refusal> {
    let parse = || {
        let (at, id) = text.split_once('.')?;
        Some((Timestamp(at.parse().ok()?), id.parse::<AttemptId>().ok()?.0))
    };
    parse().ok_or_else(|| Refusal::invalid("after must be the `next` of the answer before"))
}
