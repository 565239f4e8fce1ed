//! Messages about ended jobs and about events: reads and writes.

use async_trait::async_trait;
use callboard_domain::delivery::{Delivery, Topic, Tried};
use callboard_domain::job::{Job, JobId};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::errors::from_sqlite;
use super::jobs::{JOB, JOB_COLUMNS, JOB_FROM, job};
use super::{SqliteStore, read, rows};
use crate::deliveries::{DELIVERY, DELIVERY_ALL};
use crate::{DeliveryStore, StoreError};

fn select(rest: &str) -> String {
    format!("SELECT {JOB}, {DELIVERY} FROM {JOB_FROM} JOIN deliveries d ON d.job = j.id {rest}")
}

fn delivery(row: &Row<'_>) -> Result<(Job, Delivery)> {
    let job = job(row)?;
    let at = |column: usize| JOB_COLUMNS + column;
    let tried_at: Option<i64> = row.get(at(5))?;
    let outcome: Option<String> = row.get(at(6))?;
    let data = rows::json(row, at(3), "data")?.ok_or_else(|| rows::damaged(at(3), "data"))?;
    let kind: String = row.get(at(2))?;
    let about = Topic::read(&kind, rows::id(row, at(0))?, &data);
    let delivery = Delivery {
        job: job.id,
        about: about.ok_or_else(|| rows::damaged(at(0), "about"))?,
        url: row.get(at(1))?,
        kind,
        data,
        ended_at: rows::time(row, at(4))?,
        tried: tried_at.zip(outcome).map(|(at, outcome)| Tried { at: Timestamp(at), outcome }),
    };
    Ok((job, delivery))
}

pub(super) fn insert(db: &Connection, org: i64, delivery: &Delivery) -> Result<()> {
    let sql = format!(
        "INSERT INTO deliveries ({DELIVERY_ALL}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    );
    let tried = delivery.tried.as_ref();
    db.prepare_cached(&sql)?.execute(params![
        delivery.job.0.to_bytes(),
        org,
        delivery.about.id().to_bytes(),
        delivery.url,
        delivery.kind,
        delivery.data.to_string(),
        delivery.ended_at.0,
        tried.map(|tried| tried.at.0),
        tried.map(|tried| &tried.outcome),
    ])?;
    Ok(())
}

pub(super) fn tried(db: &Connection, job: JobId, tried: &Tried) -> Result<()> {
    db.prepare_cached("UPDATE deliveries SET tried_at = ?2, outcome = ?3 WHERE job = ?1")?
        .execute(params![job.0.to_bytes(), tried.at.0, tried.outcome])?;
    Ok(())
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
