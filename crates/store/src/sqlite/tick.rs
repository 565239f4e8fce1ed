//! Whether somebody watched over the leases. A machine that slept, or a store nobody had open, must
//! not cost an agent its task: who was in time when the watch ended gets time to speak again.

use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior, params};

use crate::{GRACE_MS, UNWATCHED_MAX_MS};

/// Every commit shows that the store was in use, so the newest event counts as a tick.
fn last(db: &Connection) -> Result<Option<i64>> {
    db.query_row(
        "SELECT max(at) FROM (SELECT at FROM ticks \
         UNION ALL SELECT at FROM (SELECT at FROM events ORDER BY seq DESC LIMIT 1))",
        [],
        |row| row.get(0),
    )
}

/// Whether there is a lease to watch over.
pub(super) fn is_needed(db: &Connection) -> Result<bool> {
    let sql =
        "SELECT 1 FROM attempts WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL LIMIT 1";
    Ok(db.prepare_cached(sql)?.query_row([], |_| Ok(())).optional()?.is_some())
}

pub(super) fn tick(db: &mut Connection, now: Timestamp) -> Result<usize> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let last = last(&tx)?.unwrap_or(now.0);
    let unwatched = now.ms_since(Timestamp(last)) > UNWATCHED_MAX_MS;
    let saved = if unwatched {
        tx.execute(
            "UPDATE attempts SET lease_expires_at = ?2 \
             WHERE ended_at IS NULL AND lease_expires_at > ?1 AND lease_expires_at < ?2",
            params![last, now.plus_ms(GRACE_MS).0],
        )?
    } else {
        0
    };
    tx.execute(
        "INSERT INTO ticks (one, at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at = excluded.at",
        [now.0],
    )?;
    tx.commit()?;
    Ok(saved)
}
