//! Whether the leases were watched, judged before a batch decides anything. The rule is
//! `callboard_domain::watch`.

use std::sync::Arc;

use callboard_domain::task::attempt::Lease;
use callboard_domain::task::watch::{GRACE_MS, Watcher, grace, is_unwatched};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::clock::NOW;
use crate::postgres::connections::TRANSACTION;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::log::END;
use crate::postgres::{Shared, read};
use crate::table::Cells;

impl Shared {
    /// The last moment at which a process is known to have watched the leases.
    pub(crate) fn seen_at(&self, ticked_at: i64) -> Timestamp {
        self.watch.seen_at(ticked_at, self.clock.stand_in())
    }

    /// Gives grace to the holders that had no way to keep their leases.
    pub(crate) async fn judge_leases(&self) -> Result<usize> {
        let judge = |db: Arc<Db>| async move { judge(&db, self).await };
        let (saved, now) = self.connections.run(&TRANSACTION, judge).await?;
        self.watch.judged(now);
        Ok(saved)
    }
}

pub(crate) async fn is_needed(db: &Db) -> Result<bool> {
    let sql =
        "SELECT 1 FROM attempts WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL LIMIT 1";
    Ok(read::one(db, sql, &[]).await?.is_some())
}

/// Gives grace to the holders that had no way to keep their leases and, in a process that stays, records that it
/// watches; needs a transaction. Concurrent processes judge one after the other. Returns how many holders got
/// grace, and when.
async fn judge(db: &Db, shared: &Shared) -> Result<(usize, Timestamp)> {
    let first = "INSERT INTO ticks (at) VALUES (0) ON CONFLICT (one) DO NOTHING";
    read::one(db, first, &[]).await?;
    read::one(db, "SELECT 1 FROM ticks WHERE one FOR UPDATE", &[]).await?;
    let sql = format!("SELECT {NOW}, greatest(p.last_at, t.at), t.at FROM ({END}) p, ticks t");
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[]).await?;
    let now = shared.clock.learn(row.try_get(0)?, row.try_get(1)?);
    let seen_at = shared.seen_at(row.try_get(2)?);
    let watcher = shared.watch.watcher();
    let mut saved = 0;
    if is_unwatched(seen_at, now) {
        saved = save(db, seen_at, watcher, now).await?;
    }
    if saved > 0 {
        tracing::warn!(saved, "no process watched the leases for a while; holders got more time");
    }
    // The store keeps the time that the grace counts from, as it keeps that of an event.
    if saved > 0 || watcher == Watcher::Stays {
        read::one(db, "UPDATE ticks SET at = $1 WHERE one", &[&now.0]).await?;
    }
    Ok((saved, now))
}

/// Extends leases. The tasks are locked first, as before every other change to their attempts; then the leases are
/// judged again, because a writer may have changed them meanwhile.
async fn save(db: &Db, seen_at: Timestamp, watcher: Watcher, now: Timestamp) -> Result<usize> {
    let until = now.plus_ms(GRACE_MS);
    let gets = |row: &Row| -> Result<bool> {
        let mut row = row.reader();
        row.skip(2);
        let lease = Lease { granted_s: row.count()?, expires_at: row.time()? };
        Ok(grace(lease, row.time()?, seen_at, watcher, now).is_some())
    };
    let short = "SELECT id, task, lease_s, lease_expires_at, heartbeat_at FROM attempts \
         WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL AND lease_expires_at < $1";
    let mut tasks: Vec<Uuid> = Vec::new();
    for row in &read::all(db, short, &[&until.0]).await? {
        if gets(row)? {
            tasks.push(row.try_get(1)?);
        }
    }
    if tasks.is_empty() {
        return Ok(0);
    }
    let lock = "SELECT id FROM tasks WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE";
    read::all(db, lock, &[&tasks]).await?;
    let mut saved: Vec<Uuid> = Vec::new();
    let again = format!("{short} AND task = ANY ($2)");
    for row in &read::all(db, &again, &[&until.0, &tasks]).await? {
        if gets(row)? {
            saved.push(row.try_get(0)?);
        }
    }
    let sql = "UPDATE attempts SET lease_expires_at = $2 WHERE id = ANY ($1)";
    read::one(db, sql, &[&saved, &until.0]).await?;
    Ok(saved.len())
}
