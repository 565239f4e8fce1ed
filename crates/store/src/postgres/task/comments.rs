//! Comments: reads.

use callboard_domain::ids::TaskId;
use callboard_domain::limits::COMMENTS_SHOWN_MAX;
use callboard_domain::task::comment::{Comment, CommentId};
use tokio_postgres::Row;

use crate::StoreError;
use crate::postgres::Shared;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read;
use crate::postgres::rows::uuid;
use crate::table::Cells;
use crate::table::comment::{self, COMMENT};

/// Comments of a task, the newest first.
pub(crate) async fn list(
    shared: &Shared,
    org: &str,
    task: TaskId,
) -> std::result::Result<Vec<Comment>, StoreError> {
    shared.read_in(org, |db, org| async move { of_task(&db, org, task).await }).await
}

pub(crate) async fn get(
    shared: &Shared,
    org: &str,
    id: CommentId,
) -> std::result::Result<Option<Comment>, StoreError> {
    shared.read_in(org, |db, org| async move { find(&db, org, id).await }).await
}

/// A comment has no org of its own; that of its task decides who may see it.
async fn find(db: &Db, org: i64, id: CommentId) -> Result<Option<Comment>> {
    let sql = format!("SELECT {COMMENT} WHERE c.id = $1 AND t.org = $2 AND t.removed_at IS NULL");
    read::one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(comment).transpose()
}

/// The prefix is part of a task's id, so an id with another prefix names no task.
async fn of_task(db: &Db, org: i64, task: TaskId) -> Result<Vec<Comment>> {
    let sql = format!(
        "SELECT {COMMENT} WHERE c.task = $1 AND t.org = $2 AND t.prefix = $3 \
             AND t.removed_at IS NULL \
         ORDER BY c.id DESC LIMIT {COMMENTS_SHOWN_MAX}"
    );
    let found = read::all(db, &sql, &[&uuid(task.id), &org, &task.prefix.as_str()]).await?;
    found.iter().map(comment).collect()
}

fn comment(row: &Row) -> Result<Comment> {
    comment::read(&mut row.reader())
}
