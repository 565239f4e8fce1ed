//! What a review page keeps, in the shared store.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::desk::Touched;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::limits::{REVIEW_COMMENTS_SHOWN_MAX, REVIEW_DRAFTS_MAX, REVIEW_VIEWED_MAX};
use callboard_domain::refusal::Refusal;
use callboard_domain::review::snooze::{Snooze, judge_snooze_room};
use callboard_domain::review::{
    LastLook, ReviewComment, ReviewCommentId, ReviewDraft, SentComment, ViewedFile,
    judge_draft_room, judge_viewed_room,
};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::batch::Batch;
use crate::postgres::connections::TRANSACTION;
use crate::postgres::db::Db;
use crate::postgres::errors::{Result, Trouble};
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, clock, json, read, schema};
use crate::review::{drafts_in_place, not_yours, sent_in_place};
use crate::table::Cells;
use crate::table::review::{
    self, DRAFT, DRAFT_STEPS, LOOK, LOOKS, PRIVATE, SENT, SENT_COMMENTS, SNOOZE, SNOOZES, VIEWED,
    VIEWED_FILE,
};
use crate::{ApplyError, ReviewStore, ReviewerOf, StoreError};

type Refused<T> = std::result::Result<T, Refusal>;
type Stored<T> = std::result::Result<T, StoreError>;

/// Loads drafts of these tasks and authors. Their tasks are locked, so no draft changes before the commit.
pub(crate) async fn fetch(
    db: &Db,
    wanted: &BTreeSet<(Id, String)>,
    batch: &mut Batch,
) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let tasks: Vec<Uuid> = wanted.iter().map(|(task, _)| uuid(*task)).collect();
    let authors: Vec<&str> = wanted.iter().map(|(_, author)| author.as_str()).collect();
    let sql = format!(
        "SELECT d.org, {DRAFT} \
         WHERE (d.task, d.author) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))"
    );
    for row in read::all(db, &sql, &[&tasks, &authors]).await? {
        let mut row = row.reader();
        let (org, draft) = (row.int()?, review::read_draft(&mut row)?);
        batch.desk(org).rows.drafts.insert(draft.id, draft);
    }
    Ok(())
}

/// Writes the changed rows of reviews.
pub(crate) async fn write(db: &Db, org: i64, touched: &Touched) -> Result<()> {
    if !touched.comments_sent.is_empty() {
        let sent = touched.comments_sent.iter();
        let sent = sent.map(|sent| json::object(&review::sent_values(org, sent))).collect();
        let insert = db.prepare_cached(&json::insert_sql(&SENT_COMMENTS, "")).await?;
        json::run(db, &insert, sent).await?;
    }
    if !touched.drafts_gone.is_empty() {
        let ids: Vec<Uuid> = touched.drafts_gone.iter().map(|id| uuid(id.0)).collect();
        // In the transaction that sends the comments: a draft is never both sent and still there.
        read::one(db, "DELETE FROM review_drafts WHERE id = ANY($1)", &[&ids]).await?;
    }
    if !touched.reviews_gone.is_empty() {
        let tasks: Vec<Uuid> = touched.reviews_gone.iter().map(|task| uuid(task.id)).collect();
        for table in PRIVATE {
            read::one(db, &format!("DELETE FROM {table} WHERE task = ANY($1)"), &[&tasks]).await?;
        }
    }
    Ok(())
}

fn draft(row: &Row) -> Result<ReviewDraft> {
    review::read_draft(&mut row.reader())
}

/// Locks a task that is not removed, as a command does; returns whether it is there. Until the commit no command reads
/// the drafts of the task.
async fn lock(db: &Db, org: i64, task: TaskId) -> Result<bool> {
    let sql = "SELECT 1 FROM tasks WHERE id = $1 AND org = $2 AND prefix = $3 \
         AND removed_at IS NULL FOR NO KEY UPDATE";
    let found = read::one(db, sql, &[&uuid(task.id), &org, &task.prefix.as_str()]).await?;
    Ok(found.is_some())
}

/// Whether the task is not removed.
async fn is_there(db: &Db, org: i64, task: TaskId) -> Result<bool> {
    let sql = "SELECT 1 FROM tasks WHERE id = $1 AND org = $2 AND prefix = $3 \
         AND removed_at IS NULL";
    let found = read::one(db, sql, &[&uuid(task.id), &org, &task.prefix.as_str()]).await?;
    Ok(found.is_some())
}

/// How many rows an author has on a task. The task is locked, so the count holds until the commit.
async fn count(db: &Db, table: &str, of: &ReviewerOf) -> Result<usize> {
    let sql = format!("SELECT count(*) FROM {table} WHERE task = $1 AND author = $2");
    let row = read::one(db, &sql, &[&uuid(of.task.id), &of.author.as_str()]).await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

/// Saves a draft. The page chooses the id, so a repeated save changes the draft instead of adding one.
async fn draft_put(
    db: &Db,
    org: i64,
    of: &ReviewerOf,
    id: ReviewCommentId,
    comment: &ReviewComment,
    now: Timestamp,
) -> Result<Refused<ReviewDraft>> {
    let known = read::one(db, &format!("SELECT {DRAFT} WHERE d.id = $1"), &[&uuid(id.0)]).await?;
    let known = known.as_ref().map(draft).transpose()?;
    let draft = ReviewDraft {
        id,
        task: of.task,
        author: of.author.clone(),
        comment: comment.clone(),
        created_at: known.as_ref().map_or(now, |known| known.created_at),
        updated_at: now,
    };
    match known {
        Some(known) if of.owns(&known) => {
            json::update(db, &review::draft_values(org, &draft), "id", &DRAFT_STEPS).await?;
        }
        Some(_) => return Ok(Err(not_yours())),
        None => {
            // A comment that was sent must not come back to life as a draft by a late save of the page.
            let sent = "SELECT 1 FROM review_comments WHERE id = $1";
            if read::one(db, sent, &[&uuid(id.0)]).await?.is_some() {
                return Ok(Err(not_yours()));
            }
            if let Err(refusal) = judge_draft_room(count(db, "review_drafts", of).await?) {
                return Ok(Err(refusal));
            }
            json::insert(db, &review::draft_values(org, &draft), "").await?;
        }
    }
    Ok(Ok(draft))
}

/// Marks a file as viewed at a given content. A new mark of a known file replaces the old one and needs no room.
async fn viewed_put(db: &Db, org: i64, of: &ReviewerOf, file: &ViewedFile) -> Result<Refused<()>> {
    let sql = "SELECT 1 FROM review_viewed WHERE task = $1 AND author = $2 AND path = $3";
    let known = read::one(db, sql, &[&uuid(of.task.id), &of.author.as_str(), &file.path]).await?;
    if known.is_none()
        && let Err(refusal) = judge_viewed_room(count(db, "review_viewed", of).await?)
    {
        return Ok(Err(refusal));
    }
    let again = VIEWED.again(&["task", "author", "path"]);
    let values = review::viewed_values(org, of.task, &of.author, file);
    json::insert(db, &values, &again).await?;
    Ok(Ok(()))
}

/// Hides an item of the inbox for its actor. Snoozes that are over are deleted first, so that they do not count.
async fn snooze_put(
    db: &Db,
    org: i64,
    actor: &Actor,
    snooze: &Snooze,
    now: Timestamp,
) -> Result<Refused<()>> {
    // Without the lock, two calls that count at once would both see room for one more.
    db.batch_execute(&schema::alone_with(&format!("snoozes of {org} {actor}"))).await?;
    let over = "DELETE FROM snoozes WHERE org = $1 AND actor = $2 AND until <= $3";
    read::one(db, over, &[&org, &actor.as_str(), &now.0]).await?;
    let sql = "SELECT count(*) FROM snoozes WHERE org = $1 AND actor = $2 AND key <> $3";
    let others = read::one(db, sql, &[&org, &actor.as_str(), &snooze.key]).await?;
    let others: usize = others.map_or(Ok::<_, Trouble>(0), |row| row.reader().count())?;
    if let Err(refusal) = judge_snooze_room(others) {
        return Ok(Err(refusal));
    }
    let again = SNOOZES.again(&["org", "actor", "key"]);
    json::insert(db, &review::snooze_values(org, actor, snooze), &again).await?;
    Ok(Ok(()))
}

impl PostgresStore {
    /// Runs work that may be repeated, in a transaction that holds the lock of the task.
    async fn keep_on<T, F>(
        &self,
        of: &ReviewerOf,
        work: impl Fn(Arc<Db>, i64, Timestamp) -> F + Send + Sync,
    ) -> std::result::Result<T, ApplyError>
    where
        F: Future<Output = Result<Refused<T>>> + Send,
        T: Send,
    {
        let (shared, work) = (&self.shared, &work);
        let keep = |db: Arc<Db>| async move {
            let now = clock::now(&db, &shared.clock).await?;
            let org = shared.orgs.get(&db, &of.org).await?;
            match lock(&db, org, of.task).await? {
                true => work(db, org, now).await,
                false => Ok(Err(of.not_found())),
            }
        };
        let kept = shared.connections.run(&TRANSACTION, keep).await;
        kept.map_err(StoreError::from)?.map_err(ApplyError::Refused)
    }

    /// Reads rows of a task that is not removed.
    async fn look_on(
        &self,
        org: &str,
        task: TaskId,
        sql: &str,
        author: Option<&Actor>,
    ) -> Stored<Vec<Row>> {
        self.shared
            .read_in(org, |db, org| async move {
                if !is_there(&db, org, task).await? {
                    return Ok(Vec::new());
                }
                match author {
                    Some(author) => read::all(&db, sql, &[&uuid(task.id), &author.as_str()]).await,
                    None => read::all(&db, sql, &[&uuid(task.id)]).await,
                }
            })
            .await
    }
}

#[async_trait]
impl ReviewStore for PostgresStore {
    async fn review_draft_put(
        &self,
        of: ReviewerOf,
        id: ReviewCommentId,
        comment: ReviewComment,
    ) -> std::result::Result<ReviewDraft, ApplyError> {
        let (by, comment) = (&of, &comment);
        let put =
            |db: Arc<Db>, org, now| async move { draft_put(&db, org, by, id, comment, now).await };
        self.keep_on(by, put).await
    }

    async fn review_drafts(&self, of: ReviewerOf) -> Stored<Vec<ReviewDraft>> {
        let sql = format!(
            "SELECT {DRAFT} WHERE d.task = $1 AND d.author = $2 \
             ORDER BY d.id LIMIT {REVIEW_DRAFTS_MAX}"
        );
        let found = self.look_on(&of.org, of.task, &sql, Some(&of.author)).await?;
        Ok(drafts_in_place(found.iter().map(draft).collect::<Result<_>>()?))
    }

    async fn review_draft_remove(&self, of: ReviewerOf, id: ReviewCommentId) -> Stored<bool> {
        let of = &of;
        self.shared
            .read(|db| async move {
                let sql = "DELETE FROM review_drafts WHERE id = $1 AND task = $2 AND author = $3 \
                     RETURNING 1";
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&uuid(id.0), &uuid(of.task.id), &of.author.as_str()];
                Ok(read::one(&db, sql, &values).await?.is_some())
            })
            .await
    }

    async fn review_comments(&self, org: &str, task: TaskId) -> Stored<Vec<SentComment>> {
        let sql = format!(
            "SELECT {SENT} WHERE c.task = $1 ORDER BY c.round DESC, c.id \
             LIMIT {REVIEW_COMMENTS_SHOWN_MAX}"
        );
        let found = self.look_on(org, task, &sql, None).await?;
        let sent = found.iter().map(|row| review::read_sent(&mut row.reader()));
        Ok(sent_in_place(sent.collect::<Result<_>>()?))
    }

    async fn review_viewed_put(
        &self,
        of: ReviewerOf,
        file: ViewedFile,
    ) -> std::result::Result<(), ApplyError> {
        let (by, file) = (&of, &file);
        let put = |db: Arc<Db>, org, _| async move { viewed_put(&db, org, by, file).await };
        self.keep_on(by, put).await
    }

    async fn review_viewed_remove(&self, of: ReviewerOf, path: String) -> Stored<()> {
        let (of, path) = (&of, &path);
        self.shared
            .read(|db| async move {
                let sql = "DELETE FROM review_viewed WHERE task = $1 AND author = $2 AND path = $3";
                read::one(&db, sql, &[&uuid(of.task.id), &of.author.as_str(), path]).await?;
                Ok(())
            })
            .await
    }

    async fn review_viewed(&self, of: ReviewerOf) -> Stored<Vec<ViewedFile>> {
        let sql = format!(
            "SELECT {VIEWED_FILE} WHERE task = $1 AND author = $2 \
             ORDER BY path COLLATE \"C\" LIMIT {REVIEW_VIEWED_MAX}"
        );
        let found = self.look_on(&of.org, of.task, &sql, Some(&of.author)).await?;
        let files = found.iter().map(|row| review::read_viewed(&mut row.reader()));
        Ok(files.collect::<Result<_>>()?)
    }

    async fn review_look_put(
        &self,
        of: ReviewerOf,
        head: String,
    ) -> std::result::Result<LastLook, ApplyError> {
        let (by, head) = (&of, &head);
        let put = |db: Arc<Db>, org, at| async move {
            let look = LastLook { head: head.clone(), at };
            let values = review::look_values(org, by.task, &by.author, &look);
            json::insert(&db, &values, &LOOKS.again(&["task", "author"])).await?;
            Ok(Ok(look))
        };
        self.keep_on(by, put).await
    }

    async fn review_look(&self, of: ReviewerOf) -> Stored<Option<LastLook>> {
        let sql = format!("SELECT {LOOK} WHERE task = $1 AND author = $2");
        let found = self.look_on(&of.org, of.task, &sql, Some(&of.author)).await?;
        let look = found.first().map(|row| review::read_look(&mut row.reader()));
        Ok(look.transpose()?)
    }

    async fn snooze_put(
        &self,
        org: Arc<str>,
        actor: Actor,
        snooze: Snooze,
    ) -> std::result::Result<(), ApplyError> {
        let (shared, org, actor, snooze) = (&self.shared, &org, &actor, &snooze);
        let put = |db: Arc<Db>| async move {
            let now = clock::now(&db, &shared.clock).await?;
            let org = shared.orgs.get(&db, org).await?;
            snooze_put(&db, org, actor, snooze, now).await
        };
        let kept = shared.connections.run(&TRANSACTION, put).await;
        kept.map_err(StoreError::from)?.map_err(ApplyError::Refused)
    }

    async fn snoozes(&self, org: Arc<str>, actor: Actor) -> Stored<Vec<Snooze>> {
        let (shared, actor) = (&self.shared, &actor);
        let sql = &format!(
            "SELECT {SNOOZE} WHERE org = $1 AND actor = $2 AND (until IS NULL OR until > $3) \
             ORDER BY key COLLATE \"C\""
        );
        shared
            .read_in(&org, |db, org| async move {
                let now = clock::now(&db, &shared.clock).await?;
                let found = read::all(&db, sql, &[&org, &actor.as_str(), &now.0]).await?;
                found.iter().map(|row| review::read_snooze(&mut row.reader())).collect()
            })
            .await
    }

    async fn snooze_remove(&self, org: Arc<str>, actor: Actor, key: String) -> Stored<()> {
        let (actor, key) = (&actor, &key);
        self.shared
            .read_in(&org, |db, org| async move {
                let sql = "DELETE FROM snoozes WHERE org = $1 AND actor = $2 AND key = $3";
                read::one(&db, sql, &[&org, &actor.as_str(), key]).await?;
                Ok(())
            })
            .await
    }
}
