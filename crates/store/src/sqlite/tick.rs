//! Whether the leases were watched, judged inside a write transaction before any command in it is
//! decided. The rule is `callboard_domain::task::watch`.

use callboard_domain::task::attempt::Lease;
use callboard_domain::task::watch::{GRACE_MS, Watcher, grace, is_unwatched};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use crate::sqlite::Shared;

/// Whether there is a lease to watch.
/// A server ticks every 10 seconds; without a live lease that need not write anything.
pub(crate) fn is_needed(db: &Connection) -> Result<bool> {
    let sql =
        "SELECT 1 FROM attempts WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL LIMIT 1";
    Ok(db.prepare_cached(sql)?.query_row([], |_| Ok(())).optional()?.is_some())
}

/// When a process last reported that it watches; 0 when none ever did.
pub(crate) fn ticked_at(db: &Connection) -> Result<i64> {
    let at = db.prepare_cached("SELECT at FROM ticks")?.query_row([], |row| row.get(0)).optional();
    at.map(Option::unwrap_or_default)
}

/// Gives grace to the holders that had no way to keep their leases. Returns how many there were.
pub(crate) fn judge(
    db: &Connection,
    shared: &Shared,
    ticked_at: i64,
    now: Timestamp,
) -> Result<usize> {
    let seen_at = shared.watch.seen_at(ticked_at, Some(&*shared.clock));
    if !is_unwatched(seen_at, now) {
        return Ok(0);
    }
    let watcher = shared.watch.watcher();
    let saved = save(db, seen_at, watcher, now)?;
    if saved > 0 {
        tracing::warn!(saved, "no process watched the leases for a while; holders got more time");
    }
    // The store keeps the time that the grace counts from, as it keeps that of an event.
    if saved > 0 || watcher == Watcher::Stays {
        put(db, now)?;
    }
    Ok(saved)
}

/// Only leases that end within the grace are read: no other can become longer by it.
fn save(db: &Connection, seen_at: Timestamp, watcher: Watcher, now: Timestamp) -> Result<usize> {
    let lease = |row: &Row<'_>| {
        let lease = Lease { granted_s: row.get(1)?, expires_at: Timestamp(row.get(2)?) };
        Ok((row.get::<_, [u8; 16]>(0)?, lease, Timestamp(row.get(3)?)))
    };
    let short: Vec<_> = db
        .prepare_cached(
            "SELECT id, lease_s, lease_expires_at, heartbeat_at FROM attempts \
             WHERE ended_at IS NULL AND lease_expires_at < ?1",
        )?
        .query_map([now.plus_ms(GRACE_MS).0], lease)?
        .collect::<Result<_>>()?;
    let mut saved = 0;
    for (id, lease, heartbeat_at) in short {
        if let Some(until) = grace(lease, heartbeat_at, seen_at, watcher, now) {
            let sql = "UPDATE attempts SET lease_expires_at = ?2 WHERE id = ?1";
            saved += db.prepare_cached(sql)?.execute(params![id, until.0])?;
        }
    }
    Ok(saved)
}

fn put(db: &Connection, now: Timestamp) -> Result<()> {
    db.execute(
        "INSERT INTO ticks (one, at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at = excluded.at",
        [now.0],
    )?;
    Ok(())
}

/// Records that this process watches. Returns how many holders got grace first.
pub(crate) fn tick(db: &mut Connection, shared: &Shared) -> Result<usize> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let ticked_at = ticked_at(&tx)?;
    // A tick of another process may be ahead of this machine's clock. The store's time never goes back behind it.
    shared.has_seen(ticked_at);
    let now = shared.now();
    let saved = judge(&tx, shared, ticked_at, now)?;
    put(&tx, now)?;
    tx.commit()?;
    // After the commit: a rollback would leave holders without the grace that this process believes it gave.
    shared.watch.judged(now);
    Ok(saved)
}
