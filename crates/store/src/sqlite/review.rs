//! What a review page keeps, in the embedded store.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::desk::Touched;
use callboard_domain::ids::TaskId;
use callboard_domain::limits::{REVIEW_COMMENTS_SHOWN_MAX, REVIEW_DRAFTS_MAX, REVIEW_VIEWED_MAX};
use callboard_domain::refusal::Refusal;
use callboard_domain::review::snooze::{Snooze, judge_snooze_room};
use callboard_domain::review::{
    LastLook, ReviewComment, ReviewCommentId, ReviewDraft, SentComment, ViewedFile,
    judge_draft_room, judge_viewed_room,
};
use callboard_domain::time::Timestamp;
use rusqlite::{
    Connection, OptionalExtension, Result, Row, Transaction, TransactionBehavior, params,
};

use crate::review::{drafts_in_place, not_yours, sent_in_place};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, fetch, read, rows};
use crate::table::Cells;
use crate::table::review::{
    self, DRAFT, DRAFT_STEPS, LOOK, LOOKS, PRIVATE, SENT, SNOOZE, SNOOZES, VIEWED, VIEWED_FILE,
};
use crate::{ApplyError, ReviewStore, ReviewerOf, Store, StoreError};

/// An answer of a rule inside a statement's result: the outer error is the database's.
type Refused<T> = std::result::Result<T, Refusal>;
type Stored<T> = std::result::Result<T, StoreError>;

/// Writes the changed rows of reviews.
pub(crate) fn write(db: &Connection, org: i64, touched: &Touched) -> Result<()> {
    for sent in &touched.comments_sent {
        rows::insert(db, &review::sent_values(org, sent), "")?;
    }
    for id in &touched.drafts_gone {
        // In the transaction that sends the comments: a draft is never both sent and still there.
        db.prepare_cached("DELETE FROM review_drafts WHERE id = ?1")?.execute([id.0.to_bytes()])?;
    }
    for task in &touched.reviews_gone {
        for table in PRIVATE {
            let sql = format!("DELETE FROM {table} WHERE task = ?1");
            db.prepare_cached(&sql)?.execute([task.id.to_bytes()])?;
        }
    }
    Ok(())
}

/// Drafts of an author on a task, the oldest first.
pub(crate) fn drafts(db: &Connection, task: TaskId, author: &Actor) -> Result<Vec<ReviewDraft>> {
    let sql = format!("SELECT {DRAFT} WHERE d.task = ?1 AND d.author = ?2 ORDER BY d.id LIMIT ?3");
    let values = params![task.id.to_bytes(), author.as_str(), REVIEW_DRAFTS_MAX as i64];
    db.prepare_cached(&sql)?.query_map(values, draft)?.collect()
}

fn draft(row: &Row<'_>) -> Result<ReviewDraft> {
    review::read_draft(&mut row.reader())
}

/// A draft by its id alone. The caller compares author and task.
fn draft_of(db: &Connection, id: ReviewCommentId) -> Result<Option<ReviewDraft>> {
    let sql = format!("SELECT {DRAFT} WHERE d.id = ?1");
    db.prepare_cached(&sql)?.query_row([id.0.to_bytes()], draft).optional()
}

/// Whether a comment with this id was sent: its draft must not come back to life by a late save of the page.
fn is_sent(db: &Connection, id: ReviewCommentId) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM review_comments WHERE id = ?1)";
    db.prepare_cached(sql)?.query_row([id.0.to_bytes()], |row| row.get(0))
}

/// How many rows an author has on a task; drafts and viewed files are limited by it.
fn count(db: &Connection, table: &str, of: &ReviewerOf) -> Result<usize> {
    let sql = format!("SELECT count(*) FROM {table} WHERE task = ?1 AND author = ?2");
    let values = params![of.task.id.to_bytes(), of.author.as_str()];
    db.prepare_cached(&sql)?.query_row(values, |row| row.get::<_, i64>(0)).map(|n| n as usize)
}

/// Saves a draft. The page chooses the id, so a repeated save changes the draft instead of adding one.
fn draft_put(
    db: &Connection,
    org: i64,
    of: ReviewerOf,
    id: ReviewCommentId,
    comment: ReviewComment,
    now: Timestamp,
) -> Result<Refused<ReviewDraft>> {
    let known = draft_of(db, id)?;
    let created_at = known.as_ref().map_or(now, |known| known.created_at);
    let (task, author) = (of.task, of.author.clone());
    let draft = ReviewDraft { id, task, author, comment, created_at, updated_at: now };
    match known {
        Some(known) if of.owns(&known) => {
            rows::update(db, &review::draft_values(org, &draft), "id", &DRAFT_STEPS)?;
        }
        // The id of another author's draft, or of a draft on another task, is refused without saying which.
        Some(_) => return Ok(Err(not_yours())),
        None => {
            if is_sent(db, id)? {
                return Ok(Err(not_yours()));
            }
            if let Err(refusal) = judge_draft_room(count(db, "review_drafts", &of)?) {
                return Ok(Err(refusal));
            }
            rows::insert(db, &review::draft_values(org, &draft), "")?;
        }
    }
    Ok(Ok(draft))
}

/// Marks a file as viewed at a given content. A new mark of a known file replaces the old one and needs no room.
fn viewed_put(
    db: &Connection,
    org: i64,
    of: &ReviewerOf,
    file: &ViewedFile,
) -> Result<Refused<()>> {
    let sql = "SELECT EXISTS (SELECT 1 FROM review_viewed \
         WHERE task = ?1 AND author = ?2 AND path = ?3)";
    let values = params![of.task.id.to_bytes(), of.author.as_str(), file.path];
    // The writer's thread runs one piece of work at a time, so the count below holds until the commit.
    let is_known: bool = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    if !is_known && let Err(refusal) = judge_viewed_room(count(db, "review_viewed", of)?) {
        return Ok(Err(refusal));
    }
    let again = VIEWED.again(&["task", "author", "path"]);
    rows::insert(db, &review::viewed_values(org, of.task, &of.author, file), &again)?;
    Ok(Ok(()))
}

/// Hides an item of the inbox for its actor. Snoozes that are over are deleted first, so that they do not count.
fn snooze_put(
    db: &Connection,
    org: i64,
    actor: &Actor,
    snooze: &Snooze,
    now: Timestamp,
) -> Result<Refused<()>> {
    let over = "DELETE FROM snoozes WHERE org = ?1 AND actor = ?2 AND until <= ?3";
    db.prepare_cached(over)?.execute(params![org, actor.as_str(), now.0])?;
    let sql = "SELECT count(*) FROM snoozes WHERE org = ?1 AND actor = ?2 AND key <> ?3";
    let values = params![org, actor.as_str(), snooze.key];
    // Without its own key: replacing a snooze needs no room.
    let others: i64 = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    if let Err(refusal) = judge_snooze_room(others as usize) {
        return Ok(Err(refusal));
    }
    let again = SNOOZES.again(&["org", "actor", "key"]);
    rows::insert(db, &review::snooze_values(org, actor, snooze), &again)?;
    Ok(Ok(()))
}

impl SqliteStore {
    /// Runs work in a transaction, which a refusal undoes.
    async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Stored<Refused<T>> + Send + 'static,
    ) -> std::result::Result<T, ApplyError> {
        let kept = self.on_writer(move |db| {
            let behavior = TransactionBehavior::Immediate;
            let tx = db.transaction_with_behavior(behavior).map_err(from_sqlite)?;
            let done = work(&tx)?;
            // A refusal drops the transaction, which rolls it back.
            if done.is_ok() {
                tx.commit().map_err(from_sqlite)?;
            }
            Ok(done)
        });
        kept.await?.map_err(ApplyError::Refused)
    }

    /// As `keep`, in the org of a task that is not removed.
    async fn keep_on<T: Send + 'static>(
        &self,
        of: ReviewerOf,
        work: impl FnOnce(&Transaction<'_>, i64, ReviewerOf) -> Result<Refused<T>> + Send + 'static,
    ) -> std::result::Result<T, ApplyError> {
        self.keep(move |db| {
            let org = read::org(db, &of.org)?;
            match fetch::has_task(db, org, of.task).map_err(from_sqlite)? {
                true => work(db, org, of).map_err(from_sqlite),
                false => Ok(Err(of.not_found())),
            }
        })
        .await
    }

    /// Reads rows of a task that is not removed.
    fn look_on<T: Default>(
        &self,
        org: &str,
        task: TaskId,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Stored<T> {
        self.shared.read_in(org, |db, org, _| {
            // A task of another org is not found either, so a guessed id shows nothing.
            match fetch::has_task(db, org, task).map_err(from_sqlite)? {
                true => work(db).map_err(from_sqlite),
                false => Ok(T::default()),
            }
        })
    }
}

#[async_trait]
impl ReviewStore for SqliteStore {
    async fn review_draft_put(
        &self,
        of: ReviewerOf,
        id: ReviewCommentId,
        comment: ReviewComment,
    ) -> std::result::Result<ReviewDraft, ApplyError> {
        let now = self.now();
        self.keep_on(of, move |db, org, of| draft_put(db, org, of, id, comment, now)).await
    }

    async fn review_drafts(&self, of: ReviewerOf) -> Stored<Vec<ReviewDraft>> {
        self.look_on(&of.org, of.task, |db| drafts(db, of.task, &of.author)).map(drafts_in_place)
    }

    /// The author is part of the condition, so the id of another author's draft removes nothing.
    async fn review_draft_remove(&self, of: ReviewerOf, id: ReviewCommentId) -> Stored<bool> {
        let remove = move |db: &mut Connection| {
            let sql = "DELETE FROM review_drafts WHERE id = ?1 AND task = ?2 AND author = ?3";
            let values = params![id.0.to_bytes(), of.task.id.to_bytes(), of.author.as_str()];
            db.execute(sql, values).map(|rows| rows > 0).map_err(from_sqlite)
        };
        self.on_writer(remove).await
    }

    async fn review_comments(&self, org: &str, task: TaskId) -> Stored<Vec<SentComment>> {
        self.look_on(org, task, |db| {
            let sql =
                format!("SELECT {SENT} WHERE c.task = ?1 ORDER BY c.round DESC, c.id LIMIT ?2");
            let values = params![task.id.to_bytes(), REVIEW_COMMENTS_SHOWN_MAX as i64];
            let sent = |row: &Row<'_>| review::read_sent(&mut row.reader());
            db.prepare_cached(&sql)?.query_map(values, sent)?.collect()
        })
        .map(sent_in_place)
    }

    async fn review_viewed_put(
        &self,
        of: ReviewerOf,
        file: ViewedFile,
    ) -> std::result::Result<(), ApplyError> {
        self.keep_on(of, move |db, org, of| viewed_put(db, org, &of, &file)).await
    }

    async fn review_viewed_remove(&self, of: ReviewerOf, path: String) -> Stored<()> {
        let remove = move |db: &mut Connection| {
            let sql = "DELETE FROM review_viewed WHERE task = ?1 AND author = ?2 AND path = ?3";
            let values = params![of.task.id.to_bytes(), of.author.as_str(), path];
            db.execute(sql, values).map(drop).map_err(from_sqlite)
        };
        self.on_writer(remove).await
    }

    async fn review_viewed(&self, of: ReviewerOf) -> Stored<Vec<ViewedFile>> {
        self.look_on(&of.org, of.task, |db| {
            let sql = format!(
                "SELECT {VIEWED_FILE} WHERE task = ?1 AND author = ?2 ORDER BY path LIMIT ?3"
            );
            let limit = REVIEW_VIEWED_MAX as i64;
            let values = params![of.task.id.to_bytes(), of.author.as_str(), limit];
            let file = |row: &Row<'_>| review::read_viewed(&mut row.reader());
            db.prepare_cached(&sql)?.query_map(values, file)?.collect()
        })
    }

    async fn review_look_put(
        &self,
        of: ReviewerOf,
        head: String,
    ) -> std::result::Result<LastLook, ApplyError> {
        let look = LastLook { head, at: self.now() };
        self.keep_on(of, move |db, org, of| {
            let values = review::look_values(org, of.task, &of.author, &look);
            rows::insert(db, &values, &LOOKS.again(&["task", "author"]))?;
            Ok(Ok(look))
        })
        .await
    }

    async fn review_look(&self, of: ReviewerOf) -> Stored<Option<LastLook>> {
        self.look_on(&of.org, of.task, |db| {
            let sql = format!("SELECT {LOOK} WHERE task = ?1 AND author = ?2");
            let look = |row: &Row<'_>| review::read_look(&mut row.reader());
            let values = params![of.task.id.to_bytes(), of.author.as_str()];
            db.prepare_cached(&sql)?.query_row(values, look).optional()
        })
    }

    async fn snooze_put(
        &self,
        org: Arc<str>,
        actor: Actor,
        snooze: Snooze,
    ) -> std::result::Result<(), ApplyError> {
        let now = self.now();
        self.keep(move |db| {
            let org = read::org(db, &org)?;
            snooze_put(db, org, &actor, &snooze, now).map_err(from_sqlite)
        })
        .await
    }

    async fn snoozes(&self, org: Arc<str>, actor: Actor) -> Stored<Vec<Snooze>> {
        self.shared.read_in(&org, |db, org, now| {
            let list = || -> Result<Vec<Snooze>> {
                let sql = format!(
                    "SELECT {SNOOZE} WHERE org = ?1 AND actor = ?2 \
                     AND (until IS NULL OR until > ?3) ORDER BY key"
                );
                let snooze = |row: &Row<'_>| review::read_snooze(&mut row.reader());
                let values = params![org, actor.as_str(), now.0];
                db.prepare_cached(&sql)?.query_map(values, snooze)?.collect()
            };
            list().map_err(from_sqlite)
        })
    }

    async fn snooze_remove(&self, org: Arc<str>, actor: Actor, key: String) -> Stored<()> {
        let remove = move |db: &mut Connection| {
            let org = read::org(db, &org)?;
            let sql = "DELETE FROM snoozes WHERE org = ?1 AND actor = ?2 AND key = ?3";
            db.execute(sql, params![org, actor.as_str(), key]).map(drop).map_err(from_sqlite)
        };
        self.on_writer(remove).await
    }
}
