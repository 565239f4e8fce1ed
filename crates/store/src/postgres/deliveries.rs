//! Messages about ended jobs and about events: reads.

use async_trait::async_trait;
use callboard_domain::delivery::{Delivery, Topic, Tried};
use callboard_domain::job::{Job, JobId};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::errors::Trouble;
use super::jobs::{JOB, JOB_COLUMNS, JOB_FROM, job};
use super::read;
use super::rows::{self, uuid};
use crate::deliveries::DELIVERY;
use crate::{DeliveryStore, StoreError};

fn select(rest: &str) -> String {
    format!("SELECT {JOB}, {DELIVERY} FROM {JOB_FROM} JOIN deliveries d ON d.job = j.id {rest}")
}

fn delivery(row: &Row) -> Result<(Job, Delivery), Trouble> {
    let job = job(row)?;
    let at = |column: usize| JOB_COLUMNS + column;
    let tried_at: Option<i64> = row.try_get(at(5))?;
    let outcome: Option<String> = row.try_get(at(6))?;
    let data = rows::json(row, at(3), "data")?.ok_or_else(|| rows::damaged("data"))?;
    let kind: String = row.try_get(at(2))?;
    let about = Topic::read(&kind, rows::id(row, at(0))?, &data);
    let delivery = Delivery {
        job: job.id,
        about: about.ok_or_else(|| rows::damaged("about"))?,
        url: row.try_get(at(1))?,
        kind,
        data,
        ended_at: rows::time(row, at(4))?,
        tried: tried_at.zip(outcome).map(|(at, outcome)| Tried { at: Timestamp(at), outcome }),
    };
    Ok((job, delivery))
}

#[async_trait]
impl DeliveryStore for PostgresStore {
    async fn delivery(&self, org: &str, job: JobId) -> Result<Option<Delivery>, StoreError> {
        let sql = &select("WHERE d.job = $1 AND d.org = $2");
        let found = self.shared.read(|db| async move {
            let org = self.shared.orgs.get(&db, org).await?;
            let row = read::one(&db, sql, &[&uuid(job.0), &org]).await?;
            row.as_ref().map(delivery).transpose()
        });
        Ok(found.await?.map(|(_, delivery)| delivery))
    }

    async fn deliveries(
        &self,
        org: &str,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, StoreError> {
        let sql = &select("WHERE d.org = $1 ORDER BY d.ended_at DESC, d.job DESC LIMIT $2");
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(delivery).collect()
            })
            .await
    }

    /// Idempotent: the first stored secret stays.
    async fn secret(&self, org: &str, name: &str, fresh: &str) -> Result<String, StoreError> {
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let insert = "INSERT INTO secrets (org, name, value) VALUES ($1, $2, $3) \
                     ON CONFLICT (org, name) DO NOTHING";
                read::one(&db, insert, &[&org, &name, &fresh]).await?;
                let find = "SELECT value FROM secrets WHERE org = $1 AND name = $2";
                let row = read::one(&db, find, &[&org, &name]).await?;
                Ok(row.ok_or_else(|| rows::damaged("secret"))?.try_get(0)?)
            })
            .await
    }
}
