//! Comments: reads.

use callboard_domain::comment::{Comment, CommentId, CommentKind, Resolved};
use callboard_domain::ids::TaskId;
use callboard_domain::limits::COMMENTS_SHOWN_MAX;
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::Shared;
use super::db::Db;
use super::errors::Trouble;
use super::read;
use super::rows::{self, uuid};
use crate::StoreError;

type Result<T> = std::result::Result<T, Trouble>;

pub(super) const COMMENT: &str = "c.id, c.task, t.prefix, c.kind, c.body, c.rationale, c.parent, \
     c.author, c.created_at, c.resolved_at, c.resolved_by, c.resolution \
     FROM comments c JOIN tasks t ON t.id = c.task";

/// Comments of a task, the newest first.
pub(super) async fn list(
    shared: &Shared,
    org: &str,
    task: TaskId,
) -> std::result::Result<Vec<Comment>, StoreError> {
    shared
        .read(|db| async move { of_task(&db, shared.orgs.get(&db, org).await?, task).await })
        .await
}

pub(super) async fn get(
    shared: &Shared,
    org: &str,
    id: CommentId,
) -> std::result::Result<Option<Comment>, StoreError> {
    shared.read(|db| async move { find(&db, shared.orgs.get(&db, org).await?, id).await }).await
}

async fn find(db: &Db, org: i64, id: CommentId) -> Result<Option<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.id = $1 AND t.org = $2 AND t.removed_at IS NULL");
    read::one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(comment).transpose()
}

async fn of_task(db: &Db, org: i64, task: TaskId) -> Result<Vec<Comment>> {
    let sql = format!(
        "SELECT {COMMENT} WHERE c.task = $1 AND t.org = $2 AND t.prefix = $3 \
             AND t.removed_at IS NULL \
         ORDER BY c.id DESC LIMIT {COMMENTS_SHOWN_MAX}"
    );
    let found = read::all(db, &sql, &[&uuid(task.id), &org, &task.prefix.as_str()]).await?;
    found.iter().map(comment).collect()
}

pub(super) fn comment(row: &Row) -> Result<Comment> {
    let resolved_at: Option<i64> = row.try_get(9)?;
    Ok(Comment {
        id: CommentId(rows::id(row, 0)?),
        task: rows::task_id(row, 1, 2)?,
        kind: CommentKind::parse(row.try_get(3)?).ok_or_else(|| rows::damaged("kind"))?,
        body: row.try_get(4)?,
        rationale: row.try_get(5)?,
        parent: rows::optional_id(row, 6)?.map(CommentId),
        author: rows::actor(row, 7)?,
        created_at: rows::time(row, 8)?,
        resolved: match resolved_at {
            None => None,
            Some(at) => Some(Resolved {
                at: Timestamp(at),
                by: rows::actor(row, 10)?,
                words: row.try_get(11)?,
            }),
        },
    })
}
