//! Epics and the workers for their tasks: reads.

use async_trait::async_trait;
use callboard_domain::crew::Agent;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::job::JobId;
use callboard_domain::policy::Phase;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, Result, Row, params};

use super::errors::from_sqlite;
use super::{SqliteStore, cards, crew, read, rows};
use crate::crew::AGENT;
use crate::epics::{self, Adrift, EpicQuery, EpicStore, Post, Stray, Waiting};
use crate::filter::Value;
use crate::{CardRow, StoreError};

fn waiting(row: &Row<'_>) -> Result<Waiting> {
    Ok(Waiting { org: row.get::<_, String>(0)?.into(), task: rows::task_id(row, 1, 2)? })
}

fn adrift(row: &Row<'_>) -> Result<Adrift> {
    let agent = crew::agent_id(row, 3)?.ok_or_else(|| rows::damaged(3, "agent"))?;
    let Waiting { org, task } = waiting(row)?;
    Ok(Adrift { org, agent, task })
}

fn post(row: &Row<'_>) -> Result<Post> {
    let Adrift { org, agent, task } = adrift(row)?;
    let phase: String = row.get(4)?;
    let mail_at: Option<i64> = row.get(8)?;
    Ok(Post {
        org,
        agent,
        task,
        phase: Phase::parse(&phase).ok_or_else(|| rows::damaged(4, "phase"))?,
        heard_at: rows::time(row, 5)?.max(rows::time(row, 6)?),
        is_run: row.get(7)?,
        mail_at: mail_at.map(Timestamp),
    })
}

fn stray(row: &Row<'_>) -> Result<Stray> {
    Ok(Stray { org: row.get::<_, String>(0)?.into(), job: JobId(rows::id(row, 1)?) })
}

fn list<T>(db: &Connection, sql: &str, read: fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map([], read)?.collect()
}

#[async_trait]
impl EpicStore for SqliteStore {
    async fn epic_tasks(&self, query: EpicQuery) -> Result<Vec<CardRow>, StoreError> {
        self.read(move |db, _| {
            let org = read::org(db, &query.org)?;
            let after = Value::Id(query.after.unwrap_or(Id(0)));
            let values = vec![Value::Integer(org), Value::Id(query.epic.id), after];
            cards::page_of(db, &query.page('?'), values, false).map_err(from_sqlite)
        })
        .await
    }

    async fn crew_waiting(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        let sql = epics::waiting(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn crew_orphans(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        let sql = epics::orphans(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn crew_merged(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        let sql = epics::merged(limit);
        self.read(move |db, _| list(db, &sql, waiting).map_err(from_sqlite)).await
    }

    async fn epic_pulls(&self, org: &str, epic: TaskId) -> Result<Vec<(Id, String)>, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let find = || -> Result<Vec<(Id, String)>> {
                let pull = |row: &Row<'_>| Ok((rows::id(row, 0)?, row.get(1)?));
                db.prepare_cached(&epics::pulls('?'))?
                    .query_map(params![org, epic.id.to_bytes()], pull)?
                    .collect()
            };
            find().map_err(from_sqlite)
        })
    }

    async fn crew_adrift(&self, limit: usize) -> Result<Vec<Adrift>, StoreError> {
        let sql = epics::adrift(limit);
        self.read(move |db, _| list(db, &sql, adrift).map_err(from_sqlite)).await
    }

    async fn crew_posts(&self, limit: usize) -> Result<Vec<Post>, StoreError> {
        let sql = epics::posts(limit);
        self.read(move |db, _| list(db, &sql, post).map_err(from_sqlite)).await
    }

    async fn crew_strays(&self, limit: usize) -> Result<Vec<Stray>, StoreError> {
        let sql = epics::strays(limit);
        self.read(move |db, _| list(db, &sql, stray).map_err(from_sqlite)).await
    }

    async fn workers_for(&self, org: &str, task: TaskId) -> Result<Vec<Agent>, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let find = || -> Result<Vec<Agent>> {
                db.prepare_cached(&epics::workers_for(AGENT, '?'))?
                    .query_map(params![org, task.id.to_bytes()], crew::agent_row)?
                    .collect()
            };
            find().map_err(from_sqlite)
        })
    }

    async fn workers_count(&self, org: &str) -> Result<u64, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let count = db
                .prepare_cached(&epics::workers_count('?'))
                .and_then(|mut found| found.query_row([org], |row| row.get::<_, i64>(0)));
            count.map(i64::unsigned_abs).map_err(from_sqlite)
        })
    }

    async fn workspace_is_taken(&self, org: &str, name: &str) -> Result<bool, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            db.prepare_cached(&epics::workspace_taken('?'))
                .and_then(|mut found| found.query_row(params![org, name], |row| row.get(0)))
                .map_err(from_sqlite)
        })
    }
}
