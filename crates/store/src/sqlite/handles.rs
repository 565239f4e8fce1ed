//! Handles of calls that outlive their request.

use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior};

use crate::StoreError;
use crate::handles::{Columns, STEPS};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{read, rows};
use crate::table::Cells;
use crate::table::handle::{self, HANDLE, HANDLE_FROM};

/// The id was made by this process and is not known yet, so a conflict would be a fault.
pub(crate) fn add(db: &Connection, handle: &Handle) -> Result<(), StoreError> {
    let org = read::org(db, &handle.org)?;
    let columns = Columns::of(&handle.state);
    rows::insert(db, &handle::values(Some(org), handle, &columns), "").map_err(from_sqlite)
}

pub(crate) fn find(db: &Connection, id: HandleId) -> Result<Option<Handle>> {
    db.prepare_cached(&format!("SELECT {HANDLE} FROM {HANDLE_FROM} WHERE h.id = ?1"))?
        .query_row([id.0.to_bytes()], handle)
        .optional()
}

/// Carries out changes in one transaction. A handle that is unknown is left out of the answer, and one to which the
/// change does nothing, because its call is over, is answered as it stands.
pub(crate) fn change(
    db: &mut Connection,
    changes: Vec<(HandleId, HandleChange)>,
    now: Timestamp,
) -> Result<Vec<Handle>> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut handles = Vec::with_capacity(changes.len());
    for (id, change) in changes {
        let Some(found) = find(&tx, id)? else { continue };
        let next = found.after(change, now);
        if let Some(next) = &next {
            write(&tx, next)?;
        }
        handles.push(next.unwrap_or(found));
    }
    tx.commit()?;
    Ok(handles)
}

fn write(db: &Connection, handle: &Handle) -> Result<()> {
    let columns = Columns::of(&handle.state);
    rows::update(db, &handle::values(None, handle, &columns), "id", &STEPS)
}

/// Deletes expired handles. One whose runner is alive stays: its call has not answered yet.
pub(crate) fn prune(db: &Connection, before: Timestamp) -> Result<()> {
    db.execute(
        "DELETE FROM handles WHERE expires_at < ?1 \
         AND (alive_until IS NULL OR alive_until < ?1)",
        [before.0],
    )?;
    Ok(())
}

fn handle(row: &Row<'_>) -> Result<Handle> {
    handle::read(&mut row.reader())
}
