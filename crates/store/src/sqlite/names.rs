//! Names of open tasks for the completion of a shell. The file is opened for reading alone: nothing is migrated, no
//! writer starts and no lock is waited for, because a shell asks at every press of a key.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

/// A task as a shell offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// The short name, such as `SHOP-7`.
    pub name: String,
    pub title: String,
}

/// The newest open tasks of an org whose short names begin with `typed`, in any case; none when the file cannot be read,
/// is of another version, or is locked.
pub fn task_names(database: &Path, org: &str, typed: &str, limit: usize) -> Vec<TaskName> {
    read(database, org, typed, limit).unwrap_or_default()
}

fn read(database: &Path, org: &str, typed: &str, limit: usize) -> rusqlite::Result<Vec<TaskName>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(database, flags)?;
    // A locked file gives no names; a wait would let the shell hang.
    db.busy_timeout(std::time::Duration::ZERO)?;
    let sql = "SELECT t.prefix || '-' || t.number, t.title \
               FROM tasks t JOIN orgs o ON o.id = t.org AND o.name = ?1 \
               WHERE t.removed_at IS NULL AND t.phase NOT IN ('closed_done', 'closed_canceled') \
                   AND substr(t.prefix || '-' || t.number, 1, length(?2)) = upper(?2) \
               ORDER BY t.id DESC LIMIT ?3";
    let name = |row: &rusqlite::Row<'_>| Ok(TaskName { name: row.get(0)?, title: row.get(1)? });
    let mut statement = db.prepare(sql)?;
    let found = statement.query_map(params![org, typed, limit as i64], name)?;
    found.collect()
}
