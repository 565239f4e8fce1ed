//! Whether somebody watched over the leases. A machine that slept, or a store nobody had open, must
//! not cost an agent its task: who was in time when the watch ended gets time to speak again.

use super::clock::{NOW, SharedClock};
use super::db::Db;
use super::errors::Trouble;
use super::read;
use crate::{GRACE_MS, UNWATCHED_MAX_MS};
use callboard_domain::time::Timestamp;

type Result<T> = std::result::Result<T, Trouble>;

/// Leases that were live at $1 and would not reach $2.
const SHORT: &str = "ended_at IS NULL AND lease_expires_at IS NOT NULL \
     AND lease_expires_at > $1 AND lease_expires_at < $2";

pub(super) async fn is_needed(db: &Db) -> Result<bool> {
    let sql =
        "SELECT 1 FROM attempts WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL LIMIT 1";
    Ok(read::one(db, sql, &[]).await?.is_some())
}

/// In a transaction. Processes that tick at once do so one after the other.
pub(super) async fn tick(db: &Db, clock: &SharedClock) -> Result<usize> {
    let first = "INSERT INTO ticks (at) VALUES (0) ON CONFLICT (one) DO NOTHING";
    read::one(db, first, &[]).await?;
    read::one(db, "SELECT 1 FROM ticks WHERE one FOR UPDATE", &[]).await?;
    // Every commit shows that the store was in use, so the newest event counts as a tick.
    let sql = format!("SELECT {NOW}, p.last_at, t.at FROM log_position p, ticks t");
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[]).await?;
    let (last_at, ticked): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
    let now = clock.learn(row.try_get(0)?, last_at);
    let last = last_at.max(ticked);
    let unwatched = now.ms_since(Timestamp(last)) > UNWATCHED_MAX_MS;
    let saved = if unwatched { save(db, last, now.plus_ms(GRACE_MS).0).await? } else { 0 };
    read::one(db, "UPDATE ticks SET at = $1 WHERE one", &[&now.0]).await?;
    Ok(saved)
}

/// The tasks are locked first, like before every other change to their attempts.
async fn save(db: &Db, last: i64, until: i64) -> Result<usize> {
    let lock = format!(
        "SELECT id FROM tasks WHERE id IN (SELECT task FROM attempts WHERE {SHORT}) \
         ORDER BY id FOR NO KEY UPDATE"
    );
    read::all(db, &lock, &[&last, &until]).await?;
    let sql = format!("UPDATE attempts SET lease_expires_at = $2 WHERE {SHORT} RETURNING id");
    Ok(read::all(db, &sql, &[&last, &until]).await?.len())
}
