//! Carries out a `Change`: rows first, then its events with the next numbers of the log.

use callboard_domain::attempt::{Attempt, AttemptState};
use callboard_domain::event::{Event, LoggedEvent, step_of};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::task::{Check, Entry, Task};
use callboard_domain::time::Timestamp;
use callboard_domain::world::Write;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, params, params_from_iter};

use super::{cards, comments, crew, deliveries, jobs, knowledge, org, pulls, runs};

/// Carries out one write. `before` is the subject as it was loaded.
pub(super) fn write(
    db: &Connection,
    org: i64,
    before: Option<&Task>,
    write: &Write,
    now: Timestamp,
) -> Result<()> {
    match write {
        Write::TaskInsert { task, body, execution_contract, deps } => {
            task_insert(db, org, task, body, execution_contract.as_deref(), deps)
        }
        Write::TaskUpdate { task } => {
            task_update(db, before.filter(|before| before.id == task.id), task)
        }
        Write::TaskTombstone { task } => {
            db.prepare_cached("UPDATE tasks SET removed_at = ?2 WHERE id = ?1")?
                .execute(params![task.id.to_bytes(), now.0])?;
            Ok(())
        }
        Write::BodyReplace { task, body } => body_replace(db, *task, body),
        Write::CardPut { task, card } => cards::put(db, *task, card),
        Write::ScratchpadPut { task, text } => cards::scratchpad_put(db, *task, text),
        Write::DepInsert { task, dep } => dep_insert(db, *task, *dep),
        Write::DepDelete { task, dep } => {
            db.prepare_cached("DELETE FROM deps WHERE task = ?1 AND dep = ?2")?
                .execute([task.id.to_bytes(), dep.id.to_bytes()])?;
            Ok(())
        }
        Write::DependentsAdjust { dep, delta } => {
            db.prepare_cached(
                "UPDATE tasks SET open_deps = open_deps + ?2 \
                 WHERE id IN (SELECT task FROM deps WHERE dep = ?1) AND removed_at IS NULL",
            )?
            .execute(params![dep.id.to_bytes(), delta])?;
            Ok(())
        }
        Write::PlanMark { task } => {
            db.prepare_cached("UPDATE tasks SET is_plan = 1 WHERE id = ?1 AND is_plan = 0")?
                .execute([task.id.to_bytes()])?;
            Ok(())
        }
        Write::OutputPut { attempt, output } => {
            db.prepare_cached("INSERT OR REPLACE INTO outputs (attempt, output) VALUES (?1, ?2)")?
                .execute(params![attempt.0.to_bytes(), output])?;
            Ok(())
        }
        Write::CommentInsert { comment } => comments::insert(db, comment),
        Write::CommentUpdate { comment } => comments::update(db, comment),
        Write::JobInsert { job } => jobs::insert(db, org, job),
        Write::JobUpdate { job } => jobs::update(db, job),
        Write::JobPut { job } => jobs::put(db, org, job),
        Write::RunInsert { run, task } => runs::insert(db, org, run, *task),
        Write::RunUpdate { run } => runs::update(db, run),
        Write::DeliveryInsert { delivery } => deliveries::insert(db, org, delivery),
        Write::DeliveryTried { job, tried } => deliveries::tried(db, *job, tried),
        Write::PullPut { pull } => pulls::put(db, org, pull),
        Write::AttemptInsert { attempt } => attempt_insert(db, attempt),
        Write::AttemptUpdate { attempt } => attempt_update(db, attempt),
        Write::EntryPut { task, number, entry, attempt } => {
            entry_put(db, *task, *number, entry, *attempt)
        }
        Write::KnowledgeInsert { entry } => knowledge::insert(db, org, entry),
        Write::KnowledgeLink { task, entry, kind } => knowledge::link(db, *task, *entry, *kind),
        Write::KnowledgeSupersede { entry, by } => knowledge::supersede(db, org, *entry, *by),
        Write::Org(write) => org::write(db, org, write, now),
        Write::Crew(write) => crew::write(db, org, write),
    }
}

fn json<T: serde::Serialize>(value: Option<&T>) -> Option<String> {
    value.map(|value| serde_json::to_string(value).expect("contracts are plain data"))
}

fn checks_json(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "[]".into();
    }
    serde_json::to_string(checks).expect("checks are plain data")
}

fn task_insert(
    db: &Connection,
    org: i64,
    task: &Task,
    body: &str,
    execution_contract: Option<&str>,
    deps: &[TaskId],
) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO tasks (id, prefix, org, project, title, label, phase, priority, assignee, \
             parent, is_plan, checks, open_deps, fence, entries, created_at, updated_at, \
             contract, phase_at, blocked, number) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
             ?19, ?20, ?21)",
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
        json(task.contract.as_ref()),
        task.phase_at.0,
        json(task.blocked.as_ref()),
        task.number,
    ])?;
    if !body.is_empty() || execution_contract.is_some() {
        db.prepare_cached(
            "INSERT INTO bodies (task, body, execution_contract) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![task.id.id.to_bytes(), body, execution_contract])?;
    }
    for dep in deps {
        dep_insert(db, task.id, *dep)?;
    }
    Ok(())
}

/// Writes the columns that changed and no others: SQLite rewrites every index whose columns an
/// UPDATE names, whether their values differ or not.
fn task_update(db: &Connection, before: Option<&Task>, task: &Task) -> Result<()> {
    let mut columns: Vec<(&str, Value)> = Vec::new();
    macro_rules! changed {
        ($column:literal, $field:ident, $value:expr) => {
            if before.is_none_or(|before| before.$field != task.$field) {
                columns.push(($column, $value.into()));
            }
        };
    }
    changed!("project", project, task.project);
    changed!("parent", parent, task.parent.map(|parent| parent.id.to_bytes().to_vec()));
    changed!("title", title, task.title.clone());
    changed!("label", label, task.label.clone());
    changed!("phase", phase, task.phase.as_str().to_owned());
    changed!("phase_at", phase_at, task.phase_at.0);
    changed!("priority", priority, task.priority);
    changed!("assignee", assignee, task.assignee.as_ref().map(|actor| actor.as_str().to_owned()));
    changed!("is_plan", is_plan, task.is_plan);
    changed!("checks", checks, checks_json(&task.checks));
    changed!("contract", contract, json(task.contract.as_ref()));
    changed!("verification", verification, json(task.verification.as_ref()));
    changed!("blocked", blocked, json(task.blocked.as_ref()));
    changed!("open_blockers", open_blockers, task.open_blockers);
    changed!("open_deps", open_deps, task.open_deps);
    changed!("fence", fence, task.fence as i64);
    let newest = task.newest_attempt.map(|attempt| attempt.0.to_bytes().to_vec());
    changed!("newest_attempt", newest_attempt, newest);
    changed!("entries", entries, task.entries);
    columns.push(("updated_at", task.updated_at.0.into()));
    let list: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, (column, _))| format!("{column} = ?{}", n + 2))
        .collect();
    let sql = format!("UPDATE tasks SET {} WHERE id = ?1", list.join(", "));
    let id = Value::Blob(task.id.id.to_bytes().to_vec());
    let values = std::iter::once(id).chain(columns.into_iter().map(|(_, value)| value));
    db.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    Ok(())
}

fn body_replace(db: &Connection, task: TaskId, body: &str) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO bodies (task, body) VALUES (?1, ?2) \
         ON CONFLICT (task) DO UPDATE SET body = excluded.body",
    )?
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

/// Updates the state of an attempt; nothing else of it ever changes.
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
        AttemptState::Ended { at, end } => db
            .prepare_cached(
                "UPDATE attempts SET ended_at = ?2, outcome = ?3, words = ?4, head_finished = ?5 \
                 WHERE id = ?1",
            )?
            .execute(params![id, at.0, end.as_str(), end.words(), end.head()])?,
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

/// Appends events after `last_seq`. Only one transaction writes at a time, so numbers have no gaps.
pub(super) fn append_events(
    db: &Connection,
    org: i64,
    events: Vec<Event>,
    now: Timestamp,
    last_seq: &mut u64,
) -> Result<Vec<LoggedEvent>> {
    let mut insert = db.prepare_cached(
        "INSERT INTO events (seq, at, org, actor, name, project, task, attempt, data) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let mut logged = Vec::with_capacity(events.len());
    for event in events {
        let Event { actor, name, about, data } = event;
        *last_seq += 1;
        insert.execute(params![
            *last_seq as i64,
            now.0,
            org,
            actor.as_str(),
            name.as_str(),
            about.map(|about| about.project),
            about.map(|about| about.task.id.to_bytes()),
            about.and_then(|about| about.attempt).map(|attempt| attempt.0.to_bytes()),
            data.to_string(),
        ])?;
        let seq = *last_seq;
        if let Some(job) = step_of(name, &data) {
            runs::number(db, job, seq)?;
        }
        logged.push(LoggedEvent { seq, at: now, actor, name, about, data });
    }
    Ok(logged)
}
