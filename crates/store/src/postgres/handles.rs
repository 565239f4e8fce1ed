//! Handles of calls that outlive their request.

use std::collections::HashMap;

use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::handles::{Columns, STEPS};
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::rows::uuid;
use crate::postgres::{json, read};
use crate::table::Cells;
use crate::table::handle::{self, HANDLE, HANDLE_FROM, HANDLES};

/// Stores a handle. Idempotent: an existing id is this handle's.
pub(crate) async fn add(db: &Db, org: i64, handle: &Handle) -> Result<()> {
    let columns = Columns::of(&handle.state);
    let known = "ON CONFLICT (id) DO NOTHING";
    Ok(json::insert(db, &handle::values(Some(org), handle, &columns), known).await?)
}

pub(crate) async fn find(db: &Db, id: HandleId) -> Result<Option<Handle>> {
    let sql = format!("SELECT {HANDLE} FROM {HANDLE_FROM} WHERE h.id = $1");
    read::one(db, &sql, &[&uuid(id.0)]).await?.as_ref().map(handle).transpose()
}

/// Changes handles; needs a transaction. Idempotent: a change that was made before changes nothing.
pub(crate) async fn change(
    db: &Db,
    changes: &[(HandleId, HandleChange)],
    now: Timestamp,
) -> Result<Vec<Handle>> {
    let ids: Vec<Uuid> = changes.iter().map(|(id, _)| uuid(id.0)).collect();
    // Rows are locked in one order everywhere, so that two transactions cannot deadlock.
    let sql = format!(
        "SELECT {HANDLE} FROM {HANDLE_FROM} WHERE h.id = ANY($1) ORDER BY h.id \
         FOR NO KEY UPDATE OF h"
    );
    let mut found = HashMap::with_capacity(ids.len());
    for row in read::all(db, &sql, &[&ids]).await? {
        let handle = handle(&row)?;
        found.insert(handle.id, handle);
    }
    let (mut handles, mut news) = (Vec::with_capacity(found.len()), Vec::new());
    for (id, change) in changes {
        let Some(found) = found.remove(id) else { continue };
        let next = found.after(change.clone(), now);
        if let Some(next) = &next {
            let columns = Columns::of(&next.state);
            news.push(json::object(&handle::values(None, next, &columns)));
        }
        handles.push(next.unwrap_or(found));
    }
    let sql = json::update_sql(&HANDLES, "id", &STEPS);
    json::run(db, &db.prepare_cached(&sql).await?, news).await?;
    Ok(handles)
}

/// Deletes expired handles. One whose runner is alive stays: its call has not answered yet.
pub(crate) async fn prune(db: &Db, before: Timestamp) -> Result<()> {
    let sql = "DELETE FROM handles WHERE expires_at < $1 \
         AND (alive_until IS NULL OR alive_until < $1)";
    read::one(db, sql, &[&before.0]).await?;
    Ok(())
}

fn handle(row: &Row) -> Result<Handle> {
    handle::read(&mut row.reader())
}
