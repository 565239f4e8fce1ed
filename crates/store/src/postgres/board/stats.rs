//! The counts of each day, in the shared store.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::board::stats::{Attributed, DayCounts};

use crate::board::stats::{self, DaysKept};
use crate::postgres::connections::TRANSACTION;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::SIGN;
use crate::postgres::{PostgresStore, read};
use crate::table::Cells;
use crate::{StatsStore, StoreError};

/// Counts; needs a transaction. May be repeated: the position goes on with each count.
async fn count(db: &Db, limit: u64) -> Result<u64> {
    let sql = "SELECT seq FROM day_counts_position WHERE one FOR UPDATE";
    let row = read::one(db, sql, &[]).await?;
    let position: i64 = row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
    let newest = read::last_seq(db).await? as i64;
    let to = newest.min(position.saturating_add(limit as i64));
    if to <= position {
        return Ok(0);
    }
    let mut orgs: BTreeMap<i64, DayCounts> = BTreeMap::new();
    for row in read::all(db, &stats::measurable(SIGN, false), &[&position, &to]).await? {
        let (org, event) = stats::read(&mut row.reader())?;
        orgs.entry(org).or_default().measure(&event);
    }
    let put = stats::put(SIGN);
    for (org, counts) in &orgs {
        for (day, measure, bucket, many) in counts.rows() {
            let (bucket, many) = (i64::from(bucket), many as i64);
            read::one(db, &put, &[org, &day, &measure.as_str(), &bucket, &many]).await?;
        }
    }
    read::one(db, "UPDATE day_counts_position SET seq = $1", &[&to]).await?;
    Ok((to - position) as u64)
}

#[async_trait]
impl StatsStore for PostgresStore {
    async fn days_count(&self, limit: u64) -> std::result::Result<u64, StoreError> {
        let counts = |db: Arc<Db>| async move { count(&db, limit).await };
        Ok(self.shared.connections.run(&TRANSACTION, counts).await?)
    }

    async fn days(&self, org: &str, from: i64) -> std::result::Result<DaysKept, StoreError> {
        let days = |db: Arc<Db>, org: i64| async move {
            let mut days = DaysKept::default();
            for row in read::all(&db, &stats::kept(SIGN), &[&org, &from]).await? {
                stats::read_kept(&mut row.reader(), &mut days)?;
            }
            Ok(days)
        };
        self.shared.read_in(org, days).await
    }

    async fn days_ahead(
        &self,
        org: &str,
        after: u64,
        to: u64,
    ) -> std::result::Result<DayCounts, StoreError> {
        let (after, to) = (after as i64, to as i64);
        let ahead = |db: Arc<Db>, org: i64| async move {
            let mut counts = DayCounts::default();
            for row in read::all(&db, &stats::measurable(SIGN, true), &[&after, &to, &org]).await? {
                counts.measure(&stats::read(&mut row.reader())?.1);
            }
            Ok(counts)
        };
        self.shared.read_in(org, ahead).await
    }

    async fn days_attributed(
        &self,
        org: &str,
        after: u64,
        to: u64,
    ) -> std::result::Result<Vec<Attributed>, StoreError> {
        let (after, to) = (after as i64, to as i64);
        let found = |db: Arc<Db>, org: i64| async move {
            let rows = read::all(&db, &stats::attributed(SIGN), &[&after, &to, &org]).await?;
            rows.iter().map(|row| stats::read_attributed(&mut row.reader())).collect()
        };
        self.shared.read_in(org, found).await
    }
}
