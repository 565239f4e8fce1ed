//! Reads for the read models: short, on read-only connections, never writing.

use std::path::PathBuf;

use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{AttemptId, Id, IdKind, TaskId, TaskName};
use callboard_domain::task::TaskRow;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params, params_from_iter};

use crate::board::counts;
use crate::id_table::{
    ENDS_SEARCHED, begins_with, id_table, newest_first, of_prefix_sql, prefixes_sql,
};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{fetch, tick};
use crate::table::Cells;
use crate::table::attempt::{self, ATTEMPT};
use crate::table::event::{self, EVENT};
use crate::table::project::{self, PROJECT_NAME, REPO, REPO_ORDER};
use crate::table::task::{self, TASK, TASKS_BY_ID};
use crate::task::filter::{AttemptLeg, Filter, Leg, Value};
use crate::task::queue::{freed_names, lapsed_counts};
use crate::{
    AttemptQuery, EventQuery, Overdue, OwnedRepo, Project, Repo, StoreError, TaskQuery, TaskScope,
    TasksByState,
};

pub(crate) fn org(db: &Connection, name: &str) -> Result<i64, StoreError> {
    db.prepare_cached("SELECT id FROM orgs WHERE name = ?1")
        .and_then(|mut s| s.query_row([name], |row| row.get(0)).optional())
        .map_err(from_sqlite)?
        .ok_or_else(|| StoreError::Unavailable(format!("no organisation is called '{name}'")))
}

/// The first character of SQLite's placeholders.
pub(crate) const SIGN: char = '?';

impl ToSql for Value {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Integer(number) => ToSqlOutput::from(*number),
            Self::Text(text) => ToSqlOutput::from(text.as_str()),
            Self::Id(id) => ToSqlOutput::from(id.to_bytes().to_vec()),
        })
    }
}

/// Tasks as they stand at `now`.
pub(crate) fn tasks(db: &Connection, query: &TaskQuery, now: Timestamp) -> Result<Vec<TaskRow>> {
    let mut found = Vec::new();
    for leg in Leg::of(query) {
        let filter = Filter::of_tasks(SIGN, query, leg, now);
        found.extend(task_rows(db, &tasks_sql(query, leg, &filter), filter.values)?);
    }
    Ok(query.page(found, now))
}

/// The index that a query has to use. The planner knows nothing of the numbers of rows: by itself it reads every task of
/// a label to find those that can start.
fn index_of(query: &TaskQuery, leg: Leg) -> &'static str {
    match leg {
        Leg::Lapsed | Leg::Live => "",
        Leg::Every | Leg::Written | Leg::Phase(_) if query.parent.is_some() => {
            "INDEXED BY tasks_by_parent"
        }
        Leg::Phase(_) => "INDEXED BY tasks_by_assignee",
        Leg::Written if query.is_for_free() => "INDEXED BY tasks_free",
        Leg::Written if query.is_for_startable() && query.as_work.is_some() => {
            "INDEXED BY tasks_to_start"
        }
        Leg::Written if query.is_for_startable() => "INDEXED BY tasks_startable",
        Leg::Written => "INDEXED BY tasks_by_label",
        Leg::Every if query.scope == TaskScope::Held => "INDEXED BY tasks_held",
        Leg::Every if query.blocked => "INDEXED BY tasks_blocked",
        Leg::Every if query.awaits_review() => "INDEXED BY tasks_in_review",
        Leg::Every if query.ready == Some(false) => "INDEXED BY tasks_waiting",
        Leg::Every if query.ready == Some(true) && query.as_work.is_some() => {
            "INDEXED BY tasks_ready"
        }
        Leg::Every if query.scope == TaskScope::Open => "INDEXED BY tasks_open",
        Leg::Every => "INDEXED BY tasks_by_project",
    }
}

fn tasks_sql(query: &TaskQuery, leg: Leg, filter: &Filter) -> String {
    // The join goes from the few leases that are live or over to their tasks; a CROSS JOIN keeps that order.
    let from = match leg {
        Leg::Every | Leg::Written | Leg::Phase(_) | Leg::Live
            if leg == Leg::Live || query.is_for_live() =>
        {
            format!(
                "attempts a INDEXED BY attempts_live CROSS JOIN {TASKS_BY_ID} ON t.id = a.task \
                 AND t.newest_attempt = a.id LEFT JOIN tasks p ON p.id = t.parent"
            )
        }
        Leg::Every | Leg::Written | Leg::Phase(_) | Leg::Live => {
            let index = index_of(query, leg);
            format!(
                "tasks t {index} LEFT JOIN tasks p ON p.id = t.parent \
                 LEFT JOIN attempts a ON a.id = t.newest_attempt"
            )
        }
        Leg::Lapsed => {
            format!(
                "attempts a CROSS JOIN {TASKS_BY_ID} ON t.id = a.task AND t.newest_attempt = a.id \
                 LEFT JOIN tasks p ON p.id = t.parent"
            )
        }
    };
    format!(
        "SELECT {}, {} FROM {from} WHERE {} ORDER BY {} LIMIT {}",
        TASK,
        ATTEMPT,
        filter.sql(),
        query.order(),
        query.limit
    )
}

pub(crate) fn projects(db: &Connection, org: i64) -> Result<Vec<i64>> {
    db.prepare_cached("SELECT id FROM projects WHERE org = ?1 ORDER BY id")?
        .query_map([org], |row| row.get(0))?
        .collect()
}

/// Counts for the metrics, from the kept counts; tasks whose lease is over count as what they are at `now`.
pub(crate) fn tasks_by_state(db: &Connection, now: Timestamp) -> Result<TasksByState> {
    let mut counts = TasksByState::default();
    let mut kept = db.prepare_cached(counts::EVERYWHERE)?;
    let mut rows = kept.query([])?;
    while let Some(row) = rows.next()? {
        counts.add(&mut row.reader())?;
    }
    let (ready, blocked) = db
        .prepare_cached(&lapsed_counts(SIGN))?
        .query_row([now.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(counts.with_lapsed(ready, blocked))
}

/// When a task last became free, by the events up to a number: the metric of how long tasks wait.
pub(crate) fn task_free_since(
    db: &Connection,
    task: TaskId,
    up_to: u64,
) -> Result<Option<Timestamp>> {
    let sql = format!(
        "SELECT at FROM events WHERE task = ?1 AND seq <= ?2 AND name IN ({}) \
         ORDER BY seq DESC LIMIT 1",
        freed_names()
    );
    db.prepare_cached(&sql)?
        .query_row(params![task.id.to_bytes(), up_to as i64], |row| row.get(0).map(Timestamp))
        .optional()
}

/// Tasks of a query. A damaged row is left out of the list rather than failing it; `doctor` names it.
pub(crate) fn task_rows(db: &Connection, sql: &str, values: Vec<Value>) -> Result<Vec<TaskRow>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params_from_iter(values))?;
    let mut tasks = Vec::new();
    while let Some(row) = found.next()? {
        match task::read_with_attempt(&mut row.reader()) {
            Ok((task, newest)) => {
                let deps =
                    fetch::deps(db, task.id)?.iter().filter(|d| !d.removed).map(|d| d.id).collect();
                tasks.push(TaskRow { task, deps, newest });
            }
            Err(error) => {
                tracing::error!(%error, "a task's row is damaged; run callboard doctor");
            }
        }
    }
    Ok(tasks)
}

/// Tasks that a typed text may mean. The searches go from exact to vague, and the first one that finds anything
/// decides.
pub(crate) fn task_ids(
    db: &Connection,
    org: i64,
    typed: &str,
    limit: usize,
) -> Result<Vec<TaskId>> {
    for search in [task_ids_by_name, task_ids_by_start, task_ids_by_prefix, task_ids_by_end] {
        let found = search(db, org, typed, limit)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Ids of one kind within a range, the newest first: an id that was typed in part. The `+` keeps SQLite from reading all
/// rows of the org.
pub(crate) fn ids(
    db: &Connection,
    org: i64,
    kind: IdKind,
    (low, high): (Id, Id),
    limit: usize,
) -> Result<Vec<Id>> {
    let table = id_table(kind);
    db.prepare_cached(&format!(
        "SELECT id FROM {table} WHERE id >= ?1 AND id <= ?2 AND +org = ?3 \
         ORDER BY id DESC LIMIT ?4",
    ))?
    .query_map(params![low.to_bytes(), high.to_bytes(), org, limit as i64], |row| {
        row.reader().id()
    })?
    .collect()
}

/// Finds `SHOP-12`; a prefix typed in small letters is tried in capitals too.
fn task_ids_by_name(db: &Connection, org: i64, typed: &str, _: usize) -> Result<Vec<TaskId>> {
    let Some(name) = TaskName::parse(typed) else { return Ok(Vec::new()) };
    let mut find = db.prepare_cached(
        "SELECT id, prefix FROM tasks \
         WHERE org = ?1 AND prefix = ?2 AND number = ?3 AND removed_at IS NULL",
    )?;
    for TaskName { prefix, number } in [name, name.in_capitals()] {
        let values = params![org, prefix.as_str(), number];
        if let Some(found) = find.query_row(values, |row| row.reader().task()).optional()? {
            return Ok(vec![found]);
        }
    }
    Ok(Vec::new())
}

/// Finds `PREFIX-01k…` or `01k…`. The `+` keeps SQLite from reading all tasks of the org.
fn task_ids_by_start(db: &Connection, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    let (prefix, rest) = match typed.rsplit_once('-') {
        Some((prefix, rest)) => (Some(prefix), rest),
        None => (None, typed),
    };
    let Some((low, high)) = Id::range(rest) else { return Ok(Vec::new()) };
    let values = params![low.to_bytes(), high.to_bytes(), org, prefix, limit as i64];
    db.prepare_cached(
        "SELECT id, prefix FROM tasks \
         WHERE id >= ?1 AND id <= ?2 AND +org = ?3 AND removed_at IS NULL \
             AND (?4 IS NULL OR lower(prefix) = lower(?4)) \
         ORDER BY id DESC LIMIT ?5",
    )?
    .query_map(values, |row| row.reader().task())?
    .collect()
}

/// Finds ids by their end: ids made within one minute begin alike, so people remember the end. The `+` keeps SQLite from
/// reading and sorting all tasks of the org.
fn task_ids_by_end(db: &Connection, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    if !Id::may_end_with(typed) {
        return Ok(Vec::new());
    }
    let typed = typed.to_ascii_lowercase();
    let mut recent = db.prepare_cached(
        "SELECT id, prefix FROM tasks WHERE +org = ?1 AND removed_at IS NULL \
         ORDER BY id DESC LIMIT ?2",
    )?;
    let ids = recent.query_map(params![org, ENDS_SEARCHED], |row| row.reader().task())?;
    let ends_so =
        |id: &Result<TaskId>| id.as_ref().is_ok_and(|id| id.id.to_string().ends_with(&typed));
    ids.filter(ends_so).take(limit).collect()
}

/// Finds tasks whose prefix begins with the typed text.
fn task_ids_by_prefix(db: &Connection, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    let mut known = db.prepare_cached(&prefixes_sql(SIGN))?;
    let known: Vec<String> =
        known.query_map([org], |row| row.reader().text())?.collect::<Result<_>>()?;
    let mut found = Vec::new();
    for prefix in known.iter().filter(|prefix| begins_with(prefix, typed)) {
        let mut newest = db.prepare_cached(&of_prefix_sql(SIGN))?;
        let values = params![org, prefix, limit as i64];
        for task in newest.query_map(values, |row| row.reader().task())? {
            found.push(task?);
        }
    }
    Ok(newest_first(found, limit))
}

pub(crate) fn attempts(
    db: &Connection,
    org: i64,
    query: &AttemptQuery,
    now: Timestamp,
) -> Result<Vec<Attempt>> {
    let mut found = Vec::new();
    for leg in AttemptLeg::of(query) {
        let filter = Filter::of_attempts(SIGN, org, query, leg, now);
        let index = match leg {
            AttemptLeg::Every if query.task.is_some() => "INDEXED BY attempts_by_fence",
            AttemptLeg::Every if query.actor.is_some() => "INDEXED BY attempts_by_actor",
            AttemptLeg::Every => "INDEXED BY attempts_by_start",
            AttemptLeg::Live => "INDEXED BY attempts_live",
            AttemptLeg::Finished => "INDEXED BY attempts_finished",
            AttemptLeg::Canceled => "INDEXED BY attempts_canceled",
        };
        let sql = format!(
            "SELECT {ATTEMPT} FROM attempts a {index} CROSS JOIN {TASKS_BY_ID} ON t.id = a.task WHERE {} \
             ORDER BY a.started_at DESC, a.id DESC LIMIT {}",
            filter.sql(),
            query.limit
        );
        let mut statement = db.prepare_cached(&sql)?;
        let read = |row: &Row<'_>| attempt::read(&mut row.reader());
        for attempt in statement.query_map(params_from_iter(filter.values), read)? {
            found.push(attempt?);
        }
    }
    Ok(query.page(found))
}

/// Live attempts whose lease is over, in every org. The clock ends them; rules treat them as ended before that.
pub(crate) fn attempts_overdue(
    db: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Overdue>> {
    let read = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok(Overdue { attempt: AttemptId(row.id()?), org: row.str()?.into() })
    };
    db.prepare_cached(
        "SELECT a.id, o.name FROM attempts a JOIN tasks t ON t.id = a.task JOIN orgs o ON o.id = t.org \
         WHERE a.ended_at IS NULL AND a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= ?1 \
         ORDER BY a.lease_expires_at LIMIT ?2",
    )?
    .query_map(params![now.0, limit as i64], read)?
    .collect()
}

pub(crate) fn events(db: &Connection, query: &EventQuery) -> Result<Vec<LoggedEvent>> {
    let filter = Filter::of_events(SIGN, query);
    let sql = format!(
        "SELECT {} FROM events e LEFT JOIN tasks t ON t.id = e.task WHERE {} ORDER BY e.seq LIMIT {}",
        EVENT,
        filter.sql(),
        i64::try_from(query.limit).unwrap_or(i64::MAX)
    );
    db.prepare_cached(&sql)?
        .query_map(params_from_iter(filter.values), |row| event::read(&mut row.reader()))?
        .collect()
}

/// Every event after a number, of all orgs: the feed hands them to waits.
pub(crate) fn events_after(db: &Connection, seen: u64) -> Result<Vec<LoggedEvent>, StoreError> {
    let query = EventQuery { org: None, after: seen, task: None, limit: usize::MAX };
    events(db, &query).map_err(from_sqlite)
}

/// The number of the newest event; 0 before the first.
pub(crate) fn last_seq(db: &Connection) -> Result<u64> {
    db.prepare_cached("SELECT coalesce(max(seq), 0) FROM events")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|seq| seq as u64)
}

/// The newest time in the store.
pub(crate) fn last_at(db: &Connection) -> Result<i64> {
    let newest: Option<i64> = db
        .query_row("SELECT at FROM events ORDER BY seq DESC LIMIT 1", [], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or_default().max(tick::ticked_at(db)?))
}

pub(crate) fn project(db: &Connection, id: i64) -> Result<Option<Project>> {
    db.prepare_cached(&format!("SELECT {PROJECT_NAME} FROM projects p WHERE id = ?1"))?
        .query_row([id], project_row)
        .optional()
}

pub(crate) fn project_of_repo(db: &Connection, org: &str, repo: i64) -> Result<Option<Project>> {
    db.prepare_cached(&format!(
        "SELECT {PROJECT_NAME} FROM repos r JOIN projects p ON p.id = r.project \
             JOIN orgs o ON o.id = p.org WHERE r.id = ?1 AND o.name = ?2"
    ))?
    .query_row(params![repo, org], project_row)
    .optional()
}

pub(crate) fn repos_on(db: &Connection, org: &str, machine: &str) -> Result<Vec<OwnedRepo>> {
    let read = |row: &Row<'_>| project::read_owned(&mut row.reader());
    db.prepare_cached(&format!(
        "SELECT {PROJECT_NAME}, {REPO} \
             FROM repos r JOIN projects p ON p.id = r.project JOIN orgs o ON o.id = p.org \
             WHERE o.name = ?1 AND r.machine = ?2 ORDER BY r.id"
    ))?
    .query_map(params![org, machine], read)?
    .collect()
}

pub(crate) fn project_row(row: &Row<'_>) -> Result<Project> {
    project::read_name(&mut row.reader())
}

/// The project's main repository on a machine: the first by position, and the newest of equals.
pub(crate) fn repo_path(db: &Connection, project: i64, machine: &str) -> Result<Option<PathBuf>> {
    db.prepare_cached(
        "SELECT path FROM repos WHERE project = ?1 AND machine = ?2 ORDER BY position, id DESC",
    )?
    .query_row(params![project, machine], |row| row.get::<_, String>(0))
    .optional()
    .map(|path| path.map(PathBuf::from))
}

pub(crate) fn output(db: &Connection, attempt: AttemptId) -> Result<Option<String>> {
    db.prepare_cached("SELECT output FROM outputs WHERE attempt = ?1")?
        .query_row([attempt.0.to_bytes()], |row| row.get(0))
        .optional()
}

pub(crate) fn repo(db: &Connection, project: i64) -> Result<Option<Repo>> {
    let sql = format!("SELECT {REPO} FROM repos r WHERE r.project = ?1 {REPO_ORDER} LIMIT 1");
    let read = |row: &Row<'_>| project::read_repo(&mut row.reader());
    db.prepare_cached(&sql)?.query_row([project], read).optional()
}

pub(crate) fn quota_used(db: &Connection, org: i64, metric: &str, period: &str) -> Result<u64> {
    let used: Option<i64> = db
        .prepare_cached("SELECT used FROM quotas WHERE org = ?1 AND metric = ?2 AND period = ?3")?
        .query_row(params![org, metric, period], |row| row.get(0))
        .optional()?;
    Ok(used.unwrap_or(0).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use callboard_domain::policy::Phase;

    use super::*;
    use crate::sqlite::schema;
    use crate::sqlite::turnstile::Turnstile;

    /// Lists by label, of startable tasks and by assignee use an index, at any number of tasks.
    #[test]
    fn lists_judge_leases_by_an_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        schema::migrate(&mut db, &path, &turnstile).expect("migrates");
        let mut query = TaskQuery::of(1, Arc::default());
        query.label = Some("backlog".into());
        let by_label = query.clone();
        (query.assignee, query.ready) = (Some(None), Some(true));
        let startable = query.clone();
        query = TaskQuery { assignee: Some(Some("agent:w1".into())), ..by_label.clone() };
        query.label = None;
        let cases = [
            (&by_label, Leg::Written, "tasks_by_label"),
            (&by_label, Leg::Lapsed, "attempts_by_lease"),
            (&startable, Leg::Written, "tasks_startable"),
            (&startable, Leg::Lapsed, "attempts_by_lease"),
            (&query, Leg::Phase(Phase::Initial), "tasks_by_assignee"),
            (&query, Leg::Phase(Phase::ClosedDone), "tasks_by_assignee"),
        ];
        for (query, leg, index) in cases {
            assert!(Leg::of(query).contains(&leg));
            let filter = Filter::of_tasks(SIGN, query, leg, Timestamp(1));
            let explain = format!("EXPLAIN QUERY PLAN {}", tasks_sql(query, leg, &filter));
            let steps: Vec<String> = db
                .prepare(&explain)
                .and_then(|mut plan| {
                    plan.query_map(params_from_iter(filter.values), |row| row.get(3))?.collect()
                })
                .expect("a plan");
            let first = steps.first().map(String::as_str).unwrap_or_default();
            assert!(first.contains(&format!("USING INDEX {index}")), "{leg:?}: {steps:#?}");
        }
    }
}
