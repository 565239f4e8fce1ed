//! Messages about ended jobs and about events: reads and writes.

use async_trait::async_trait;
use callboard_domain::runs::delivery::{Delivery, Tried};
use callboard_domain::runs::job::{Job, JobId};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::runs::deliveries::below;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, read, rows};
use crate::table::Cells;
use crate::table::delivery::{self, STEPS, select};
use crate::{DeliveryStore, StoreError};

fn delivery(row: &Row<'_>) -> Result<(Job, Delivery)> {
    delivery::read(&mut row.reader())
}

pub(crate) fn insert(db: &Connection, org: i64, delivery: &Delivery) -> Result<()> {
    rows::insert(db, &delivery::values(org, delivery), "")
}

pub(crate) fn tried(db: &Connection, job: JobId, tried: &Tried) -> Result<()> {
    rows::update(db, &delivery::tried_values(job, tried), "job", &STEPS)
}

#[async_trait]
impl DeliveryStore for SqliteStore {
    async fn delivery(&self, org: &str, job: JobId) -> Result<Option<Delivery>, StoreError> {
        let sql = select("WHERE d.job = ?1 AND d.org = ?2");
        self.shared.read(|db, _| {
            let values = params![job.0.to_bytes(), read::org(db, org)?];
            let mut statement = db.prepare_cached(&sql).map_err(from_sqlite)?;
            let found = statement.query_row(values, delivery).optional().map_err(from_sqlite)?;
            Ok(found.map(|(_, delivery)| delivery))
        })
    }

    async fn deliveries(
        &self,
        org: &str,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, StoreError> {
        let org = org.to_owned();
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            let list = || -> Result<Vec<(Job, Delivery)>> {
                db.prepare_cached(&select(
                    "WHERE d.org = ?1 ORDER BY d.ended_at DESC, d.job DESC LIMIT ?2",
                ))?
                .query_map(params![org, limit as i64], delivery)?
                .collect()
            };
            list().map_err(from_sqlite)
        })
        .await
    }

    async fn deliveries_below(
        &self,
        org: &str,
        job: JobId,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let list = || -> Result<Vec<(Job, Delivery)>> {
                db.prepare_cached(&select(&below(read::SIGN)))?
                    .query_map(params![org, job.0.to_bytes(), limit as i64], delivery)?
                    .collect()
            };
            list().map_err(from_sqlite)
        })
    }

    async fn secret(&self, org: &str, name: &str, fresh: &str) -> Result<String, StoreError> {
        let (org, name, fresh) = (org.to_owned(), name.to_owned(), fresh.to_owned());
        self.on_writer(move |db| {
            let org = read::org(db, &org)?;
            let keep = || -> Result<String> {
                let insert = "INSERT INTO secrets (org, name, value) VALUES (?1, ?2, ?3) \
                     ON CONFLICT (org, name) DO NOTHING";
                db.execute(insert, params![org, name, fresh])?;
                let find = "SELECT value FROM secrets WHERE org = ?1 AND name = ?2";
                db.query_row(find, params![org, name], |row| row.get(0))
            };
            keep().map_err(from_sqlite)
        })
        .await
    }
}
