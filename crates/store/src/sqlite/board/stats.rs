//! The counts of each day, in the embedded store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use callboard_domain::board::stats::{Attributed, DayCounts};
use rusqlite::{Connection, Result, Row, TransactionBehavior, params};

use crate::board::stats::{self, DaysKept};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::read::SIGN;
use crate::sqlite::{SqliteStore, read};
use crate::table::Cells;
use crate::{StatsStore, StoreError};

/// Counts the next events into the sums of their days, at most `limit`, and returns how many there were. The position
/// moves in the same transaction, so each event counts once whichever process counts it.
fn count(db: &mut Connection, limit: u64) -> Result<u64> {
    let turn = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "SELECT seq FROM day_counts_position";
    let position: i64 = turn.query_row(sql, [], |row| row.get(0))?;
    let newest = read::last_seq(&turn)? as i64;
    let to = newest.min(position.saturating_add(limit as i64));
    if to <= position {
        return Ok(0);
    }
    let mut orgs: BTreeMap<i64, DayCounts> = BTreeMap::new();
    {
        let mut found = turn.prepare_cached(&stats::measurable(SIGN, false))?;
        let mut rows = found.query([position, to])?;
        while let Some(row) = rows.next()? {
            let (org, event) = stats::read(&mut row.reader())?;
            orgs.entry(org).or_default().measure(&event);
        }
        let mut put = turn.prepare_cached(&stats::put(SIGN))?;
        for (org, counts) in &orgs {
            for (day, measure, bucket, many) in counts.rows() {
                put.execute(params![org, day, measure.as_str(), bucket, many as i64])?;
            }
        }
    }
    turn.execute("UPDATE day_counts_position SET seq = ?1", [to])?;
    turn.commit()?;
    Ok((to - position) as u64)
}

/// The sums of an org from a day on.
fn kept(db: &Connection, org: i64, from: i64) -> Result<DaysKept> {
    let mut days = DaysKept::default();
    let mut found = db.prepare_cached(&stats::kept(SIGN))?;
    let mut rows = found.query([org, from])?;
    while let Some(row) = rows.next()? {
        stats::read_kept(&mut row.reader(), &mut days)?;
    }
    Ok(days)
}

/// The sums of events that are not counted yet, so that a page shows them too.
fn ahead(db: &Connection, org: i64, after: u64, to: u64) -> Result<DayCounts> {
    let mut counts = DayCounts::default();
    let event = |row: &Row<'_>| stats::read(&mut row.reader());
    let mut found = db.prepare_cached(&stats::measurable(SIGN, true))?;
    for event in found.query_map([after as i64, to as i64, org], event)? {
        counts.measure(&event?.1);
    }
    Ok(counts)
}

#[async_trait]
impl StatsStore for SqliteStore {
    async fn days_count(&self, limit: u64) -> std::result::Result<u64, StoreError> {
        // A look without the writer's turn, which most ticks end with.
        let is_counted = self.shared.look_up(|db| {
            let sql = "SELECT seq FROM day_counts_position";
            let position: i64 = db.query_row(sql, [], |row| row.get(0))?;
            Ok(read::last_seq(db)? as i64 <= position)
        })?;
        match is_counted {
            true => Ok(0),
            false => self.on_writer(move |db| count(db, limit).map_err(from_sqlite)).await,
        }
    }

    async fn days(&self, org: &str, from: i64) -> std::result::Result<DaysKept, StoreError> {
        self.shared.read_in(org, |db, org, _| kept(db, org, from).map_err(from_sqlite))
    }

    async fn days_ahead(
        &self,
        org: &str,
        after: u64,
        to: u64,
    ) -> std::result::Result<DayCounts, StoreError> {
        let org = org.to_owned();
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            ahead(db, org, after, to).map_err(from_sqlite)
        })
        .await
    }

    async fn days_attributed(
        &self,
        org: &str,
        after: u64,
        to: u64,
    ) -> std::result::Result<Vec<Attributed>, StoreError> {
        let org = org.to_owned();
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            let found = || -> Result<Vec<Attributed>> {
                let event = |row: &Row<'_>| stats::read_attributed(&mut row.reader());
                db.prepare_cached(&stats::attributed(SIGN))?
                    .query_map([after as i64, to as i64, org], event)?
                    .collect()
            };
            found().map_err(from_sqlite)
        })
        .await
    }
}
