//! Writes the changed rows of a desk, and appends events with the next numbers of the log.

use std::collections::{BTreeMap, BTreeSet};

use callboard_domain::attempt::{Attempt, AttemptState};
use callboard_domain::desk::{Desk, Rows, TaskRows, Touched};
use callboard_domain::event::{Event, LoggedEvent, step_of};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::job::JobId;
use callboard_domain::task::{Check, Dependent, Entry, Task};
use callboard_domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, params, params_from_iter};

use super::{cards, comments, crew, deliveries, jobs, knowledge, org, pulls, runs};

/// Writes the changed rows of a desk. `fetched` are its tasks as they were read. An attempt ends before the next one
/// of its task begins, a job before the next one with its key, and an edge is deleted before its place is taken.
pub(super) fn rows(
    db: &Connection,
    org: i64,
    Desk { now, rows, touched }: &Desk,
    fetched: &BTreeMap<TaskId, Task>,
) -> Result<()> {
    for write in &touched.org {
        org::write(db, org, write, *now)?;
    }
    for write in &touched.crew {
        crew::write(db, org, write)?;
    }
    let tasks = |ids: &BTreeSet<TaskId>| -> Vec<&TaskRows> {
        ids.iter().filter_map(|id| rows.tasks.get(id)).collect()
    };
    for TaskRows { task, .. } in tasks(&touched.tasks_new) {
        task_insert(db, org, task)?;
    }
    for id in touched.tasks.difference(&touched.tasks_new) {
        if let Some(rows) = rows.tasks.get(id) {
            task_update(db, fetched.get(id), rows)?;
        }
    }
    for Dependent { id, open_deps, .. } in
        touched.open_deps.iter().filter_map(|id| rows.dependents.get(id))
    {
        db.prepare_cached("UPDATE tasks SET open_deps = ?2 WHERE id = ?1")?
            .execute(params![id.id.to_bytes(), open_deps])?;
    }
    for rows in tasks(&touched.bodies) {
        body_put(db, rows)?;
    }
    for TaskRows { task, card, .. } in tasks(&touched.cards) {
        cards::put(db, task.id, card)?;
    }
    for TaskRows { task, scratchpad, .. } in tasks(&touched.scratchpads) {
        cards::scratchpad_put(db, task.id, scratchpad)?;
    }
    for (task, dep) in &touched.deps_gone {
        db.prepare_cached("DELETE FROM deps WHERE task = ?1 AND dep = ?2")?
            .execute([task.id.to_bytes(), dep.id.to_bytes()])?;
    }
    for ((task, dep), position) in &touched.deps_new {
        db.prepare_cached("INSERT INTO deps (task, position, dep) VALUES (?1, ?2, ?3)")?
            .execute(params![task.id.to_bytes(), position, dep.id.to_bytes()])?;
    }
    history(db, rows, touched)?;
    work(db, org, rows, touched)?;
    for entry in &touched.knowledge_new {
        knowledge::insert(db, org, entry)?;
    }
    for (task, entry, kind) in &touched.edges {
        knowledge::link(db, *task, *entry, *kind)?;
    }
    for (entry, by) in &touched.superseded {
        knowledge::supersede(db, org, *entry, *by)?;
    }
    Ok(())
}

/// Attempts, comments and lines of history.
fn history(db: &Connection, rows: &Rows, touched: &Touched) -> Result<()> {
    let attempt = |id: &AttemptId| rows.attempts.get(id);
    let begun_before = touched.attempts.difference(&touched.attempts_new);
    for attempt in begun_before.filter_map(attempt) {
        attempt_update(db, attempt)?;
    }
    for attempt in touched.attempts_new.iter().filter_map(attempt) {
        attempt_insert(db, attempt)?;
    }
    for (attempt, output) in &touched.outputs {
        db.prepare_cached("INSERT OR REPLACE INTO outputs (attempt, output) VALUES (?1, ?2)")?
            .execute(params![attempt.0.to_bytes(), output])?;
    }
    for comment in touched.comments_new.iter().filter_map(|id| rows.comments.get(id)) {
        comments::insert(db, comment)?;
    }
    for comment in touched.comments.iter().filter_map(|id| rows.comments.get(id)) {
        comments::update(db, comment)?;
    }
    for ((task, number), (entry, attempt)) in &touched.entries {
        entry_put(db, *task, *number, entry, *attempt)?;
    }
    Ok(())
}

/// Jobs with their runs and deliveries, and pull requests.
fn work(db: &Connection, org: i64, rows: &Rows, touched: &Touched) -> Result<()> {
    let job = |id: &JobId| rows.jobs.get(id);
    for job in touched.jobs.difference(&touched.jobs_new).filter_map(job) {
        jobs::update(db, job)?;
    }
    for job in touched.jobs_new.iter().filter_map(job) {
        jobs::insert(db, org, job)?;
    }
    for job in touched.jobs_put.iter().filter_map(job) {
        jobs::put(db, org, job)?;
    }
    for (run, task) in
        touched.runs_new.iter().filter_map(|(id, task)| Some((rows.runs.get(id)?, task)))
    {
        runs::insert(db, org, run, *task)?;
    }
    let known = touched.runs.iter().filter(|id| !touched.runs_new.contains_key(id));
    for run in known.filter_map(|id| rows.runs.get(id)) {
        runs::update(db, run)?;
    }
    for delivery in &touched.deliveries_new {
        deliveries::insert(db, org, delivery)?;
    }
    for (job, tried) in &touched.deliveries_tried {
        deliveries::tried(db, *job, tried)?;
    }
    for pull in &touched.pulls {
        pulls::put(db, org, pull)?;
    }
    Ok(())
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

fn task_insert(db: &Connection, org: i64, task: &Task) -> Result<()> {
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
    Ok(())
}

/// Writes the columns that changed and no others: SQLite rewrites every index whose columns an
/// UPDATE names, whether their values differ or not.
fn task_update(db: &Connection, before: Option<&Task>, rows: &TaskRows) -> Result<()> {
    let task = &rows.task;
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
    changed!("updated_at", updated_at, task.updated_at.0);
    columns.extend(rows.removed_at.map(|at| ("removed_at", at.0.into())));
    if columns.is_empty() {
        return Ok(());
    }
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

fn body_put(
    db: &Connection,
    TaskRows { task, body, execution_contract, .. }: &TaskRows,
) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO bodies (task, body, execution_contract) VALUES (?1, ?2, ?3) \
         ON CONFLICT (task) DO UPDATE SET body = excluded.body",
    )?
    .execute(params![task.id.id.to_bytes(), body, execution_contract])?;
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
