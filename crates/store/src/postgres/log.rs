//! The end of the log. Events are numbered without gaps by one transaction at a time, the one that holds the log's
//! lock. A batch tries the lock in its last statement. With the lock it numbers its own events, after those that were
//! left behind. Without it the batch leaves its events in `log_parked` and commits beside the holder: no commit waits
//! for the flush of another one. The next batches of this process do not try for a while (`CROWDED`), because parking
//! takes the server a third of the time that numbering in the batch takes.
//!
//! A reader of the log numbers first what is left behind, so an event is in the log once its commit was answered.
//! Parked rows are numbered in the order of their ids. An id is drawn while the batch holds all rows that it decided
//! on, so among the transactions that touch one task, ids rise in the order of the commits.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future;
use tokio::sync::Notify;
use tokio_postgres::{Client, Row};

use crate::StoreError;
use crate::postgres::columns::Logged;
use crate::postgres::connections::TRANSACTION;
use crate::postgres::db::{Db, Statement};
use crate::postgres::errors::{Result, Trouble};
use crate::postgres::{Shared, lookups, schema};

/// How long this process waits before it numbers again. Meanwhile more batches are left behind, and one step numbers
/// all of them: at 1,000 batches a second, a step for each would cost a third of a processor.
const PAUSE: Duration = Duration::from_millis(5);

/// How long batches park their events after one of them found the lock taken.
pub(crate) const CROWDED: Duration = Duration::from_millis(50);

/// How long this process waits after a failure.
const BACKOFF: Duration = Duration::from_secs(1);

/// A setting of the transaction that says whether it holds the lock. The next statement of a batch is sent before the
/// answer to this one is known, so the server has to remember.
const HELD: &str = "callboard.log";

/// Takes the lock of the log if it is free.
pub(crate) fn try_lock() -> String {
    format!(
        "SELECT set_config('{HELD}', CASE WHEN pg_try_advisory_xact_lock({}) THEN 'held' ELSE '' END, true)",
        schema::lock_key("log")
    )
}

/// Waits for the log's lock.
pub(crate) fn lock() -> String {
    format!(
        "SELECT set_config('{HELD}', CASE WHEN pg_advisory_xact_lock({})::text IS NOT NULL THEN 'held' END, true)",
        schema::lock_key("log")
    )
}

/// The newest event's number and time; zeros without events.
pub(crate) const END: &str = "SELECT coalesce(max(n.seq), 0) AS last_seq, coalesce(max(n.at), 0) AS last_at \
     FROM (SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1) n";

/// The rows that no earlier step saw: those of transactions that were under way then, and of later ones. Looking at
/// nothing else matters while an old snapshot is held, because no row that was deleted since can be removed then. In a
/// database that was filled from a dump, transaction ids may be lower than those of the snapshot that came with it; then
/// every row is looked at.
const UNSEEN: &str = "(b.xid >= (
             SELECT CASE WHEN pg_snapshot_xmax(seen) > pg_snapshot_xmax(pg_current_snapshot())
                 THEN '0'::xid8 ELSE pg_snapshot_xmax(seen) END
             FROM log_steps ORDER BY id DESC LIMIT 1)
         OR b.xid = ANY (ARRAY(SELECT pg_snapshot_xip(s.seen)
             FROM (SELECT seen FROM log_steps ORDER BY id DESC LIMIT 1) s)))";

/// Appends the parked events and those of the values, and announces them; `more` uses the numbers. Without the lock
/// it parks the events of the values and returns no row.
pub(crate) fn append(more: &str) -> String {
    format!(
        "WITH held AS MATERIALIZED ({END} HAVING current_setting('{HELD}', true) = 'held'),
         parked AS (
             DELETE FROM log_parked b WHERE EXISTS (SELECT 1 FROM held) AND {UNSEEN}
             RETURNING b.id, b.at, b.actors, b.names, b.projects, b.tasks, b.attempts, b.data,
                 b.orgs),
         step AS (
             INSERT INTO log_steps (seen)
             SELECT pg_current_snapshot() WHERE EXISTS (SELECT 1 FROM parked)),
         old_step AS (
             DELETE FROM log_steps WHERE EXISTS (SELECT 1 FROM parked)
                 AND id = (SELECT id FROM log_steps ORDER BY id DESC LIMIT 1)),
         earlier AS MATERIALIZED (
             SELECT h.last_seq + row_number() OVER (ORDER BY b.id, e.place) AS seq,
                 greatest(h.last_at, max(b.at) OVER (ORDER BY b.id)) AS at, e.*
             FROM held h CROSS JOIN parked b CROSS JOIN unnest(b.actors, b.names, b.projects,
                     b.tasks, b.attempts, b.data, b.orgs)
                 WITH ORDINALITY
                 AS e (actor, name, project, task, attempt, data, org, place)),
         position AS MATERIALIZED (
             SELECT h.last_seq + (SELECT count(*) FROM earlier) + cardinality($1::text[])
                     AS last_seq,
                 greatest(h.last_at, (SELECT max(at) FROM earlier), $7::bigint) AS last_at
             FROM held h
             WHERE cardinality($1) > 0 OR EXISTS (SELECT 1 FROM parked)),
         logged AS (
             INSERT INTO events (seq, at, org, actor, name, project, task, attempt, data)
             SELECT seq, at, org, actor, name, project, task, attempt, data FROM earlier
             UNION ALL
             SELECT p.last_seq - cardinality($1) + e.place, p.last_at, e.org, e.actor, e.name,
                 e.project, e.task, e.attempt, e.data
             FROM position p CROSS JOIN unnest($1, $2::text[], $3::bigint[], $4::uuid[],
                     $5::uuid[], $6::text[], $9::bigint[])
                 WITH ORDINALITY
                 AS e (actor, name, project, task, attempt, data, org, place)),
         left_behind AS (
             INSERT INTO log_parked (at, actors, names, projects, tasks, attempts, data, orgs)
             SELECT $7, $1, $2, $3, $4, $5, $6, $9
             WHERE cardinality($1) > 0 AND NOT EXISTS (SELECT 1 FROM held)) {more}
         SELECT last_seq, last_at, pg_notify($8, last_seq::text)::text FROM position"
    )
}

/// Parks the events of the values without a look at the lock.
pub(crate) const PARK: &str =
    "INSERT INTO log_parked (at, actors, names, projects, tasks, attempts, data, orgs)
     VALUES ($7, $1, $2, $3, $4, $5, $6, $8)";

/// Gives each job the number of its newest step. The batch wrote these rows before, so no other transaction holds
/// them.
pub(crate) const VERSIONED: &str = ",
         versioned AS (
             UPDATE runs r SET version = n.seq
             FROM (SELECT s.job, max(p.last_seq - cardinality($1) + s.place) AS seq
                   FROM position p, unnest($10::uuid[]) WITH ORDINALITY AS s (job, place)
                   WHERE s.job IS NOT NULL GROUP BY s.job) n
             WHERE r.job = n.job)";

/// Every event, for reads of one moment: what is left behind has the numbers that it would get in that moment.
pub(crate) const EVENTS: &str =
    "(SELECT seq, at, org, actor, name, project, task, attempt, data FROM events
     UNION ALL
     SELECT h.last_seq + row_number() OVER (ORDER BY b.id, e.place),
         greatest(h.last_at, max(b.at) OVER (ORDER BY b.id)),
         e.org, e.actor, e.name, e.project, e.task, e.attempt, e.data
     FROM (SELECT coalesce(max(n.seq), 0) AS last_seq, coalesce(max(n.at), 0) AS last_at
           FROM (SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1) n) h
     CROSS JOIN log_parked b CROSS JOIN unnest(b.actors, b.names, b.projects, b.tasks, b.attempts,
             b.data, b.orgs)
         WITH ORDINALITY AS e (actor, name, project, task, attempt, data, org, place))";

/// Whether a snapshot has parked events.
pub(crate) async fn is_parked(snapshot: &Client) -> Result<bool> {
    Ok(snapshot.query_opt("SELECT 1 FROM log_parked LIMIT 1", &[]).await?.is_some())
}

/// The events of a snapshot, as the source of a statement.
pub(crate) async fn events(snapshot: &Db) -> Result<&'static str> {
    Ok(if is_parked(snapshot.client()).await? { EVENTS } else { "events" })
}

/// Rung when this process has left events behind.
#[derive(Default)]
pub(crate) struct Sequencer {
    pub left_behind: Arc<Notify>,
}

impl Sequencer {
    /// Starts the task that numbers what this process leaves behind.
    pub fn start(shared: &Arc<Shared>) {
        let left_behind = shared.sequencer.left_behind.clone();
        tokio::spawn(run(Arc::downgrade(shared), left_behind));
    }
}

async fn run(shared: Weak<Shared>, left_behind: Arc<Notify>) {
    loop {
        left_behind.notified().await;
        loop {
            let Some(here) = shared.upgrade() else { return };
            let numbered = here.number(false).await;
            // The bell reads what was just numbered; its own notification would say so a little later.
            here.bell.ring.notify_one();
            drop(here);
            tokio::time::sleep(PAUSE).await;
            match numbered {
                Ok(true) => break,
                // The holder of the lock may have looked before this process's commit.
                Ok(false) => {}
                Err(trouble) => {
                    tracing::warn!(?trouble, "cannot number events; trying again");
                    tokio::time::sleep(BACKOFF).await;
                }
            }
        }
    }
}

impl Shared {
    /// Numbers the events that batches left behind; returns `false` when another transaction holds the lock and this
    /// call was not to wait for it.
    pub(crate) async fn number(&self, waits: bool) -> Result<bool> {
        let channel = self.channel.as_str();
        let number = |db: Arc<Db>| async move { number(&db, channel, waits).await };
        self.connections.run(&TRANSACTION, number).await
    }

    /// Numbers everything that is left behind. A standby cannot number; it shows what its primary has numbered.
    pub(crate) async fn number_all(&self) -> Result<(), StoreError> {
        match self.number(true).await {
            Err(trouble) if !trouble.is_read_only() => Err(trouble.into()),
            _ => Ok(()),
        }
    }

    /// As `read`, for reads of the log: they see every event whose commit was answered.
    pub(crate) async fn read_log<T, F>(
        &self,
        work: impl Fn(Arc<Db>) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let work = &work;
        let (is_whole, found) = self
            .read(|db| async move {
                let looked = is_whole(&db).await?;
                // `join` sends its first half first: what that does not find is numbered already.
                let looked = async { Ok::<_, Trouble>(db.query_one(&looked, &[]).await?) };
                let (looked, found) = future::try_join(looked, work(db.clone())).await?;
                Ok((looked.try_get::<_, bool>(0)?, found))
            })
            .await?;
        if is_whole {
            return Ok(found);
        }
        self.number_all().await?;
        self.read(work).await
    }
}

/// Whether no event waits for its number.
async fn is_whole(db: &Db) -> Result<Statement> {
    let sql = format!("SELECT NOT EXISTS (SELECT 1 FROM log_parked b WHERE {UNSEEN})");
    Ok(db.prepare_cached(&sql).await?)
}

async fn number(db: &Db, channel: &str, waits: bool) -> Result<bool> {
    let settings = db.prepare_cached(&lookups::settings()).await?;
    let lock = db.prepare_cached(&if waits { lock() } else { try_lock() }).await?;
    let append = db.prepare_cached(&append("")).await?;
    let none = Logged::default();
    let values = none.and(&0, &channel);
    // Sent at once and in this order; the last statement sees what was committed before the lock was taken.
    let settled = db.query_one(&settings, &[]);
    let locked = async { future::try_join(settled, db.query_one(&lock, &[])).await };
    let ((_, row), _) = future::try_join(locked, db.query_opt(&append, &values)).await?;
    is_held(&row)
}

fn is_held(row: &Row) -> Result<bool> {
    Ok(row.try_get::<_, &str>(0)? == "held")
}
