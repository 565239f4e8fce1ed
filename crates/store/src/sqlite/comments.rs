//! Comments: reads and writes.

use callboard_domain::comment::{Comment, CommentId, CommentKind, Resolved};
use callboard_domain::ids::TaskId;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::rows;

const COMMENT: &str = "c.id, c.task, t.prefix, c.kind, c.body, c.rationale, c.parent, c.author, \
     c.created_at, c.resolved_at, c.resolved_by, c.resolution \
     FROM comments c JOIN tasks t ON t.id = c.task";

pub(super) fn find(db: &Connection, org: i64, id: CommentId) -> Result<Option<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.id = ?1 AND t.org = ?2 AND t.removed_at IS NULL");
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], comment).optional()
}

pub(super) fn open_blockers(db: &Connection, task: TaskId) -> Result<Vec<Comment>> {
    let sql = format!(
        "SELECT {COMMENT} WHERE c.task = ?1 AND c.kind = 'blocker' AND c.resolved_at IS NULL \
         ORDER BY c.id"
    );
    db.prepare_cached(&sql)?.query_map([task.id.to_bytes()], comment)?.collect()
}

pub(super) fn of_task(db: &Connection, task: TaskId, limit: usize) -> Result<Vec<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.task = ?1 ORDER BY c.id DESC LIMIT ?2");
    let values = params![task.id.to_bytes(), limit as i64];
    db.prepare_cached(&sql)?.query_map(values, comment)?.collect()
}

fn comment(row: &Row<'_>) -> Result<Comment> {
    let kind = row.get_ref(3)?.as_str()?;
    let resolved_at: Option<i64> = row.get(9)?;
    Ok(Comment {
        id: CommentId(rows::id(row, 0)?),
        task: rows::task_id(row, 1, 2)?,
        kind: CommentKind::parse(kind).ok_or_else(|| rows::damaged(3, "kind"))?,
        body: row.get(4)?,
        rationale: row.get(5)?,
        parent: rows::optional_id(row, 6)?.map(CommentId),
        author: rows::actor(row, 7)?,
        created_at: rows::time(row, 8)?,
        resolved: match resolved_at {
            None => None,
            Some(at) => {
                Some(Resolved { at: Timestamp(at), by: rows::actor(row, 10)?, words: row.get(11)? })
            }
        },
    })
}

pub(super) fn insert(db: &Connection, comment: &Comment) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO comments (id, task, kind, body, rationale, parent, author, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        comment.id.0.to_bytes(),
        comment.task.id.to_bytes(),
        comment.kind.as_str(),
        comment.body,
        comment.rationale,
        comment.parent.map(|parent| parent.0.to_bytes()),
        comment.author.as_str(),
        comment.created_at.0,
    ])?;
    Ok(())
}

/// Updates the resolution; nothing else of a comment ever changes.
pub(super) fn update(db: &Connection, comment: &Comment) -> Result<()> {
    let resolved = comment.resolved.as_ref();
    db.prepare_cached(
        "UPDATE comments SET resolved_at = ?2, resolved_by = ?3, resolution = ?4 WHERE id = ?1",
    )?
    .execute(params![
        comment.id.0.to_bytes(),
        resolved.map(|resolved| resolved.at.0),
        resolved.map(|resolved| resolved.by.as_str()),
        resolved.and_then(|resolved| resolved.words.as_ref()),
    ])?;
    Ok(())
}
