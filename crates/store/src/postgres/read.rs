//! Reads for the read models: short, on connections of the pool, never writing.

use std::collections::HashMap;
use std::path::PathBuf;

use callboard_domain::attempt::{Attempt, ExecutionState, Health};
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::limits::ENTRIES_SHOWN_MAX;
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::task::{TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
use deadpool_postgres::ClientWrapper as Db;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::errors::Trouble;
use super::rows::{self, uuid};
use crate::{AttemptQuery, EventQuery, Overdue, Project, StoreError, TaskQuery};

type Result<T> = std::result::Result<T, Trouble>;
type Values<'a> = [&'a (dyn ToSql + Sync)];

async fn all(db: &Db, sql: &str, values: &Values<'_>) -> Result<Vec<Row>> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query(&statement, values).await?)
}

pub(super) async fn one(db: &Db, sql: &str, values: &Values<'_>) -> Result<Option<Row>> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_opt(&statement, values).await?)
}

pub(super) async fn find_org(db: &Db, name: &str) -> Result<Option<i64>> {
    let found = one(db, "SELECT id FROM orgs WHERE name = $1", &[&name]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

pub(super) fn unknown_org(name: &str) -> StoreError {
    StoreError::Unavailable(format!("no organisation is called '{name}'"))
}

pub(super) async fn org(db: &Db, name: &str) -> Result<i64> {
    find_org(db, name).await?.ok_or_else(|| unknown_org(name).into())
}

/// The single read's view: everything about one task, the newest part of its history.
pub(super) async fn record(db: &Db, org: i64, id: TaskId) -> Result<Option<TaskRecord>> {
    let task = format!(
        "SELECT {}, {} FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt \
         WHERE t.id = $1 AND t.org = $2 AND t.prefix = $3 AND t.removed_at IS NULL",
        rows::TASK,
        rows::ATTEMPT,
        rows::TASK_FROM
    );
    let deps = format!(
        "SELECT {} FROM deps JOIN tasks d ON d.id = deps.dep \
         WHERE deps.task = $1 ORDER BY deps.position",
        rows::DEP
    );
    let entries = format!(
        "SELECT {} FROM entries n WHERE n.task = $1 \
         ORDER BY n.number DESC LIMIT {ENTRIES_SHOWN_MAX}",
        rows::ENTRY
    );
    let (key, prefix) = (uuid(id.id), id.prefix.as_str());
    let of_task: [&(dyn ToSql + Sync); 1] = [&key];
    let visible: [&(dyn ToSql + Sync); 3] = [&key, &org, &prefix];
    let (task, deps, body, entries) = tokio::try_join!(
        one(db, &task, &visible),
        all(db, &deps, &of_task),
        one(db, "SELECT body FROM bodies WHERE task = $1", &of_task),
        all(db, &entries, &of_task),
    )?;
    let Some(row) = task else { return Ok(None) };
    Ok(Some(TaskRecord {
        task: rows::task(&row)?,
        body: body.map(|row| row.try_get(0)).transpose()?.unwrap_or_default(),
        deps: deps.iter().map(rows::dep).collect::<Result<_>>()?,
        entries: entries.iter().rev().map(rows::entry).collect::<Result<_>>()?,
        newest: rows::attempt_beside_task(&row)?,
    }))
}

pub(super) async fn attempt(db: &Db, org: i64, id: AttemptId) -> Result<Option<Attempt>> {
    let sql = format!(
        "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task WHERE a.id = $1 AND t.org = $2",
        rows::ATTEMPT
    );
    one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(rows::attempt).transpose()
}

/// Builds a WHERE clause with its values in step.
#[derive(Default)]
struct Filter {
    terms: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Filter {
    fn term(&mut self, sql: &str) {
        self.terms.push(sql.into());
    }

    /// `sql` holds `?` where the value goes.
    fn with(&mut self, sql: &str, value: impl ToSql + Sync + Send + 'static) {
        let place = self.value(value);
        self.terms.push(sql.replace('?', &place));
    }

    /// Keeps a value and names its place.
    fn value(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn sql(&self) -> String {
        self.terms.join(" AND ")
    }

    fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// Live attempts that have been silent too long began or beat before this.
fn stale_before(policy: &Policy, now: Timestamp) -> i64 {
    now.0 - i64::from(policy.stale_after_s) * 1_000_000
}

const LEASE_OVER: &str = "(a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= ?)";

pub(super) async fn tasks(db: &Db, query: &TaskQuery, now: Timestamp) -> Result<Vec<TaskRow>> {
    let mut filter = Filter::default();
    filter.term("t.removed_at IS NULL");
    filter.with("t.project = ?", query.project);
    if let Some(label) = &query.label {
        filter.with("t.label = ?", label.clone());
        // Naming the phase too lets the planner use the index of startable tasks.
        if query.policy.initial().name == *label && query.ready == Some(true) {
            filter.term("t.phase = 'initial'");
        }
    }
    match &query.assignee {
        None => {}
        Some(None) => filter.term("t.assignee IS NULL"),
        Some(Some(actor)) => filter.with("t.assignee = ?", actor.clone()),
    }
    match query.ready {
        None => {}
        Some(true) => filter.term("t.open_deps = 0"),
        Some(false) => filter.term("t.open_deps > 0"),
    }
    if let Some(execution) = query.execution {
        execution_filter(&mut filter, execution, &query.policy, now);
    }
    let order = if query.newest_first { "DESC" } else { "ASC" };
    if let Some(after) = query.after {
        filter.with(if query.newest_first { "t.id < ?" } else { "t.id > ?" }, uuid(after));
    }
    let sql = format!(
        "SELECT {}, {} FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt \
         WHERE {} ORDER BY t.id {order} LIMIT {}",
        rows::TASK,
        rows::ATTEMPT,
        rows::TASK_FROM,
        filter.sql(),
        query.limit
    );
    task_rows(db, &sql, &filter.values()).await
}

fn execution_filter(filter: &mut Filter, wanted: ExecutionState, policy: &Policy, now: Timestamp) {
    let live = |filter: &mut Filter| {
        filter.term("a.ended_at IS NULL AND a.id IS NOT NULL");
        filter.with(&format!("NOT {LEASE_OVER}"), now.0);
    };
    match wanted {
        ExecutionState::Active => {
            live(filter);
            filter.with("a.heartbeat_at >= ?", stale_before(policy, now));
        }
        ExecutionState::Stalled => {
            live(filter);
            filter.with("a.heartbeat_at < ?", stale_before(policy, now));
        }
        ExecutionState::AwaitingReview => {
            filter.term("a.outcome = 'finished'");
            match policy.review() {
                Some(_) => filter.with("t.phase = ?", Phase::Review.as_str()),
                None => filter.term("t.phase NOT IN ('closed_done', 'closed_canceled')"),
            }
        }
    }
}

pub(super) async fn tasks_free(db: &Db, project: i64, limit: usize) -> Result<Vec<TaskRow>> {
    let sql = format!(
        "SELECT {}, {} FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt \
         WHERE t.project = $1 AND t.phase = 'initial' AND t.open_deps = 0 \
             AND t.assignee IS NULL AND NOT t.is_plan AND t.removed_at IS NULL \
         ORDER BY t.priority, t.id LIMIT $2",
        rows::TASK,
        rows::ATTEMPT,
        rows::TASK_FROM
    );
    task_rows(db, &sql, &[&project, &(limit as i64)]).await
}

/// A damaged row is left out of a list rather than failing it; `doctor` names it.
async fn task_rows(db: &Db, sql: &str, values: &Values<'_>) -> Result<Vec<TaskRow>> {
    let mut tasks = Vec::new();
    for row in all(db, sql, values).await? {
        match (rows::task(&row), rows::attempt_beside_task(&row)) {
            (Ok(task), Ok(newest)) => tasks.push(TaskRow { task, deps: Vec::new(), newest }),
            (Err(trouble), _) | (_, Err(trouble)) => {
                tracing::error!(?trouble, "a task's row is damaged; run callboard doctor");
            }
        }
    }
    let ids: Vec<Uuid> = tasks.iter().map(|row| uuid(row.task.id.id)).collect();
    let edges = all(
        db,
        "SELECT deps.task, d.id, d.prefix FROM deps JOIN tasks d ON d.id = deps.dep \
         WHERE deps.task = ANY ($1) AND d.removed_at IS NULL ORDER BY deps.task, deps.position",
        &[&ids],
    )
    .await?;
    let mut deps: HashMap<Id, Vec<TaskId>> = HashMap::new();
    for row in &edges {
        deps.entry(rows::id(row, 0)?).or_default().push(rows::task_id(row, 1, 2)?);
    }
    for row in &mut tasks {
        row.deps = deps.remove(&row.task.id.id).unwrap_or_default();
    }
    Ok(tasks)
}

pub(super) async fn attempts(
    db: &Db,
    org: i64,
    query: &AttemptQuery,
    now: Timestamp,
) -> Result<Vec<Attempt>> {
    let mut filter = Filter::default();
    filter.with("t.org = ?", org);
    if let Some(task) = query.task {
        filter.with("a.task = ?", uuid(task.id));
    }
    if let Some(actor) = &query.actor {
        filter.with("a.actor = ?", actor.clone());
    }
    if !query.health.is_empty() {
        let terms = query.health.iter().map(|health| health_term(&mut filter, *health, query, now));
        let any: Vec<String> = terms.collect();
        filter.term(&format!("({})", any.join(" OR ")));
    }
    if let Some((started_at, id)) = query.after {
        let (started_at, id) = (filter.value(started_at.0), filter.value(uuid(id)));
        filter.term(&format!("(a.started_at, a.id) < ({started_at}, {id})"));
    }
    let sql = format!(
        "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task WHERE {} \
         ORDER BY a.started_at DESC, a.id DESC LIMIT {}",
        rows::ATTEMPT,
        filter.sql(),
        query.limit
    );
    all(db, &sql, &filter.values()).await?.iter().map(rows::attempt).collect()
}

fn health_term(
    filter: &mut Filter,
    health: Health,
    query: &AttemptQuery,
    now: Timestamp,
) -> String {
    let over = |filter: &mut Filter| LEASE_OVER.replace('?', &filter.value(now.0));
    let stale = |filter: &mut Filter| filter.value(stale_before(&query.policy, now));
    match health {
        Health::Active => {
            let (over, stale) = (over(filter), stale(filter));
            format!("(a.ended_at IS NULL AND NOT {over} AND a.heartbeat_at >= {stale})")
        }
        Health::Stalled => {
            let (over, stale) = (over(filter), stale(filter));
            format!("(a.ended_at IS NULL AND NOT {over} AND a.heartbeat_at < {stale})")
        }
        Health::Finished => "a.outcome = 'finished'".into(),
        Health::Canceled => format!(
            "(a.outcome IN ('canceled', 'released', 'expired') OR (a.ended_at IS NULL AND {}))",
            over(filter)
        ),
    }
}

pub(super) async fn attempts_overdue(
    db: &Db,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Overdue>> {
    let found = all(
        db,
        "SELECT a.id, o.name FROM attempts a JOIN tasks t ON t.id = a.task \
             JOIN orgs o ON o.id = t.org \
         WHERE a.ended_at IS NULL AND a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= $1 \
         ORDER BY a.lease_expires_at LIMIT $2",
        &[&now.0, &(limit as i64)],
    )
    .await?;
    let read = |row: &Row| {
        let org: &str = row.try_get(1)?;
        Ok(Overdue { attempt: AttemptId(rows::id(row, 0)?), org: org.into() })
    };
    found.iter().map(read).collect()
}

pub(super) async fn events(db: &Db, query: &EventQuery) -> Result<Vec<LoggedEvent>> {
    let mut filter = Filter::default();
    filter.with("e.seq > ?", i64::try_from(query.after).unwrap_or(i64::MAX));
    if let Some(task) = query.task {
        filter.with("e.task = ?", uuid(task.id));
    }
    if let Some(org) = &query.org {
        filter.with("t.org = (SELECT id FROM orgs WHERE name = ?)", org.to_string());
    }
    let sql = format!(
        "SELECT {} FROM events e JOIN tasks t ON t.id = e.task WHERE {} ORDER BY e.seq LIMIT {}",
        rows::EVENT,
        filter.sql(),
        i64::try_from(query.limit).unwrap_or(i64::MAX)
    );
    all(db, &sql, &filter.values()).await?.iter().map(rows::event).collect()
}

/// The end of the log: the newest event's number and the newest time in the store.
pub(super) async fn last_seq(db: &Db) -> Result<u64> {
    let row = one(db, "SELECT last_seq FROM log_position WHERE one", &[]).await?;
    let seq: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(seq.unwrap_or_default() as u64)
}

pub(super) async fn project(db: &Db, id: i64) -> Result<Option<Project>> {
    let found = one(db, "SELECT id, name, prefix FROM projects WHERE id = $1", &[&id]).await?;
    found.as_ref().map(project_row).transpose()
}

pub(super) fn project_row(row: &Row) -> Result<Project> {
    Ok(Project {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        prefix: Prefix::parse(row.try_get(2)?).unwrap_or_else(Prefix::fallback),
    })
}

pub(super) async fn repo_path(db: &Db, project: i64, machine: &str) -> Result<Option<PathBuf>> {
    let sql = "SELECT path FROM repos WHERE project = $1 AND machine = $2 ORDER BY id DESC LIMIT 1";
    let found = one(db, sql, &[&project, &machine]).await?;
    Ok(found.map(|row| row.try_get::<_, String>(0)).transpose()?.map(PathBuf::from))
}
