//! Writes a batch back: one statement per table for a whole batch, then the events (`log.rs`).
//! Common writes are sent as one array per column, rarer ones as one JSON array of rows, which needs no type per
//! column and costs the server more.

use callboard_domain::desk::{Desk, TaskRows};
use callboard_domain::event::{Event, LoggedEvent};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::runs::job::JobId;
use callboard_domain::time::Timestamp;
use futures_util::future;
use serde_json::Value;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::file::TEXT;
use crate::kept::row_writes;
use crate::postgres::batch::{Batch, CallKey};
use crate::postgres::columns::{Lines, Logged, Moves};
use crate::postgres::db::{Db, Statement};
use crate::postgres::errors::Trouble;
use crate::postgres::json::{delete_sql, insert_sql, object, run, update_sql, update_until_ended};
use crate::postgres::{json, knowledge, log, review};
use crate::retries::Row;
use crate::table::{
    attempt, card, comment, delivery, entry, job, pull, retry, run as run_table, task,
};

/// Statements, prepared once per connection, so that they reach the server in the order they are sent.
pub(crate) struct Statements {
    tasks_insert: Statement,
    /// New lines of history, and tasks of which only the common columns changed.
    everyday: Statement,
    tasks_update: Statement,
    bodies: Statement,
    cards: Statement,
    scratchpads: Statement,
    scratchpads_gone: Statement,
    deps_delete: Statement,
    deps_insert: Statement,
    attempts_update: Statement,
    attempts_insert: Statement,
    outputs: Statement,
    comments_insert: Statement,
    comments_update: Statement,
    jobs_update: Statement,
    jobs_insert: Statement,
    jobs_put: Statement,
    runs_insert: Statement,
    runs_update: Statement,
    files: Statement,
    deliveries_insert: Statement,
    deliveries_tried: Statement,
    pulls: Statement,
    entries_again: Statement,
    retries_old: Statement,
    retries: Statement,
    try_lock: Statement,
    lock: Statement,
    park: Statement,
    events: Statement,
    /// For a batch with steps of jobs.
    events_of_jobs: Statement,
}

impl Statements {
    pub async fn prepare(db: &Db) -> Result<Self, Trouble> {
        let prepare = async |sql: &str| db.prepare_cached(sql).await;
        Ok(Self {
            tasks_insert: prepare(&insert_sql(&task::TASKS, "")).await?,
            everyday: prepare(&format!(
                "WITH put AS ({})
                 UPDATE tasks o SET label = n.label, phase = n.phase, assignee = n.assignee,
                     open_deps = n.open_deps, fence = n.fence, newest_attempt = n.newest_attempt,
                     entries = n.entries, updated_at = n.updated_at, removed_at = n.removed_at,
                     phase_at = n.phase_at
                 FROM unnest($8::uuid[], $9::text[], $10::text[], $11::text[], $12::integer[],
                         $13::bigint[], $14::uuid[], $15::integer[], $16::bigint[], $17::bigint[],
                         $18::bigint[])
                     AS n (id, label, phase, assignee, open_deps, fence, newest_attempt, entries,
                         updated_at, removed_at, phase_at)
                 WHERE o.id = n.id",
                entries("")
            ))
            .await?,
            tasks_update: prepare(&update_sql(&task::TASKS, "id", &task::STEPS)).await?,
            bodies: prepare(&insert_sql(&task::BODIES, task::BODY_AGAIN)).await?,
            cards: prepare(&insert_sql(&card::CARDS, &card::CARDS.again(&["task"]))).await?,
            scratchpads: prepare(&insert_sql(
                &card::SCRATCHPADS,
                &card::SCRATCHPADS.again(&["task"]),
            ))
            .await?,
            scratchpads_gone: prepare(&delete_sql(&card::SCRATCHPADS, &["task"])).await?,
            deps_delete: prepare(&delete_sql(&task::DEPS, &["task", "dep"])).await?,
            deps_insert: prepare(&insert_sql(&task::DEPS, "")).await?,
            attempts_update: prepare(&update_until_ended(
                &attempt::ATTEMPTS,
                "id",
                "ended_at",
                &attempt::ENDED,
                &attempt::LIVE,
            ))
            .await?,
            attempts_insert: prepare(&insert_sql(&attempt::ATTEMPTS, "")).await?,
            outputs: prepare(&insert_sql(&attempt::OUTPUTS, &attempt::OUTPUTS.again(&["attempt"])))
                .await?,
            comments_insert: prepare(&insert_sql(&comment::COMMENTS, "")).await?,
            comments_update: prepare(&update_sql(&comment::COMMENTS, "id", &comment::STEPS))
                .await?,
            jobs_update: prepare(&update_sql(&job::JOBS, "id", &job::STEPS)).await?,
            jobs_insert: prepare(&insert_sql(&job::JOBS, "")).await?,
            jobs_put: prepare(&insert_sql(&job::JOBS, job::AGAIN)).await?,
            runs_insert: prepare(&insert_sql(&run_table::RUNS, "")).await?,
            runs_update: prepare(&update_sql(&run_table::RUNS, "job", &run_table::STEPS)).await?,
            files: prepare(FILES).await?,
            deliveries_insert: prepare(&insert_sql(&delivery::DELIVERIES, "")).await?,
            deliveries_tried: prepare(&update_sql(&delivery::DELIVERIES, "job", &delivery::STEPS))
                .await?,
            pulls: prepare(&insert_sql(&pull::PULLS, pull::AGAIN)).await?,
            entries_again: prepare(&entries(&entry::ENTRIES.again(&["task", "number"]))).await?,
            retries_old: prepare(&delete_sql(&retry::RETRIES, &retry::KEY)).await?,
            retries: prepare(&insert_sql(&retry::RETRIES, "")).await?,
            try_lock: prepare(&log::try_lock()).await?,
            lock: prepare(&log::lock()).await?,
            park: prepare(log::PARK).await?,
            events: prepare(&log::append("")).await?,
            events_of_jobs: prepare(&log::append(log::VERSIONED)).await?,
        })
    }
}

/// Stores artifacts of one row at most. Their names are new.
const FILES: &str = "WITH n AS (
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS n (org, name, bytes)),
     made AS (
         INSERT INTO files (org, name, media_type, at, size)
         SELECT org, name, $4, $5, octet_length(bytes) FROM n RETURNING id, org, name)
     INSERT INTO file_parts (file, number, bytes)
     SELECT made.id, 0, n.bytes FROM n JOIN made USING (org, name) WHERE octet_length(n.bytes) > 0";

fn entries(otherwise: &str) -> String {
    format!(
        "INSERT INTO entries (task, number, who, at, did, text, attempt)
         SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[], $5::text[],
             $6::text[], $7::uuid[]) {otherwise}"
    )
}

/// Sends everything a batch changed, its events and the commit, without waiting in between unless there are rare
/// writes. The server works through it in this order; after a failure it only rolls back.
pub(crate) async fn batch(
    db: &Db,
    statements: &Statements,
    batch: Batch,
    (how, channel): (Numbering, &str),
) -> Result<BatchKept, Trouble> {
    let rows = rows(db, statements, &batch);
    let log = log_and_commit(db, statements, &batch, (how, channel));
    let end = if batch.is_rare() {
        // These have to wait: the database numbers the learnings, and their index is made of these numbers.
        for (org, desk) in &batch.desks {
            for write in row_writes(*org, desk) {
                json::write(db, &write).await?;
            }
            review::write(db, *org, &desk.touched).await?;
        }
        rows.await?;
        if batch.learned() {
            knowledge::write(db, &batch).await?;
        }
        log.await?
    } else {
        // `try_join` sends its first half first, and of two errors returns the first one's.
        future::try_join(rows, log).await?.1
    };
    let before = end.map(|(last, _)| last - batch.events.len() as u64);
    let at = end.map_or(batch.now, |(_, at)| at);
    let number = |(n, (_, event)): (usize, (i64, Event))| LoggedEvent {
        seq: before.map_or(0, |before| before + n as u64 + 1),
        at,
        actor: event.actor,
        name: event.name,
        about: event.about,
        data: event.data,
    };
    let is_parked = end.is_none() && !batch.events.is_empty();
    let events = batch.events.into_iter().enumerate().map(number).collect();
    Ok(BatchKept { events, before, is_parked })
}

/// How the events of a batch get their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The batch waits for the log's lock, because a caller asks for the number of an event.
    Waits,
    /// The batch numbers its events if the lock is free, and parks them otherwise.
    Tries,
    /// The batch parks its events.
    Parks,
}

pub(crate) struct BatchKept {
    /// The events; with the number 0 if they are parked.
    pub events: Vec<LoggedEvent>,
    /// The number before the first event.
    pub before: Option<u64>,
    pub is_parked: bool,
}

/// The rows of a batch by table, as objects.
#[derive(Default)]
struct Objects {
    tasks_new: Vec<Value>,
    tasks_edited: Vec<Value>,
    bodies: Vec<Value>,
    cards: Vec<Value>,
    scratchpads: Vec<Value>,
    scratchpads_gone: Vec<Value>,
    deps_gone: Vec<Value>,
    deps_new: Vec<Value>,
    attempts: Vec<Value>,
    attempts_new: Vec<Value>,
    outputs: Vec<Value>,
    comments_new: Vec<Value>,
    comments: Vec<Value>,
    jobs: Vec<Value>,
    jobs_new: Vec<Value>,
    jobs_put: Vec<Value>,
    runs_new: Vec<Value>,
    runs: Vec<Value>,
    deliveries_new: Vec<Value>,
    deliveries_tried: Vec<Value>,
    pulls: Vec<Value>,
}

impl Objects {
    fn of(batch: &Batch) -> Self {
        let mut objects = Self::default();
        for (org, desk) in &batch.desks {
            objects.add(*org, desk);
        }
        objects
    }

    fn add(&mut self, org: i64, Desk { rows, touched, .. }: &Desk) {
        let task = |id: &TaskId| rows.tasks.get(id);
        let attempt =
            |id: &AttemptId| rows.attempts.get(id).map(|attempt| object(&attempt::values(attempt)));
        let job = |id: &JobId| rows.jobs.get(id).map(|job| object(&job::values(org, job)));
        let run = |id: &JobId, task| {
            rows.runs.get(id).map(|run| object(&run_table::values(org, run, task)))
        };
        let comment = |id| rows.comments.get(id).map(|comment| object(&comment::values(comment)));
        let row = |rows: &TaskRows| object(&task::values(org, &rows.task, rows.removed_at));
        self.tasks_new.extend(touched.tasks_new.iter().filter_map(task).map(row));
        self.tasks_edited.extend(touched.tasks_edited().filter_map(task).map(row));
        let bodies = touched.bodies.iter().filter_map(task);
        self.bodies.extend(bodies.map(|rows| object(&task::body_values(rows))));
        let cards = touched.cards.iter().filter_map(task);
        self.cards.extend(cards.map(|rows| object(&card::values(rows.task.id, &rows.card))));
        for TaskRows { task, scratchpad, .. } in touched.scratchpads.iter().filter_map(task) {
            let rows = match scratchpad.is_empty() {
                true => &mut self.scratchpads_gone,
                false => &mut self.scratchpads,
            };
            rows.push(object(&card::scratchpad_values(task.id, scratchpad)));
        }
        let edge =
            |(task, dep): &(TaskId, TaskId), place| object(&task::dep_values(*task, *dep, place));
        self.deps_gone.extend(touched.deps_gone.iter().map(|gone| edge(gone, 0)));
        self.deps_new.extend(touched.deps_new.iter().map(|(new, place)| edge(new, *place)));
        let begun_before = touched.attempts.difference(&touched.attempts_new);
        self.attempts.extend(begun_before.filter_map(attempt));
        self.attempts_new.extend(touched.attempts_new.iter().filter_map(attempt));
        let outputs = touched.outputs.iter();
        self.outputs
            .extend(outputs.map(|(id, output)| object(&attempt::output_values(*id, output))));
        self.comments_new.extend(touched.comments_new.iter().filter_map(comment));
        let said_before = touched.comments.difference(&touched.comments_new);
        self.comments.extend(said_before.filter_map(comment));
        self.jobs.extend(touched.jobs.difference(&touched.jobs_new).filter_map(job));
        self.jobs_new.extend(touched.jobs_new.iter().filter_map(job));
        self.jobs_put.extend(touched.jobs_put.iter().filter_map(job));
        let new = touched.runs_new.iter();
        self.runs_new.extend(new.filter_map(|(id, task)| run(id, Some(*task))));
        let known = touched.runs.iter().filter(|id| !touched.runs_new.contains_key(id));
        self.runs.extend(known.filter_map(|id| run(id, None)));
        let told = touched.deliveries_new.iter();
        self.deliveries_new.extend(told.map(|delivery| object(&delivery::values(org, delivery))));
        let tried = touched.deliveries_tried.iter();
        self.deliveries_tried
            .extend(tried.map(|(job, tried)| object(&delivery::tried_values(*job, tried))));
        self.pulls.extend(touched.pulls.iter().map(|pull| object(&pull::values(org, pull))));
    }
}

fn retry_gone((call, step): &(CallKey, String)) -> Value {
    object(&retry::key_values(call.org, &call.actor, &call.tool, &call.key, step))
}

fn retry_new((call, row): &(CallKey, Row)) -> Value {
    object(&retry::values(call.org, &call.actor, &call.tool, &call.key, row))
}

/// Writes every changed row of every table but the log. An attempt ends before the next one of its task begins, a
/// job before the next one with its key, and an edge is deleted before its place is taken.
async fn rows(db: &Db, s: &Statements, batch: &Batch) -> Result<(), Error> {
    let objects = Objects::of(batch);
    let rare = [
        run(db, &s.tasks_insert, objects.tasks_new),
        run(db, &s.tasks_update, objects.tasks_edited),
        run(db, &s.bodies, objects.bodies),
        run(db, &s.cards, objects.cards),
        run(db, &s.scratchpads, objects.scratchpads),
        run(db, &s.scratchpads_gone, objects.scratchpads_gone),
        run(db, &s.deps_delete, objects.deps_gone),
        run(db, &s.deps_insert, objects.deps_new),
        run(db, &s.attempts_update, objects.attempts),
        run(db, &s.attempts_insert, objects.attempts_new),
        run(db, &s.outputs, objects.outputs),
        run(db, &s.comments_insert, objects.comments_new),
        run(db, &s.comments_update, objects.comments),
        run(db, &s.jobs_update, objects.jobs),
        run(db, &s.jobs_insert, objects.jobs_new),
        run(db, &s.jobs_put, objects.jobs_put),
        run(db, &s.runs_insert, objects.runs_new),
        run(db, &s.runs_update, objects.runs),
        run(db, &s.deliveries_insert, objects.deliveries_new),
        run(db, &s.deliveries_tried, objects.deliveries_tried),
        run(db, &s.pulls, objects.pulls),
        run(db, &s.retries_old, batch.retries_old.iter().map(retry_gone).collect()),
        run(db, &s.retries, batch.retries_new.iter().map(retry_new).collect()),
    ];
    let entries = batch.touched().into_iter().flat_map(|(_, touched)| {
        touched.entries.iter().map(|(key, entry)| (key, entry, touched.entries_again.contains(key)))
    });
    let (mut again, mut new) = (Vec::new(), Vec::new());
    for (key, entry, replaces) in entries {
        if replaces { &mut again } else { &mut new }.push((key, entry));
    }
    let moved: Vec<&TaskRows> = batch
        .desks
        .values()
        .flat_map(|desk| desk.touched.tasks_moved().filter_map(|id| desk.rows.tasks.get(id)))
        .collect();
    let (again, new, moved) = (Lines::of(&again), Lines::of(&new), Moves::of(&moved));
    let (mut orgs, mut names, mut contents) = (Vec::new(), Vec::new(), Vec::new());
    for (org, touched) in batch.touched() {
        for (name, bytes) in &touched.files_new {
            orgs.push(org);
            names.push(name.as_str());
            contents.push(&bytes[..]);
        }
    }
    let files: [&(dyn ToSql + Sync); 5] = [&orgs, &names, &contents, &TEXT, &batch.now.0];
    let writes = future::try_join4(
        future::try_join_all(rare),
        execute_if(db, !orgs.is_empty(), &s.files, files.to_vec()),
        execute_if(db, !new.is_empty() || !moved.is_empty(), &s.everyday, new.and(&moved)),
        execute_if(db, !again.is_empty(), &s.entries_again, again.values().to_vec()),
    );
    // All statements are sent at once; the server works through them in this order.
    writes.await.map(|_| ())
}

async fn execute_if(
    db: &Db,
    wanted: bool,
    statement: &Statement,
    values: Vec<&(dyn ToSql + Sync)>,
) -> Result<(), Error> {
    if wanted { db.execute(statement, &values).await.map(|_| ()) } else { Ok(()) }
}

/// Appends the events and commits; returns the last number and the time of all events, or `None` if there are none or
/// they are parked. A batch of another process that decided later may have committed first, so the time is at least
/// that of the newest event: times rise with the numbers.
async fn log_and_commit(
    db: &Db,
    statements: &Statements,
    batch: &Batch,
    (how, channel): (Numbering, &str),
) -> Result<Option<(u64, Timestamp)>, Error> {
    if batch.events.is_empty() {
        db.batch_execute("COMMIT").await?;
        return Ok(None);
    }
    let events = Logged::of(&batch.events);
    // The version of a job is the number of its newest step, so it is written in the same transaction.
    let has_steps = events.has_steps();
    let lock = match how {
        Numbering::Parks if !has_steps => {
            let values = events.at(&batch.now.0);
            let park = db.execute(&statements.park, &values);
            future::try_join(park, db.batch_execute("COMMIT")).await?;
            return Ok(None);
        }
        Numbering::Tries if !has_steps => &statements.try_lock,
        Numbering::Waits | Numbering::Tries | Numbering::Parks => &statements.lock,
    };
    let mut values = events.and(&batch.now.0, &channel).to_vec();
    let append = if has_steps { &statements.events_of_jobs } else { &statements.events };
    if has_steps {
        values.push(events.jobs());
    }
    // `try_join` sends its first half first. If anything fails, COMMIT rolls everything back.
    let log = future::try_join(db.query_one(lock, &[]), db.query_opt(append, &values));
    let ((_, end), ()) = future::try_join(log, db.batch_execute("COMMIT")).await?;
    let Some(end) = end else { return Ok(None) };
    Ok(Some((end.try_get::<_, i64>(0)? as u64, Timestamp(end.try_get(1)?))))
}
