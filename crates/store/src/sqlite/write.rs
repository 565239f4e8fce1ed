//! Carries out a `Change`: rows first, then its events with the next numbers of the log.

use callboard_domain::attempt::{Attempt, AttemptEnd, AttemptState};
use callboard_domain::event::{Event, LoggedEvent};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::task::{Check, Entry, Task};
use callboard_domain::time::Timestamp;
use callboard_domain::world::Write;
use rusqlite::{Connection, Result, params};

pub(super) fn write(db: &Connection, org: i64, write: &Write, now: Timestamp) -> Result<()> {
    match write {
        Write::TaskInsert { task, body, deps } => task_insert(db, org, task, body, deps),
        Write::TaskUpdate { task } => task_update(db, task),
        Write::TaskTombstone { task } => {
            db.prepare_cached("UPDATE tasks SET removed_at = ?2 WHERE id = ?1")?
                .execute(params![task.id.to_bytes(), now.0])?;
            Ok(())
        }
        Write::BodyReplace { task, body } => body_replace(db, *task, body),
        Write::DepInsert { task, dep } => dep_insert(db, *task, *dep),
        Write::DepDelete { task, dep } => {
            db.prepare_cached("DELETE FROM deps WHERE task = ?1 AND dep = ?2")?
                .execute([task.id.to_bytes(), dep.id.to_bytes()])?;
            Ok(())
        }
        Write::DependentsAdjust { dep, delta } => {
            db.prepare_cached(
                "UPDATE tasks SET open_deps = open_deps + ?2 \
                 WHERE id IN (SELECT task FROM deps WHERE dep = ?1)",
            )?
            .execute(params![dep.id.to_bytes(), delta])?;
            Ok(())
        }
        Write::AttemptInsert { attempt } => attempt_insert(db, attempt),
        Write::AttemptUpdate { attempt } => attempt_update(db, attempt),
        Write::EntryPut { task, number, entry, attempt } => {
            entry_put(db, *task, *number, entry, *attempt)
        }
    }
}

fn checks_json(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "[]".into();
    }
    serde_json::to_string(checks).expect("checks are plain data")
}

fn task_insert(db: &Connection, org: i64, task: &Task, body: &str, deps: &[TaskId]) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO tasks (id, prefix, org, project, title, label, phase, priority, assignee, \
             parent, is_plan, checks, open_deps, fence, entries, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        task.id.id.to_bytes(),
        task.id.prefix.as_str(),
        org,
        task.project,
        task.title,
        task.label,
        task.phase.as_str(),
        task.priority,
        task.assignee.as_ref().map(|actor| actor.as_str()),
        task.parent.map(|parent| parent.id.to_bytes()),
        task.is_plan,
        checks_json(&task.checks),
        task.open_deps,
        task.fence as i64,
        task.entries,
        task.created_at.0,
        task.updated_at.0,
    ])?;
    if !body.is_empty() {
        body_replace(db, task.id, body)?;
    }
    for dep in deps {
        dep_insert(db, task.id, *dep)?;
    }
    Ok(())
}

fn task_update(db: &Connection, task: &Task) -> Result<()> {
    db.prepare_cached(
        "UPDATE tasks SET title = ?2, label = ?3, phase = ?4, priority = ?5, assignee = ?6, \
             is_plan = ?7, checks = ?8, open_deps = ?9, fence = ?10, newest_attempt = ?11, \
             entries = ?12, updated_at = ?13 WHERE id = ?1",
    )?
    .execute(params![
        task.id.id.to_bytes(),
        task.title,
        task.label,
        task.phase.as_str(),
        task.priority,
        task.assignee.as_ref().map(|actor| actor.as_str()),
        task.is_plan,
        checks_json(&task.checks),
        task.open_deps,
        task.fence as i64,
        task.newest_attempt.map(|attempt| attempt.0.to_bytes()),
        task.entries,
        task.updated_at.0,
    ])?;
    Ok(())
}

fn body_replace(db: &Connection, task: TaskId, body: &str) -> Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO bodies (task, body) VALUES (?1, ?2)")?
        .execute(params![task.id.to_bytes(), body])?;
    Ok(())
}

fn dep_insert(db: &Connection, task: TaskId, dep: TaskId) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO deps (task, position, dep) VALUES (?1, \
             (SELECT coalesce(max(position), -1) + 1 FROM deps WHERE task = ?1), ?2)",
    )?
    .execute([task.id.to_bytes(), dep.id.to_bytes()])?;
    Ok(())
}

fn attempt_insert(db: &Connection, attempt: &Attempt) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO attempts (id, task, kind, fence, actor, key, client, model, worktree, \
             branch, head_started, started_at, heartbeat_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
    )?
    .execute(params![
        attempt.id.0.to_bytes(),
        attempt.task.id.to_bytes(),
        attempt.kind.as_str(),
        attempt.fence as i64,
        attempt.actor.as_str(),
        attempt.key,
        attempt.client,
        attempt.model,
        attempt.worktree,
        attempt.branch,
        attempt.head_started,
        attempt.started_at.0,
    ])?;
    attempt_update(db, attempt)
}

/// Only the state of an attempt ever changes.
fn attempt_update(db: &Connection, attempt: &Attempt) -> Result<()> {
    let id = attempt.id.0.to_bytes();
    match &attempt.state {
        AttemptState::Live { heartbeat_at, progress, lease } => db
            .prepare_cached(
                "UPDATE attempts SET heartbeat_at = ?2, progress = ?3, lease_s = ?4, \
                     lease_expires_at = ?5 WHERE id = ?1",
            )?
            .execute(params![
                id,
                heartbeat_at.0,
                progress,
                lease.map(|lease| lease.granted_s),
                lease.map(|lease| lease.expires_at.0),
            ])?,
        AttemptState::Ended { at, end } => {
            let (outcome, words, head) = match end {
                AttemptEnd::Finished { summary, head } => {
                    ("finished", Some(summary), head.as_ref())
                }
                AttemptEnd::Canceled { reason } => ("canceled", Some(reason), None),
                AttemptEnd::Released => ("released", None, None),
                AttemptEnd::Expired => ("expired", None, None),
            };
            db.prepare_cached(
                "UPDATE attempts SET ended_at = ?2, outcome = ?3, words = ?4, head_finished = ?5 \
                 WHERE id = ?1",
            )?
            .execute(params![id, at.0, outcome, words, head])?
        }
    };
    Ok(())
}

fn entry_put(
    db: &Connection,
    task: TaskId,
    number: u32,
    entry: &Entry,
    attempt: Option<AttemptId>,
) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO entries (task, number, who, at, did, text, attempt) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        task.id.to_bytes(),
        number,
        entry.who.as_str(),
        entry.at.0,
        entry.did,
        entry.text,
        attempt.map(|attempt| attempt.0.to_bytes()),
    ])?;
    Ok(())
}

/// Appends events after `last_seq`; only one transaction writes at a time, so numbers have no gaps.
pub(super) fn append_events(
    db: &Connection,
    events: Vec<Event>,
    now: Timestamp,
    last_seq: &mut u64,
) -> Result<Vec<LoggedEvent>> {
    let mut insert = db.prepare_cached(
        "INSERT INTO events (seq, at, actor, name, project, task, attempt, data) \
         SELECT ?1, ?2, ?3, ?4, project, ?5, ?6, ?7 FROM tasks WHERE id = ?5 RETURNING project",
    )?;
    let mut logged = Vec::with_capacity(events.len());
    for event in events {
        let seq = *last_seq + 1;
        let project = insert.query_row(
            params![
                seq as i64,
                now.0,
                event.actor.as_str(),
                event.name.as_str(),
                event.task.id.to_bytes(),
                event.attempt.map(|attempt| attempt.0.to_bytes()),
                event.data.to_string(),
            ],
            |row| row.get(0),
        )?;
        *last_seq = seq;
        logged.push(LoggedEvent {
            seq,
            at: now,
            actor: event.actor,
            name: event.name,
            project,
            task: event.task,
            attempt: event.attempt,
            data: event.data,
        });
    }
    Ok(logged)
}
