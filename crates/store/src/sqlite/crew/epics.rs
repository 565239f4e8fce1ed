//! Epics and the workers for their tasks: reads.

use async_trait::async_trait;
use callboard_domain::crew::Agent;
use callboard_domain::ids::{Id, TaskId};
use rusqlite::{Connection, Result, Row, params};

use crate::crew::epics::{
    self, BusyWorker, EpicQuery, EpicStore, OrphanRun, StaleWorker, UnassignedTask,
};
use crate::sqlite::SqliteStore;
use crate::sqlite::board::cards;
use crate::sqlite::errors::from_sqlite;
use crate::table::{Cells, agent};
use crate::task::filter::Value;
use crate::{CardRow, StoreError};

fn waiting(row: &Row<'_>) -> Result<UnassignedTask> {
    epics::read_waiting(&mut row.reader())
}

fn adrift(row: &Row<'_>) -> Result<StaleWorker> {
    epics::read_adrift(&mut row.reader())
}

fn post(row: &Row<'_>) -> Result<BusyWorker> {
    epics::read_post(&mut row.reader())
}

fn stray(row: &Row<'_>) -> Result<OrphanRun> {
    epics::read_stray(&mut row.reader())
}

/// The rows of a statement without values: a sweep looks at every org, and its limit stands in the SQL.
fn list<T>(db: &Connection, sql: &str, read: fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map([], read)?.collect()
}

/// The SQL and the readers are in `crew/epics.rs`, shared with PostgreSQL. A sweep of every org may take long and so
/// runs on a thread that may block; a read by key is done at once.
#[async_trait]
impl EpicStore for SqliteStore {
    async fn epic_tasks(&self, query: EpicQuery) -> Result<Vec<CardRow>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            // Below every id, so that the first page needs no SQL of its own.
            let after = Value::Id(query.after.unwrap_or(Id(0)));
            let values = vec![Value::Integer(org), Value::Id(query.epic.id), after];
            cards::page_of(db, &query.page('?'), values, false).map_err(from_sqlite)
        })
        .await
    }

    async fn crew_waiting(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        let sql = epics::waiting(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn crew_orphans(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        let sql = epics::orphans(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn crew_merged(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        let sql = epics::merged(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn crew_adrift(&self, limit: usize) -> Result<Vec<StaleWorker>, StoreError> {
        let sql = epics::adrift(limit);
        self.read(move |db, _| list(db, &sql, adrift).map_err(from_sqlite)).await
    }

    async fn crew_posts(&self, limit: usize) -> Result<Vec<BusyWorker>, StoreError> {
        let sql = epics::posts(limit);
        self.read(move |db, _| list(db, &sql, post).map_err(from_sqlite)).await
    }

    async fn crew_strays(&self, limit: usize) -> Result<Vec<OrphanRun>, StoreError> {
        // SQLite would walk over all jobs in the order of their ids.
        let sql =
            epics::strays(limit).replace("FROM jobs j", "FROM jobs j INDEXED BY jobs_open_crew");
        self.read(move |db, _| list(db, &sql, stray).map_err(from_sqlite)).await
    }

    async fn workers_for(&self, org: &str, task: TaskId) -> Result<Vec<Agent>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let find = || -> Result<Vec<Agent>> {
                db.prepare_cached(&epics::workers_for('?'))?
                    .query_map(params![org, task.id.to_bytes()], |row| {
                        agent::read(&mut row.reader())
                    })?
                    .collect()
            };
            find().map_err(from_sqlite)
        })
    }

    async fn workers_count(&self, org: &str) -> Result<u64, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let count = db
                .prepare_cached(&epics::workers_count('?'))
                .and_then(|mut found| found.query_row([org], |row| row.get::<_, i64>(0)));
            count.map(i64::unsigned_abs).map_err(from_sqlite)
        })
    }

    async fn workspace_is_taken(&self, org: &str, name: &str) -> Result<bool, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            db.prepare_cached(&epics::workspace_taken('?'))
                .and_then(|mut found| found.query_row(params![org, name], |row| row.get(0)))
                .map_err(from_sqlite)
        })
    }
}
