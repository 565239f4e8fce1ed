//! What a review page keeps: drafts, sent comments, viewed files, looks and snoozes.

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::review::snooze::{Snooze, SnoozeUntil};
use callboard_domain::review::{
    DiffSide, LastLook, ReviewComment, ReviewCommentId, ReviewDraft, SentComment, ViewedFile,
};

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of a draft `d` with its task `t`, and the tables.
pub(crate) const DRAFT: &str = "d.id, d.task, t.prefix, d.author, d.path, d.side, d.first_line, \
     d.last_line, d.blob, d.quote, d.text, d.created_at, d.updated_at \
     FROM review_drafts d JOIN tasks t ON t.id = d.task";

/// The columns of a sent comment `c` with its task `t`, and the tables.
pub(crate) const SENT: &str = "c.id, c.task, t.prefix, c.author, c.path, c.side, c.first_line, \
     c.last_line, c.blob, c.quote, c.text, c.round, c.head, c.sent_at \
     FROM review_comments c JOIN tasks t ON t.id = c.task";

/// A viewed file with the content that was seen. A file whose content is another by now counts as not viewed.
pub(crate) const VIEWED_FILE: &str = "path, blob FROM review_viewed";
/// The commit at the author's last look: the page shows what came after it.
pub(crate) const LOOK: &str = "head, at FROM review_looks";
/// A snooze ends at a time (`until`) or when its row of the inbox changes (`until_changes`, a fingerprint).
pub(crate) const SNOOZE: &str = "key, until, until_changes FROM snoozes";

/// Tables with rows that go when their task is removed. Sent comments stay, as the task's other rows do.
pub(crate) const PRIVATE: [&str; 3] = ["review_drafts", "review_viewed", "review_looks"];

/// The part that drafts and sent comments share. `blob` and `quote` are of the file as the author saw it.
fn comment<R: Cells>(row: &mut RowReader<'_, R>) -> Result<ReviewComment, R::Error> {
    Ok(ReviewComment {
        path: row.text()?,
        side: row.word("side", DiffSide::parse)?,
        first_line: row.count()?,
        last_line: row.count()?,
        blob: row.text()?,
        quote: row.text()?,
        text: row.text()?,
    })
}

pub(crate) fn read_draft<R: Cells>(row: &mut RowReader<'_, R>) -> Result<ReviewDraft, R::Error> {
    Ok(ReviewDraft {
        id: ReviewCommentId(row.id()?),
        task: row.task()?,
        author: row.actor()?,
        comment: comment(row)?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

pub(crate) fn read_sent<R: Cells>(row: &mut RowReader<'_, R>) -> Result<SentComment, R::Error> {
    Ok(SentComment {
        id: ReviewCommentId(row.id()?),
        task: row.task()?,
        author: row.actor()?,
        comment: comment(row)?,
        round: row.count()?,
        head: row.text_if()?,
        sent_at: row.time()?,
    })
}

pub(crate) fn read_viewed<R: Cells>(row: &mut RowReader<'_, R>) -> Result<ViewedFile, R::Error> {
    Ok(ViewedFile { path: row.text()?, blob: row.text()? })
}

pub(crate) fn read_look<R: Cells>(row: &mut RowReader<'_, R>) -> Result<LastLook, R::Error> {
    Ok(LastLook { head: row.text()?, at: row.time()? })
}

pub(crate) fn read_snooze<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Snooze, R::Error> {
    let key = row.text()?;
    let until = match (row.time_if()?, row.text_if()?) {
        (Some(until), None) => SnoozeUntil::Time(until),
        (None, Some(fingerprint)) => SnoozeUntil::Changes { fingerprint },
        // A CHECK of the table allows exactly one of both.
        _ => return Err(row.damaged("end of a snooze")),
    };
    Ok(Snooze { key, until })
}

table! {
    DRAFTS = "review_drafts";
    fn draft_values(org: i64, draft: &'a ReviewDraft) {
        id: draft.id.0,
        org: org,
        task: draft.task,
        author: &draft.author,
        path: &draft.comment.path,
        side: draft.comment.side.as_str(),
        first_line: draft.comment.first_line,
        last_line: draft.comment.last_line,
        blob: &draft.comment.blob,
        quote: &draft.comment.quote,
        text: &draft.comment.text,
        created_at: draft.created_at,
        updated_at: draft.updated_at,
    }
}

/// The columns of a draft that change.
pub(crate) const DRAFT_STEPS: [&str; 8] =
    ["path", "side", "first_line", "last_line", "blob", "quote", "text", "updated_at"];

table! {
    SENT_COMMENTS = "review_comments";
    fn sent_values(org: i64, sent: &'a SentComment) {
        id: sent.id.0,
        org: org,
        task: sent.task,
        author: &sent.author,
        path: &sent.comment.path,
        side: sent.comment.side.as_str(),
        first_line: sent.comment.first_line,
        last_line: sent.comment.last_line,
        blob: &sent.comment.blob,
        quote: &sent.comment.quote,
        text: &sent.comment.text,
        round: sent.round,
        // The commit that the reviewer saw; NULL where no workspace was at hand.
        head: &sent.head,
        sent_at: sent.sent_at,
    }
}

table! {
    // The key (task, author, path) comes first. `org` is not part of it, because a task belongs to one org.
    VIEWED = "review_viewed";
    fn viewed_values(org: i64, task: TaskId, author: &'a Actor, file: &'a ViewedFile) {
        task: task,
        author: author,
        path: &file.path,
        org: org,
        blob: &file.blob,
    }
}

table! {
    LOOKS = "review_looks";
    fn look_values(org: i64, task: TaskId, author: &'a Actor, look: &'a LastLook) {
        task: task,
        author: author,
        org: org,
        head: &look.head,
        at: look.at,
    }
}

table! {
    SNOOZES = "snoozes";
    fn snooze_values(org: i64, actor: &'a Actor, snooze: &'a Snooze) {
        org: org,
        actor: actor,
        key: &snooze.key,
        until: match &snooze.until {
            SnoozeUntil::Time(until) => Some(*until),
            SnoozeUntil::Changes { .. } => None,
        },
        until_changes: match &snooze.until {
            SnoozeUntil::Time(_) => None,
            SnoozeUntil::Changes { fingerprint } => Some(fingerprint),
        },
    }
}
