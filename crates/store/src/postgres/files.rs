//! Files, in rows of a fixed size.

use callboard_domain::time::Timestamp;

use crate::file::{PRUNED_MAX, cut, rows_of};
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read;
use crate::postgres::rows::uuid;
use crate::{FilePart, FileSpan, NewFile};

/// Stores a file; needs a transaction. `false` when the name is taken.
pub(crate) async fn put(db: &Db, org: i64, file: &NewFile, at: Timestamp) -> Result<bool> {
    let task = file.task.map(|task| uuid(task.id));
    let size = file.bytes.len() as i64;
    let made = read::one(
        db,
        "INSERT INTO files (org, task, name, media_type, at, size) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org, name) DO NOTHING RETURNING id",
        &[&org, &task, &file.name, &file.media_type, &at.0, &size],
    )
    .await?;
    // A file never changes, so a taken name is answered and nothing is overwritten.
    let Some(made) = made else { return Ok(false) };
    let id: i64 = made.try_get(0)?;
    let part = "INSERT INTO file_parts (file, number, bytes) VALUES ($1, $2, $3)";
    let part = db.prepare_cached(part).await?;
    for (number, bytes) in file.parts() {
        db.execute(&part, &[&id, &number, &bytes]).await?;
    }
    Ok(true)
}

pub(crate) async fn get(db: &Db, org: i64, name: &str, span: FileSpan) -> Result<Option<FilePart>> {
    let head = "SELECT id, media_type, at, size FROM files WHERE org = $1 AND name = $2";
    let Some(head) = read::one(db, head, &[&org, &name]).await? else { return Ok(None) };
    let id: i64 = head.try_get(0)?;
    let size = head.try_get::<_, i64>(3)?.unsigned_abs();
    let wanted = span.within(size);
    // Only the rows of 256 KiB that hold the span: the end of a long log costs no more than that of a short one.
    let (first, last) = rows_of(&wanted);
    let rows = read::all(
        db,
        "SELECT bytes FROM file_parts WHERE file = $1 AND number BETWEEN $2 AND $3 \
         ORDER BY number",
        &[&id, &first, &last],
    )
    .await?;
    let rows = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_>>()?;
    // A row is missing: the file was pruned between the two statements.
    let Some(bytes) = cut(rows, &wanted) else { return Ok(None) };
    Ok(Some(FilePart {
        media_type: head.try_get(1)?,
        at: Timestamp(head.try_get(2)?),
        size,
        start: wanted.start,
        bytes,
    }))
}

pub(crate) async fn prune(db: &Db, under: &str, before: Timestamp) -> Result<usize> {
    let sql = "DELETE FROM files WHERE id IN (SELECT id FROM files \
             WHERE at < $1 AND starts_with(name, $2) ORDER BY at LIMIT $3)";
    let sql = db.prepare_cached(sql).await?;
    Ok(db.execute(&sql, &[&before.0, &under, &PRUNED_MAX]).await? as usize)
}
