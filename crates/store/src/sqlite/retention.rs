//! What grows, in the embedded store, and pages that are given back to the disk.

use async_trait::async_trait;
use callboard_domain::ids::Id;
use callboard_domain::retention::LogFloor;
use rusqlite::{Connection, Result, Row, ToSql, TransactionBehavior};

use crate::retention::{self, Grown, Looked, OldRow, PruneStep, Pruned, RowKey, Space};
use crate::sqlite::SqliteStore;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::read::SIGN;
use crate::table::Cells;
use crate::{RetentionStore, StoreError};

/// SQLite's number for `auto_vacuum = INCREMENTAL`.
const INCREMENTAL: i64 = 2;

fn key_value(key: RowKey) -> Box<dyn ToSql> {
    match key {
        RowKey::Number(number) => Box::new(number),
        RowKey::Id(id) => Box::new(id.to_bytes()),
    }
}

fn look(db: &Connection, step: &PruneStep) -> Result<Looked> {
    let first = match retention::is_numbered(step.kind) {
        true => RowKey::Number(0),
        false => RowKey::Id(Id(0)),
    };
    let after = key_value(step.after.unwrap_or(first));
    let row = |row: &Row<'_>| retention::read(step.kind, &mut row.reader());
    let rows: Vec<OldRow> = db
        .prepare_cached(&retention::walk(step.kind, SIGN))?
        .query_map([&*after, &(step.limit as i64)], row)?
        .collect::<Result<_>>()?;
    Ok(Looked::of(&rows, step))
}

/// Judges the rows again, because they may have changed since the look, and deletes them.
fn remove(db: &mut Connection, step: &PruneStep) -> Result<Pruned> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let looked = look(&tx, step)?;
    for (table, key) in retention::tables(step.kind) {
        let mut delete = tx.prepare_cached(&format!("DELETE FROM {table} WHERE {key} = ?1"))?;
        for going in &looked.going {
            delete.execute([&*key_value(*going)])?;
        }
    }
    if let Some(floor) = looked.floor() {
        tx.execute(&retention::raise(SIGN), [floor, looked.going_at.0])?;
    }
    tx.commit()?;
    Ok(looked.pruned())
}

fn pragma(db: &Connection, name: &str) -> Result<i64> {
    db.pragma_query_value(None, name, |row| row.get(0))
}

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn log_floor(&self) -> std::result::Result<LogFloor, StoreError> {
        self.shared.look_up(|db| {
            let floor = |row: &Row<'_>| retention::read_floor(&mut row.reader());
            db.prepare_cached(retention::FLOOR)?.query_row([], floor)
        })
    }

    async fn prune(&self, step: PruneStep) -> std::result::Result<Pruned, StoreError> {
        // Most steps find nothing that goes, and need no turn at the writer.
        let asked = step.clone();
        let looked = self.read(move |db, _| look(db, &asked).map_err(from_sqlite)).await?;
        match step.removes && !looked.going.is_empty() {
            true => self.on_writer(move |db| remove(db, &step).map_err(from_sqlite)).await,
            false => Ok(looked.pruned()),
        }
    }

    async fn grown(&self) -> std::result::Result<Vec<Grown>, StoreError> {
        self.read(|db, _| {
            let measure = |(kind, sql): (&'static str, String)| {
                db.query_row(&sql, [], |row| retention::read_grown(kind, &mut row.reader()))
            };
            retention::grown().map(measure).collect::<Result<_>>().map_err(from_sqlite)
        })
        .await
    }

    async fn space(&self) -> std::result::Result<Space, StoreError> {
        self.shared.look_up(|db| {
            let page = pragma(db, "page_size")?;
            Ok(Space {
                bytes: (pragma(db, "page_count")? * page).unsigned_abs(),
                free_bytes: (pragma(db, "freelist_count")? * page).unsigned_abs(),
                shrinks: pragma(db, "auto_vacuum")? == INCREMENTAL,
            })
        })
    }

    async fn pages_give_back(&self, pages_max: u32) -> std::result::Result<u64, StoreError> {
        let is_free = self.shared.look_up(|db| {
            Ok(pragma(db, "freelist_count")? > 0 && pragma(db, "auto_vacuum")? == INCREMENTAL)
        })?;
        if !is_free {
            return Ok(0);
        }
        let give_back = move |db: &mut Connection| -> Result<u64> {
            let before = pragma(db, "freelist_count")?;
            // Each step of the statement gives one page back, and all of them are one transaction.
            let mut give = db.prepare(&format!("PRAGMA incremental_vacuum({pages_max})"))?;
            let mut pages = give.query([])?;
            while pages.next()?.is_some() {}
            Ok((before - pragma(db, "freelist_count")?).unsigned_abs())
        };
        self.on_writer(move |db| give_back(db).map_err(from_sqlite)).await
    }
}
