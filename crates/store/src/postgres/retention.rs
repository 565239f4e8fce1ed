//! What grows, in the shared store.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::ids::Id;
use callboard_domain::retention::LogFloor;
use uuid::Uuid;

use crate::postgres::connections::TRANSACTION;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::SIGN;
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, read};
use crate::retention::{self, Grown, Looked, OldRow, PruneStep, Pruned, RowKey, Space};
use crate::table::Cells;
use crate::{RetentionStore, StoreError};

async fn look(db: &Db, step: &PruneStep) -> Result<Looked> {
    let (sql, limit) = (retention::walk(step.kind, SIGN), step.limit as i64);
    let rows = match (step.after, retention::is_numbered(step.kind)) {
        (Some(RowKey::Number(after)), _) => read::all(db, &sql, &[&after, &limit]).await?,
        (Some(RowKey::Id(after)), _) => read::all(db, &sql, &[&uuid(after), &limit]).await?,
        (None, true) => read::all(db, &sql, &[&0_i64, &limit]).await?,
        (None, false) => read::all(db, &sql, &[&uuid(Id(0)), &limit]).await?,
    };
    let row = |row: &tokio_postgres::Row| retention::read(step.kind, &mut row.reader());
    let rows: Vec<OldRow> = rows.iter().map(row).collect::<Result<_>>()?;
    Ok(Looked::of(&rows, step))
}

/// Judges the rows again and deletes them; needs a transaction. May be repeated.
async fn remove(db: &Db, step: &PruneStep) -> Result<Pruned> {
    // One pruner at a time: two of them would wait for each other's rows.
    read::one(db, "SELECT 1 FROM log_floor FOR UPDATE", &[]).await?;
    let looked = look(db, step).await?;
    let (mut numbers, mut ids): (Vec<i64>, Vec<Uuid>) = Default::default();
    for going in &looked.going {
        match going {
            RowKey::Number(number) => numbers.push(*number),
            RowKey::Id(id) => ids.push(uuid(*id)),
        }
    }
    for (table, key) in retention::tables(step.kind) {
        let delete = format!("DELETE FROM {table} WHERE {key} = ANY($1)");
        match retention::is_numbered(step.kind) {
            true => read::one(db, &delete, &[&numbers]).await?,
            false => read::one(db, &delete, &[&ids]).await?,
        };
    }
    if let Some(floor) = looked.floor() {
        read::one(db, &retention::raise(SIGN), &[&floor, &looked.going_at.0]).await?;
    }
    Ok(looked.pruned())
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn log_floor(&self) -> std::result::Result<LogFloor, StoreError> {
        let floor = |db: Arc<Db>| async move {
            let row = read::one(&db, retention::FLOOR, &[]).await?;
            let whole = LogFloor { seq: 1, at: Default::default() };
            row.map_or(Ok(whole), |row| retention::read_floor(&mut row.reader()))
        };
        self.shared.read(floor).await
    }

    async fn prune(&self, step: PruneStep) -> std::result::Result<Pruned, StoreError> {
        let step = &step;
        let looked = self.shared.read(|db: Arc<Db>| async move { look(&db, step).await }).await?;
        if !step.removes || looked.going.is_empty() {
            return Ok(looked.pruned());
        }
        let remove = |db: Arc<Db>| async move { remove(&db, step).await };
        Ok(self.shared.connections.run(&TRANSACTION, remove).await?)
    }

    async fn grown(&self) -> std::result::Result<Vec<Grown>, StoreError> {
        let measure = |db: Arc<Db>| async move {
            let mut grown = Vec::new();
            for (kind, sql) in retention::grown() {
                if let Some(row) = read::one(&db, &sql, &[]).await? {
                    grown.push(retention::read_grown(kind, &mut row.reader())?);
                }
            }
            Ok(grown)
        };
        self.shared.read(measure).await
    }

    /// PostgreSQL reuses the space of removed rows itself.
    async fn space(&self) -> std::result::Result<Space, StoreError> {
        let sql = "SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bigint) \
             FROM pg_class c WHERE c.relnamespace = to_regnamespace(current_schema()::text) \
                 AND c.relkind = 'r'";
        let size = |db: Arc<Db>| async move {
            let row = read::one(&db, sql, &[]).await?;
            let bytes: i64 = row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
            Ok(Space { bytes: bytes.unsigned_abs(), free_bytes: 0, shrinks: true })
        };
        self.shared.read(size).await
    }

    async fn pages_give_back(&self, _: u32) -> std::result::Result<u64, StoreError> {
        Ok(0)
    }
}
