//! Pull requests: reads and writes.

use async_trait::async_trait;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::pulls::Pull;
use rusqlite::{Connection, Result, Row, params};

use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, rows};
use crate::table::Cells;
use crate::table::pull::{AGAIN, PULL, PULL_FROM, read, values};
use crate::{OpenPulls, PullOf, PullQuery, PullStore, StoreError, pulls};

/// The newest number of an org's local pull requests.
/// Local ones are numbered per org, whatever their repository; forges number their own.
pub(crate) fn last(db: &Connection, org: i64) -> Result<u64> {
    let sql = "SELECT coalesce(max(number), 0) FROM pulls WHERE org = ?1 AND forge = 'local'";
    // A CHECK keeps numbers at 1 or above, so no sign is lost.
    let last: i64 = db.prepare_cached(sql)?.query_row([org], |row| row.get(0))?;
    Ok(last.unsigned_abs())
}

pub(crate) fn put(db: &Connection, org: i64, pull: &Pull) -> Result<()> {
    rows::insert(db, &values(org, pull), AGAIN)
}

/// Pull requests of a task, the oldest first.
pub(crate) fn of_task(db: &Connection, task: TaskId) -> Result<Vec<Pull>> {
    let sql =
        format!("SELECT {PULL} FROM {PULL_FROM} WHERE p.task = ?1 ORDER BY p.created_at, p.number");
    let found = |row: &Row<'_>| pull(row).map(|of| of.pull);
    db.prepare_cached(&sql)?.query_map([task.id.to_bytes()], found)?.collect()
}

fn pull(row: &Row<'_>) -> Result<PullOf> {
    read(&mut row.reader())
}

#[async_trait]
impl PullStore for SqliteStore {
    async fn pulls(&self, query: PullQuery) -> Result<Vec<PullOf>, StoreError> {
        self.read(move |db, _| {
            let list = || -> Result<Vec<PullOf>> {
                let sql = format!(
                    "SELECT {PULL} FROM {PULL_FROM} WHERE (?1 IS NULL OR o.name = ?1) \
                     AND (?2 IS NULL OR p.status = ?2) AND (?5 IS NULL OR p.url = ?5) {} \
                     ORDER BY p.created_at DESC, p.number DESC LIMIT ?3",
                    // A plain condition on the task, added only when a task is asked for, so that its index is used.
                    if query.task.is_some() { "AND p.task = ?4" } else { "AND ?4 IS NULL" }
                );
                let task = query.task.map(|task| task.id.to_bytes());
                let (org, limit) = (query.org.as_deref(), query.limit as i64);
                let values = params![org, query.status, limit, task, query.url];
                db.prepare_cached(&sql)?.query_map(values, pull)?.collect()
            };
            list().map_err(from_sqlite)
        })
        .await
    }

    async fn pulls_open(&self, query: OpenPulls) -> Result<Vec<PullOf>, StoreError> {
        self.read(move |db, _| {
            let list = || -> Result<Vec<PullOf>> {
                let after = query.after();
                let (number, org) = (after.number as i64, &*after.org);
                let machine = query.machine();
                let values = params![after.created_at.0, number, after.repo, org, machine];
                db.prepare_cached(&query.sql('?'))?.query_map(values, pull)?.collect()
            };
            list().map_err(from_sqlite)
        })
        .await
    }

    async fn epic_pulls(&self, org: &str, epic: TaskId) -> Result<Vec<(Id, String)>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let find = || -> Result<Vec<(Id, String)>> {
                let pull = |row: &Row<'_>| pulls::read_page(&mut row.reader());
                db.prepare_cached(&pulls::of_epic('?'))?
                    .query_map(params![org, epic.id.to_bytes()], pull)?
                    .collect()
            };
            find().map_err(from_sqlite)
        })
    }
}
