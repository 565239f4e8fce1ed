//! The monthly usage of orgs.

use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read;

/// `period` is a month, such as `2026-11`. A metric that was not used yet has no row.
pub(crate) async fn used(db: &Db, org: i64, metric: &str, period: &str) -> Result<u64> {
    let sql = "SELECT used FROM quotas WHERE org = $1 AND metric = $2 AND period = $3";
    let found = read::one(db, sql, &[&org, &metric, &period]).await?;
    let used: Option<i64> = found.map(|row| row.try_get(0)).transpose()?;
    Ok(used.unwrap_or(0).max(0) as u64)
}

/// The database adds, so two processes that count at once lose nothing. A repeat would count twice.
pub(crate) async fn add(db: &Db, org: i64, metric: &str, period: &str, more: u64) -> Result<()> {
    let sql = "INSERT INTO quotas AS q (org, metric, period, used) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (org, metric, period) DO UPDATE SET used = q.used + excluded.used";
    read::one(db, sql, &[&org, &metric, &period, &(more as i64)]).await?;
    Ok(())
}
