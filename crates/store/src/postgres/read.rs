//! Reads for the read models: short, on connections of the pool, never writing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{AttemptId, Id, TaskId};
use callboard_domain::task::TaskRow;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;
use futures_util::future;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::board::counts;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::log::END;
use crate::postgres::rows::uuid;
use crate::postgres::task::front::{self, Fronts};
use crate::table::Cells;
use crate::table::attempt::{self, ATTEMPT};
use crate::table::event::{self, EVENT};
use crate::table::project::{self, PROJECT_NAME, REPO, REPO_ORDER};
use crate::table::task::{self, TASK, TASK_FROM};
use crate::task::filter::{AttemptLeg, Filter, Leg, Value};
use crate::task::queue::{freed_names, lapsed_counts};
use crate::{AttemptQuery, EventQuery, Overdue, OwnedRepo, Project, Repo, TaskQuery, TasksByState};

type Values<'a> = [&'a (dyn ToSql + Sync)];

/// Every row of a statement. The statement is prepared once per connection; behind a pooler it goes without a name.
pub(crate) async fn all(db: &Db, sql: &str, values: &Values<'_>) -> Result<Vec<Row>> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query(&statement, values).await?)
}

/// The only row, if any. More than one is an error of the driver.
pub(crate) async fn one(db: &Db, sql: &str, values: &Values<'_>) -> Result<Option<Row>> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_opt(&statement, values).await?)
}

/// The row number of an org; callers go through the cache in `orgs`.
pub(crate) async fn find_org(db: &Db, name: &str) -> Result<Option<i64>> {
    let found = one(db, "SELECT id FROM orgs WHERE name = $1", &[&name]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn attempt(db: &Db, org: i64, id: AttemptId) -> Result<Option<Attempt>> {
    let sql = format!(
        "SELECT {ATTEMPT} FROM attempts a JOIN tasks t ON t.id = a.task \
         WHERE a.id = $1 AND t.org = $2"
    );
    let found = one(db, &sql, &[&uuid(id.0), &org]).await?;
    found.map(|row| attempt::read(&mut row.reader())).transpose()
}

/// The first character of PostgreSQL's placeholders.
pub(crate) const SIGN: char = '$';

/// A filter's values as the driver takes them.
pub(crate) struct BoundValues(Vec<Box<dyn ToSql + Sync + Send>>);

impl BoundValues {
    pub(crate) fn from(filter: Filter) -> Self {
        let take = |value| -> Box<dyn ToSql + Sync + Send> {
            match value {
                Value::Integer(number) => Box::new(number),
                Value::Text(text) => Box::new(text),
                Value::Id(id) => Box::new(uuid(id)),
            }
        };
        Self(filter.values.into_iter().map(take).collect())
    }

    pub(crate) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// Tasks as they stand at `now`.
pub(crate) async fn tasks(
    db: &Db,
    query: &TaskQuery,
    fronts: &Fronts,
    now: Timestamp,
) -> Result<Vec<TaskRow>> {
    let mut found = Vec::new();
    for leg in Leg::of(query) {
        let filter = Filter::of_tasks(SIGN, query, leg, now);
        // A later page begins behind the page before it.
        if query.is_for_free() && query.after.is_none() && leg == Leg::Written {
            found.extend(tasks_at_front(db, query, fronts, filter).await?);
            continue;
        }
        let sql = tasks_sql(query, leg, &filter);
        found.extend(task_rows(db, &sql, &BoundValues::from(filter).values()).await?);
    }
    Ok(query.page(found, now))
}

/// Free tasks, without a walk over the tasks that were taken (`front.rs`).
async fn tasks_at_front(
    db: &Db,
    query: &TaskQuery,
    fronts: &Fronts,
    filter: Filter,
) -> Result<Vec<TaskRow>> {
    let front = fronts.of(db, query.project).await?;
    let (terms, first) = (filter.sql(), filter.values.len() + 1);
    let taken = BoundValues::from(filter);
    let beside = "LEFT JOIN attempts a ON a.id = t.newest_attempt";
    // Each known task is looked up by itself: a join could be planned as a scan of all tasks.
    let known = format!(
        "({}) n CROSS JOIN LATERAL (SELECT * FROM tasks o WHERE o.id = n.id OFFSET 0) t \
             LEFT JOIN tasks p ON p.id = t.parent {beside}",
        front::near(first)
    );
    let near = select(query, &known, &terms);
    let near_values = [&taken.values()[..], &front.near(&query.project)[..]].concat();
    let terms = format!("{terms} AND {}", front::behind(first));
    let behind = select(query, &format!("{TASK_FROM} {beside}"), &terms);
    let behind_values = [&taken.values()[..], &front.behind()[..]].concat();
    let near = task_rows(db, &near, &near_values);
    let behind = task_rows(db, &behind, &behind_values);
    let (mut found, behind) = future::try_join(near, behind).await?;
    let known: HashSet<Id> = found.iter().map(|row| row.task.id.id).collect();
    found.extend(behind.into_iter().filter(|row| !known.contains(&row.task.id.id)));
    Ok(found)
}

fn select(query: &TaskQuery, from: &str, terms: &str) -> String {
    let (order, limit) = (query.order(), query.limit);
    format!("SELECT {TASK}, {ATTEMPT} FROM {from} WHERE {terms} ORDER BY {order} LIMIT {limit}")
}

/// One leg of a list. The legs are apart because a lease that is over frees its task before any row says so.
fn tasks_sql(query: &TaskQuery, leg: Leg, filter: &Filter) -> String {
    // Leases that are live or over are few, so each looks up its task; `OFFSET 0` makes the planner do it that way.
    let begins_at_tasks = !matches!(leg, Leg::Lapsed | Leg::Live) && !query.is_for_live();
    let from = match begins_at_tasks {
        true => format!("{} LEFT JOIN attempts a ON a.id = t.newest_attempt", TASK_FROM),
        false => "attempts a CROSS JOIN LATERAL (SELECT * FROM tasks o WHERE o.id = a.task \
                 AND o.newest_attempt = a.id OFFSET 0) t LEFT JOIN tasks p ON p.id = t.parent"
            .into(),
    };
    select(query, &from, &filter.sql())
}

/// Counts for the metrics; tasks whose lease is over count as what they are at `now`.
pub(crate) async fn tasks_by_state(db: &Db, now: Timestamp) -> Result<TasksByState> {
    let mut counts = TasksByState::default();
    for row in &all(db, counts::EVERYWHERE, &[]).await? {
        counts.add(&mut row.reader())?;
    }
    Ok(match one(db, &lapsed_counts(SIGN), &[&now.0]).await? {
        Some(row) => counts.with_lapsed(row.try_get(0)?, row.try_get(1)?),
        None => counts,
    })
}

pub(crate) async fn task_free_since(
    db: &Db,
    task: TaskId,
    up_to: u64,
) -> Result<Option<Timestamp>> {
    let sql = format!(
        "SELECT at FROM events WHERE task = $1 AND seq <= $2 AND name IN ({}) \
         ORDER BY seq DESC LIMIT 1",
        freed_names()
    );
    let found = one(db, &sql, &[&uuid(task.id), &(up_to as i64)]).await?;
    Ok(found.map(|row| row.try_get(0).map(Timestamp)).transpose()?)
}

/// Tasks of a query. A damaged row is left out of the list rather than failing it; `doctor` names it.
pub(crate) async fn task_rows(db: &Db, sql: &str, values: &Values<'_>) -> Result<Vec<TaskRow>> {
    let mut tasks = Vec::new();
    for row in all(db, sql, values).await? {
        match task::read_with_attempt(&mut row.reader()) {
            Ok((task, newest)) => tasks.push(TaskRow { task, deps: Vec::new(), newest }),
            Err(trouble) => {
                tracing::error!(?trouble, "a task's row is damaged; run callboard doctor");
            }
        }
    }
    // One round trip for the deps of the whole page.
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
        let mut row = row.reader();
        deps.entry(row.id()?).or_default().push(row.task()?);
    }
    for row in &mut tasks {
        row.deps = deps.remove(&row.task.id.id).unwrap_or_default();
    }
    Ok(tasks)
}

pub(crate) async fn attempts(
    db: &Db,
    org: i64,
    query: &AttemptQuery,
    now: Timestamp,
) -> Result<Vec<Attempt>> {
    let mut found = Vec::new();
    for leg in AttemptLeg::of(query) {
        let filter = Filter::of_attempts(SIGN, org, query, leg, now);
        let sql = format!(
            "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task WHERE {} \
             ORDER BY a.started_at DESC, a.id DESC LIMIT {}",
            ATTEMPT,
            filter.sql(),
            query.limit
        );
        for row in all(db, &sql, &BoundValues::from(filter).values()).await? {
            found.push(attempt::read(&mut row.reader())?);
        }
    }
    Ok(query.page(found))
}

/// Live attempts whose lease is over, in every org. The clock ends them; rules treat them as ended before that.
pub(crate) async fn attempts_overdue(
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
        let mut row = row.reader();
        Ok(Overdue { attempt: AttemptId(row.id()?), org: row.str()?.into() })
    };
    found.iter().map(read).collect()
}

pub(crate) async fn events(db: &Db, query: &EventQuery) -> Result<Vec<LoggedEvent>> {
    let filter = Filter::of_events(SIGN, query);
    let sql = format!(
        "SELECT {} FROM events e LEFT JOIN tasks t ON t.id = e.task WHERE {} ORDER BY e.seq LIMIT {}",
        EVENT,
        filter.sql(),
        i64::try_from(query.limit).unwrap_or(i64::MAX)
    );
    all(db, &sql, &BoundValues::from(filter).values())
        .await?
        .iter()
        .map(|row| event::read(&mut row.reader()))
        .collect()
}

/// The number of the newest event.
pub(crate) async fn last_seq(db: &Db) -> Result<u64> {
    let row = one(db, END, &[]).await?;
    let seq: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(seq.unwrap_or_default() as u64)
}

pub(crate) async fn project(db: &Db, id: i64) -> Result<Option<Project>> {
    let found =
        one(db, &format!("SELECT {PROJECT_NAME} FROM projects p WHERE id = $1"), &[&id]).await?;
    found.as_ref().map(project_row).transpose()
}

pub(crate) async fn project_of_repo(db: &Db, org: &str, repo: i64) -> Result<Option<Project>> {
    let sql = format!(
        "SELECT {PROJECT_NAME} FROM repos r JOIN projects p ON p.id = r.project \
         JOIN orgs o ON o.id = p.org WHERE r.id = $1 AND o.name = $2"
    );
    let found = one(db, &sql, &[&repo, &org]).await?;
    found.as_ref().map(project_row).transpose()
}

pub(crate) async fn repos_on(db: &Db, org: &str, machine: &str) -> Result<Vec<OwnedRepo>> {
    let sql = format!(
        "SELECT {PROJECT_NAME}, {REPO} \
         FROM repos r JOIN projects p ON p.id = r.project JOIN orgs o ON o.id = p.org \
         WHERE o.name = $1 AND r.machine = $2 ORDER BY r.id"
    );
    let found = all(db, &sql, &[&org, &machine]).await?;
    found.iter().map(|row| project::read_owned(&mut row.reader())).collect()
}

pub(crate) fn project_row(row: &Row) -> Result<Project> {
    project::read_name(&mut row.reader())
}

/// The project's main repository on a machine: the first by position, and the newest of equals.
pub(crate) async fn repo_path(db: &Db, project: i64, machine: &str) -> Result<Option<PathBuf>> {
    let sql = "SELECT path FROM repos WHERE project = $1 AND machine = $2 ORDER BY position, id DESC LIMIT 1";
    let found = one(db, sql, &[&project, &machine]).await?;
    Ok(found.map(|row| row.try_get::<_, String>(0)).transpose()?.map(PathBuf::from))
}

/// The whole output of a completed attempt.
pub(crate) async fn output(db: &Db, attempt: AttemptId) -> Result<Option<String>> {
    let sql = "SELECT output FROM outputs WHERE attempt = $1";
    let found = one(db, sql, &[&uuid(attempt.0)]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn repo(db: &Db, project: i64) -> Result<Option<Repo>> {
    let sql = format!("SELECT {REPO} FROM repos r WHERE r.project = $1 {REPO_ORDER} LIMIT 1");
    let found = one(db, &sql, &[&project]).await?;
    found.map(|row| project::read_repo(&mut row.reader())).transpose()
}
