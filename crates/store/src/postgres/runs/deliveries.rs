//! Messages about ended jobs and about events: reads.

use async_trait::async_trait;
use callboard_domain::runs::delivery::Delivery;
use callboard_domain::runs::job::{Job, JobId};
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::errors::Trouble;
use crate::postgres::read;
use crate::postgres::rows::{self, uuid};
use crate::runs::deliveries::below;
use crate::table::Cells;
use crate::table::delivery::{self, select};
use crate::{DeliveryStore, StoreError};

fn delivery(row: &Row) -> Result<(Job, Delivery), Trouble> {
    delivery::read(&mut row.reader())
}

#[async_trait]
impl DeliveryStore for PostgresStore {
    async fn delivery(&self, org: &str, job: JobId) -> Result<Option<Delivery>, StoreError> {
        let sql = &select("WHERE d.job = $1 AND d.org = $2");
        let found = self.shared.read_in(org, |db, org| async move {
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
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(delivery).collect()
            })
            .await
    }

    async fn deliveries_below(
        &self,
        org: &str,
        job: JobId,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, StoreError> {
        let sql = &select(&below(read::SIGN));
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &uuid(job.0), &(limit as i64)]).await?;
                found.iter().map(delivery).collect()
            })
            .await
    }

    /// Idempotent: the first stored secret stays.
    async fn secret(&self, org: &str, name: &str, fresh: &str) -> Result<String, StoreError> {
        self.shared
            .read_in(org, |db, org| async move {
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
