//! Comments.

use callboard_domain::task::comment::{Comment, CommentId, CommentKind, Resolved};

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of a comment `c`, with its task `t`, and the tables.
pub(crate) const COMMENT: &str = "c.id, c.task, t.prefix, c.kind, c.body, c.rationale, c.parent, \
     c.author, c.created_at, c.resolved_at, c.resolved_by, c.resolution \
     FROM comments c JOIN tasks t ON t.id = c.task";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Comment, R::Error> {
    Ok(Comment {
        id: CommentId(row.id()?),
        task: row.task()?,
        kind: row.word("kind", CommentKind::parse)?,
        body: row.text()?,
        rationale: row.text_if()?,
        parent: row.id_if()?.map(CommentId),
        author: row.actor()?,
        created_at: row.time()?,
        // The two columns behind `resolved_at` are the last of the SELECT, so they may stay unread.
        resolved: match row.time_if()? {
            None => None,
            Some(at) => Some(Resolved { at, by: row.actor()?, words: row.text_if()? }),
        },
    })
}

table! {
    COMMENTS = "comments";
    fn values(comment: &'a Comment) {
        id: comment.id.0,
        task: comment.task,
        kind: comment.kind.as_str(),
        body: &comment.body,
        rationale: &comment.rationale,
        parent: comment.parent.map(|parent| parent.0),
        author: &comment.author,
        created_at: comment.created_at,
        resolved_at: comment.resolved.as_ref().map(|resolved| resolved.at),
        resolved_by: comment.resolved.as_ref().map(|resolved| &resolved.by),
        // The words of the answer, if any.
        resolution: comment.resolved.as_ref().and_then(|resolved| resolved.words.as_deref()),
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 3] = ["resolved_at", "resolved_by", "resolution"];
