//! Finding tasks, jobs, mails and plans by a part of their id.

use callboard_domain::ids::{Id, IdKind, TaskId, TaskName};
use tokio_postgres::types::ToSql;

use crate::id_table::{
    ENDS_SEARCHED, begins_with, id_table, newest_first, of_prefix_sql, prefixes_sql,
};
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::SIGN;
use crate::postgres::rows::uuid;
use crate::table::Cells;

/// Tasks that a typed text may mean. The searches go from exact to vague, and the first one that finds anything
/// decides.
pub(crate) async fn task_ids(db: &Db, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    let found = by_name(db, org, typed).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    let found = by_start(db, org, typed, limit).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    let found = by_prefix(db, org, typed, limit).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    by_end(db, org, typed, limit).await
}

/// Ids of one kind within a range, the newest first: an id that was typed in part.
pub(crate) async fn ids(
    db: &Db,
    org: i64,
    kind: IdKind,
    (low, high): (Id, Id),
    limit: usize,
) -> Result<Vec<Id>> {
    let table = id_table(kind);
    let statement = db
        .prepare_cached(&format!(
            "SELECT id FROM {table} WHERE id >= $1 AND id <= $2 AND org = $3 \
             ORDER BY id DESC LIMIT $4",
        ))
        .await?;
    let values: [&(dyn ToSql + Sync); 4] = [&uuid(low), &uuid(high), &org, &(limit as i64)];
    let found = db.query(&statement, &values).await?;
    found.iter().map(|row| row.reader().id()).collect()
}

async fn task_ids_of(db: &Db, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<TaskId>> {
    let statement = db.prepare_cached(sql).await?;
    let found = db.query(&statement, values).await?;
    found.iter().map(|row| row.reader().task()).collect()
}

/// Finds `SHOP-12`; a prefix typed in small letters is tried in capitals too.
async fn by_name(db: &Db, org: i64, typed: &str) -> Result<Vec<TaskId>> {
    let Some(name) = TaskName::parse(typed) else { return Ok(Vec::new()) };
    let sql = "SELECT id, prefix FROM tasks \
         WHERE org = $1 AND prefix = $2 AND number = $3 AND removed_at IS NULL";
    for TaskName { prefix, number } in [name, name.in_capitals()] {
        // The column is an `integer`; a larger number names no task.
        let Ok(number) = i32::try_from(number) else { break };
        let found = task_ids_of(db, sql, &[&org, &prefix.as_str(), &number]).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Finds `PREFIX-01k…` or `01k…`.
async fn by_start(db: &Db, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    let (prefix, rest) = match typed.rsplit_once('-') {
        Some((prefix, rest)) => (Some(prefix), rest),
        None => (None, typed),
    };
    let Some((low, high)) = Id::range(rest) else { return Ok(Vec::new()) };
    task_ids_of(
        db,
        "SELECT id, prefix FROM tasks \
         WHERE id >= $1 AND id <= $2 AND org = $3 AND removed_at IS NULL \
             AND ($4::text IS NULL OR lower(prefix) = lower($4)) \
         ORDER BY id DESC LIMIT $5",
        &[&uuid(low), &uuid(high), &org, &prefix, &(limit as i64)],
    )
    .await
}

/// Finds tasks whose prefix begins with the typed text.
async fn by_prefix(db: &Db, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    let statement = db.prepare_cached(&prefixes_sql(SIGN)).await?;
    let mut found = Vec::new();
    for row in db.query(&statement, &[&org]).await? {
        let prefix = row.reader().text()?;
        if begins_with(&prefix, typed) {
            let values: [&(dyn ToSql + Sync); 3] = [&org, &prefix, &(limit as i64)];
            found.extend(task_ids_of(db, &of_prefix_sql(SIGN), &values).await?);
        }
    }
    Ok(newest_first(found, limit))
}

/// Finds ids by their end: ids made within one minute begin alike, so people remember the end.
async fn by_end(db: &Db, org: i64, typed: &str, limit: usize) -> Result<Vec<TaskId>> {
    if !Id::may_end_with(typed) {
        return Ok(Vec::new());
    }
    let typed = typed.to_ascii_lowercase();
    let recent = task_ids_of(
        db,
        "SELECT id, prefix FROM tasks WHERE org = $1 AND removed_at IS NULL \
         ORDER BY id DESC LIMIT $2",
        &[&org, &ENDS_SEARCHED],
    )
    .await?;
    let ends_so = |id: &TaskId| id.id.to_string().ends_with(&typed);
    Ok(recent.into_iter().filter(ends_so).take(limit).collect())
}
