//! Files, in rows of a fixed size.

use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use crate::file::{PRUNED_MAX, TEXT, cut, rows_of};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::read;
use crate::{FileError, FilePart, FileSpan, NewFile, StoreError};

pub(crate) fn put(db: &mut Connection, file: &NewFile, at: Timestamp) -> Result<(), FileError> {
    let org = read::org(db, &file.org)?;
    match insert(db, org, file, at).map_err(from_sqlite)? {
        true => Ok(()),
        false => Err(FileError::Taken(file.name.clone())),
    }
}

/// Stores an artifact of one row at most, in the transaction of the command that records it. Its name is new.
pub(crate) fn insert_small(
    db: &Connection,
    org: i64,
    name: &str,
    bytes: &[u8],
    at: Timestamp,
) -> rusqlite::Result<()> {
    let values = params![org, name, TEXT, at.0, bytes.len() as i64];
    db.prepare_cached(
        "INSERT INTO files (org, name, media_type, at, size) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(values)?;
    if !bytes.is_empty() {
        db.prepare_cached("INSERT INTO file_parts (file, number, bytes) VALUES (?1, 0, ?2)")?
            .execute(params![db.last_insert_rowid(), bytes])?;
    }
    Ok(())
}

/// Stores a file; `false` when the name is taken.
fn insert(db: &mut Connection, org: i64, file: &NewFile, at: Timestamp) -> rusqlite::Result<bool> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let task = file.task.map(|task| task.id.to_bytes());
    let size = file.bytes.len() as i64;
    let made: Option<i64> = tx
        .query_row(
            "INSERT INTO files (org, task, name, media_type, at, size) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (org, name) DO NOTHING RETURNING id",
            params![org, task, file.name, file.media_type, at.0, size],
            |row| row.get(0),
        )
        .optional()?;
    let Some(id) = made else { return Ok(false) };
    for (number, bytes) in file.parts() {
        tx.execute(
            "INSERT INTO file_parts (file, number, bytes) VALUES (?1, ?2, ?3)",
            params![id, number, bytes],
        )?;
    }
    tx.commit()?;
    Ok(true)
}

pub(crate) fn get(
    db: &Connection,
    org: i64,
    name: &str,
    span: FileSpan,
) -> rusqlite::Result<Option<FilePart>> {
    let head = |row: &Row<'_>| {
        let size = row.get::<_, i64>(3)?.unsigned_abs();
        let (media_type, at) = (row.get(1)?, Timestamp(row.get(2)?));
        let start = span.within(size).start;
        let part = FilePart { media_type, at, size, start, bytes: Vec::new() };
        Ok((row.get::<_, i64>(0)?, part))
    };
    let found = db
        .prepare_cached("SELECT id, media_type, at, size FROM files WHERE org = ?1 AND name = ?2")?
        .query_row(params![org, name], head)
        .optional()?;
    let Some((id, part)) = found else { return Ok(None) };
    let wanted = span.within(part.size);
    let (first, last) = rows_of(&wanted);
    let rows: rusqlite::Result<Vec<Vec<u8>>> = db
        .prepare_cached(
            "SELECT bytes FROM file_parts WHERE file = ?1 AND number BETWEEN ?2 AND ?3 \
             ORDER BY number",
        )?
        .query_map(params![id, first, last], |row| row.get(0))?
        .collect();
    Ok(cut(rows?, &wanted).map(|bytes| FilePart { bytes, ..part }))
}

pub(crate) fn prune(
    db: &mut Connection,
    under: &str,
    before: Timestamp,
) -> Result<usize, StoreError> {
    db.execute(
        "DELETE FROM files WHERE id IN (SELECT id FROM files \
             WHERE at < ?1 AND substr(name, 1, length(?2)) = ?2 ORDER BY at LIMIT ?3)",
        params![before.0, under, PRUNED_MAX],
    )
    .map_err(from_sqlite)
}
