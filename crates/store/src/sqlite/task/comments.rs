//! Comments: reads and writes.

use callboard_domain::ids::TaskId;
use callboard_domain::task::comment::{Comment, CommentId};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::sqlite::rows;
use crate::table::Cells;
use crate::table::comment::{self, COMMENT, STEPS};

/// A comment of a removed task is not found.
pub(crate) fn find(db: &Connection, org: i64, id: CommentId) -> Result<Option<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.id = ?1 AND t.org = ?2 AND t.removed_at IS NULL");
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], comment).optional()
}

pub(crate) fn open_blockers(db: &Connection, task: TaskId) -> Result<Vec<Comment>> {
    let sql = format!(
        "SELECT {COMMENT} WHERE c.task = ?1 AND c.kind = 'blocker' AND c.resolved_at IS NULL \
         ORDER BY c.id"
    );
    db.prepare_cached(&sql)?.query_map([task.id.to_bytes()], comment)?.collect()
}

/// The newest comments of a task. Ids rise with time, so their order is that of creation.
pub(crate) fn of_task(db: &Connection, task: TaskId, limit: usize) -> Result<Vec<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.task = ?1 ORDER BY c.id DESC LIMIT ?2");
    let values = params![task.id.to_bytes(), limit as i64];
    db.prepare_cached(&sql)?.query_map(values, comment)?.collect()
}

fn comment(row: &Row<'_>) -> Result<Comment> {
    comment::read(&mut row.reader())
}

pub(crate) fn insert(db: &Connection, comment: &Comment) -> Result<()> {
    rows::insert(db, &comment::values(comment), "")
}

/// Updates the resolution; nothing else of a comment ever changes.
pub(crate) fn update(db: &Connection, comment: &Comment) -> Result<()> {
    rows::update(db, &comment::values(comment), "id", &STEPS)
}
