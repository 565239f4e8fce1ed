//! Writes a desk back: one statement per table for a whole batch, then the events with the next numbers of the log.
//! Common writes are sent as one array per column, rarer ones as one JSON array of rows, which needs no type per
//! column and costs the server more.

use callboard_domain::event::{Event, LoggedEvent};
use callboard_domain::ids::Id;
use callboard_domain::time::Timestamp;
use futures_util::future;
use serde_json::Value;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::cards::{card_row, scratchpad_row};
use super::columns::{Lines, Logged, Moves};
use super::db::{Db, Statement};
use super::desk::{Desk, Sheet};
use super::errors::Trouble;
use super::json::{
    attempt_row, body_row, comment_row, delivery_row, dep_row, job_row, key_row, output_row,
    pull_row, retry_row, run_row, task_row, tried_row,
};
use super::{crew, knowledge, org};
use crate::deliveries::DELIVERY_ALL;
use crate::jobs::JOB_AGAIN;
use crate::pulls::{PULL_AGAIN, PULL_ALL};
use crate::runs::{RUN_ALL, RUN_STEPS};

/// Statements, prepared once per connection, so that they reach the server in the order they are sent.
pub(super) struct Statements {
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
    deliveries_insert: Statement,
    deliveries_tried: Statement,
    pulls: Statement,
    entries_again: Statement,
    retries_old: Statement,
    retries: Statement,
    events: Statement,
    /// For a batch with steps of jobs.
    events_of_jobs: Statement,
}

const TASK: &str = "id, prefix, org, project, title, label, phase, priority, assignee, parent, \
     is_plan, checks, contract, verification, open_blockers, open_deps, fence, newest_attempt, \
     entries, created_at, updated_at, removed_at, phase_at, blocked, number";
const ATTEMPT: &str = "id, task, kind, fence, actor, key, client, model, worktree, branch, \
     head_started, started_at, heartbeat_at, progress, lease_s, lease_expires_at, ended_at, \
     outcome, words, head_finished";
const CARD: &str = "task, mode, criteria, terminal, agent, base_branch, created_by, \
     review, workspace, branch, failed_reason, failed_at, told";
const COMMENT: &str = "id, task, kind, body, rationale, parent, author, created_at, resolved_at, \
     resolved_by, resolution";
const JOB: &str = "id, org, kind, key, task, tries, created_at, state, due_at, runner, ended_at, \
     reason, priority";

/// `INSERT INTO table (columns) …` for every object in the one parameter.
fn insert(table: &str, columns: &str, otherwise: &str) -> String {
    format!(
        "INSERT INTO {table} ({columns}) SELECT {columns} \
         FROM json_populate_recordset(NULL::{table}, $1::text::json) {otherwise}"
    )
}

/// The SET list that replaces an existing row.
fn replaced(columns: &str) -> String {
    let set: Vec<String> =
        columns.split(", ").map(|column| format!("{column} = excluded.{column}")).collect();
    set.join(", ")
}

/// `UPDATE table SET column = …` for every object in the one parameter, by id; `kept` columns keep their value
/// where the object has none.
fn update(table: &str, columns: &[&str], kept: &[&str]) -> String {
    update_by(table, "id", columns, kept)
}

/// As `update`, for a table with another key.
fn update_by(table: &str, key: &str, columns: &[&str], kept: &[&str]) -> String {
    let set = columns.iter().map(|c| format!("{c} = n.{c}"));
    let keep = kept.iter().map(|c| format!("{c} = coalesce(n.{c}, o.{c})"));
    let set: Vec<String> = set.chain(keep).collect();
    format!(
        "UPDATE {table} o SET {} FROM json_populate_recordset(NULL::{table}, $1::text::json) n \
         WHERE o.{key} = n.{key}",
        set.join(", ")
    )
}

impl Statements {
    pub async fn prepare(db: &Db) -> Result<Self, Trouble> {
        let prepare = async |sql: &str| db.prepare_cached(sql).await;
        Ok(Self {
            tasks_insert: prepare(&insert("tasks", TASK, "")).await?,
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
            tasks_update: prepare(&update(
                "tasks",
                &[
                    "project",
                    "parent",
                    "title",
                    "label",
                    "phase",
                    "phase_at",
                    "priority",
                    "assignee",
                    "is_plan",
                    "checks",
                    "contract",
                    "verification",
                    "blocked",
                    "open_blockers",
                    "open_deps",
                    "fence",
                    "newest_attempt",
                    "entries",
                    "updated_at",
                    "removed_at",
                ],
                &[],
            ))
            .await?,
            bodies: prepare(&insert(
                "bodies",
                "task, body, execution_contract",
                "ON CONFLICT (task) DO UPDATE SET body = excluded.body",
            ))
            .await?,
            cards: prepare(&insert("cards", CARD, &format!("ON CONFLICT (task) DO UPDATE SET {}", replaced(CARD)))).await?,
            scratchpads: prepare(&insert(
                "scratchpads",
                "task, text",
                "ON CONFLICT (task) DO UPDATE SET text = excluded.text",
            ))
            .await?,
            scratchpads_gone: prepare(
                "DELETE FROM scratchpads o
                 USING json_populate_recordset(NULL::scratchpads, $1::text::json) n
                 WHERE o.task = n.task",
            )
            .await?,
            deps_delete: prepare(
                "DELETE FROM deps o USING json_populate_recordset(NULL::deps, $1::text::json) n
                 WHERE o.task = n.task AND o.dep = n.dep",
            )
            .await?,
            deps_insert: prepare(&insert("deps", "task, position, dep", "")).await?,
            attempts_update: prepare(&update(
                "attempts",
                &["ended_at", "outcome", "words", "head_finished"],
                &["heartbeat_at", "progress", "lease_s", "lease_expires_at"],
            ))
            .await?,
            attempts_insert: prepare(&insert("attempts", ATTEMPT, "")).await?,
            outputs: prepare(&insert(
                "outputs",
                "attempt, output",
                "ON CONFLICT (attempt) DO UPDATE SET output = excluded.output",
            ))
            .await?,
            comments_insert: prepare(&insert("comments", COMMENT, "")).await?,
            comments_update: prepare(&update(
                "comments",
                &["resolved_at", "resolved_by", "resolution"],
                &[],
            ))
            .await?,
            jobs_update: prepare(&update(
                "jobs",
                &["tries", "state", "due_at", "runner", "ended_at", "reason"],
                &[],
            ))
            .await?,
            jobs_insert: prepare(&insert("jobs", JOB, "")).await?,
            jobs_put: prepare(&insert("jobs", JOB, JOB_AGAIN)).await?,
            runs_insert: prepare(&insert("runs", RUN_ALL, "")).await?,
            runs_update: prepare(&update_by("runs", "job", &RUN_STEPS, &[])).await?,
            deliveries_insert: prepare(&insert("deliveries", DELIVERY_ALL, "")).await?,
            deliveries_tried: prepare(&update_by(
                "deliveries",
                "job",
                &["tried_at", "outcome"],
                &[],
            ))
            .await?,
            pulls: prepare(&insert("pulls", PULL_ALL, PULL_AGAIN)).await?,
            entries_again: prepare(&entries(
                "ON CONFLICT (task, number) DO UPDATE SET who = excluded.who, at = excluded.at,
                     did = excluded.did, text = excluded.text, attempt = excluded.attempt",
            ))
            .await?,
            retries_old: prepare(
                "DELETE FROM retries o USING json_populate_recordset(NULL::retries, $1::text::json) n
                 WHERE o.org = n.org AND o.actor = n.actor AND o.tool = n.tool AND o.key = n.key
                     AND o.step = n.step",
            )
            .await?,
            retries: prepare(&insert(
                "retries",
                "org, actor, tool, key, step, at, digest, kept",
                "",
            )).await?,
            events: prepare(&log("")).await?,
            events_of_jobs: prepare(&log(VERSIONED)).await?,
        })
    }
}

/// Numbers the events, appends them and announces them; `more` uses the numbers.
fn log(more: &str) -> String {
    format!(
        "WITH position AS (
             UPDATE log_position SET last_seq = last_seq + cardinality($1::text[]),
                 last_at = greatest(last_at, $7)
             WHERE one RETURNING last_seq, last_at),
         logged AS (
             INSERT INTO events (seq, at, org, actor, name, project, task, attempt, data)
             SELECT p.last_seq - cardinality($1) + e.place, p.last_at, e.org, e.actor, e.name,
                 e.project, e.task, e.attempt, e.data
             FROM position p, unnest($1, $2::text[], $3::bigint[], $4::uuid[], $5::uuid[],
                     $6::text[], $9::bigint[])
                 WITH ORDINALITY
                 AS e (actor, name, project, task, attempt, data, org, place)) {more}
         SELECT last_seq, last_at, pg_notify($8, last_seq::text)::text FROM position"
    )
}

/// Gives each job the number of its newest step. The batch wrote these rows before, so no other transaction holds
/// them.
const VERSIONED: &str = ",
         versioned AS (
             UPDATE runs r SET version = n.seq
             FROM (SELECT s.job, max(p.last_seq - cardinality($1) + s.place) AS seq
                   FROM position p, unnest($10::uuid[]) WITH ORDINALITY AS s (job, place)
                   WHERE s.job IS NOT NULL GROUP BY s.job) n
             WHERE r.job = n.job)";

fn entries(otherwise: &str) -> String {
    format!(
        "INSERT INTO entries (task, number, who, at, did, text, attempt)
         SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[], $5::text[],
             $6::text[], $7::uuid[]) {otherwise}"
    )
}

async fn run(db: &Db, statement: &Statement, rows: Vec<Value>) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    db.execute(statement, &[&Value::Array(rows).to_string()]).await.map(|_| ())
}

/// Sends everything a batch changed, its events and the commit, without waiting in between unless there are rare
/// writes. The server works through it in this order; after a failure it only rolls back.
pub(super) async fn desk(
    db: &Db,
    statements: &Statements,
    desk: Desk,
    channel: &str,
) -> Result<Vec<LoggedEvent>, Trouble> {
    let rows = rows(db, statements, &desk);
    let log = log_and_commit(db, statements, &desk, channel);
    let (last, at) = if desk.changes.is_rare() {
        // These have to wait: the database numbers the learnings, and their index is made of these numbers.
        for (of, write) in &desk.changes.org {
            org::write(db, *of, write, desk.now).await?;
        }
        for (of, write) in &desk.changes.crew {
            crew::write(db, *of, write).await?;
        }
        rows.await?;
        if desk.changes.learned() {
            knowledge::write(db, &desk.changes).await?;
        }
        log.await?
    } else {
        // `try_join` sends its first half first, and of two errors returns the first one's.
        future::try_join(rows, log).await?.1
    };
    let first = last - desk.changes.events.len() as u64 + 1;
    let number = |(n, (_, event)): (usize, (i64, Event))| LoggedEvent {
        seq: first + n as u64,
        at,
        actor: event.actor,
        name: event.name,
        about: event.about,
        data: event.data,
    };
    Ok(desk.changes.events.into_iter().enumerate().map(number).collect())
}

/// Writes every changed row of every table but the log. An attempt ends before the next one of its task begins, a
/// job before the next one with its key, and an edge is deleted before its place is taken.
async fn rows(db: &Db, statements: &Statements, desk: &Desk) -> Result<(), Error> {
    let changes = &desk.changes;
    let sheets = |ids: &mut dyn Iterator<Item = &Id>| -> Vec<&Sheet> {
        ids.filter_map(|id| desk.tasks.get(id)).collect()
    };
    let attempts = |ids: &mut dyn Iterator<Item = &Id>| -> Vec<Value> {
        ids.filter_map(|id| desk.attempts.get(id)).map(|(_, a)| attempt_row(a)).collect()
    };
    let task_rows = |sheets: Vec<&Sheet>| sheets.into_iter().map(task_row).collect();
    let edited = &mut changes.tasks_edited.difference(&changes.tasks_new);
    let known = changes.tasks.difference(&changes.tasks_new);
    let moved = &mut known.filter(|id| !changes.tasks_edited.contains(*id));
    let begun_before = &mut changes.attempts.difference(&changes.attempts_new);
    let bodies = sheets(&mut changes.bodies.iter()).into_iter().map(body_row);
    let cards = sheets(&mut changes.cards.iter());
    let cards = cards.into_iter().map(|sheet| card_row(sheet.task.id.id, &sheet.card));
    let notes = |gone: bool| -> Vec<Value> {
        let sheets = sheets(&mut changes.scratchpads.iter()).into_iter();
        let wanted = sheets.filter(|sheet| sheet.scratchpad.is_empty() == gone);
        wanted.map(|sheet| scratchpad_row(sheet.task.id.id, &sheet.scratchpad)).collect()
    };
    let comments = |ids: &mut dyn Iterator<Item = &Id>| -> Vec<Value> {
        ids.filter_map(|id| desk.comments.get(id)).map(comment_row).collect()
    };
    let jobs = |ids: &mut dyn Iterator<Item = &Id>| -> Vec<Value> {
        ids.filter_map(|id| desk.jobs.get(id)).map(job_row).collect()
    };
    let runs = |ids: &mut dyn Iterator<Item = &Id>| -> Vec<Value> {
        ids.filter_map(|id| desk.runs.get(id)).map(run_row).collect()
    };
    let run_before = &mut changes.runs.difference(&changes.runs_new);
    let said_before = &mut changes.comments.difference(&changes.comments_new);
    let queued_before = &mut changes.jobs.difference(&changes.jobs_new);
    let mut begun = attempts(&mut changes.attempts_new.iter());
    for row in begun.iter_mut().filter(|row| row["heartbeat_at"].is_null()) {
        row["heartbeat_at"] = row["started_at"].clone();
    }
    let s = statements;
    let rare = [
        run(db, &s.tasks_insert, task_rows(sheets(&mut changes.tasks_new.iter()))),
        run(db, &s.tasks_update, task_rows(sheets(edited))),
        run(db, &s.bodies, bodies.collect()),
        run(db, &s.cards, cards.collect()),
        run(db, &s.scratchpads, notes(false)),
        run(db, &s.scratchpads_gone, notes(true)),
        run(db, &s.deps_delete, changes.deps_gone.iter().map(|k| dep_row(k, 0)).collect()),
        run(db, &s.deps_insert, changes.deps_new.iter().map(|(k, p)| dep_row(k, *p)).collect()),
        run(db, &s.attempts_update, attempts(begun_before)),
        run(db, &s.attempts_insert, begun),
        run(db, &s.outputs, changes.outputs.iter().map(output_row).collect()),
        run(db, &s.comments_insert, comments(&mut changes.comments_new.iter())),
        run(db, &s.comments_update, comments(said_before)),
        run(db, &s.jobs_update, jobs(queued_before)),
        run(db, &s.jobs_insert, jobs(&mut changes.jobs_new.iter())),
        run(db, &s.jobs_put, jobs(&mut changes.jobs_put.iter())),
        run(db, &s.runs_insert, runs(&mut changes.runs_new.iter())),
        run(db, &s.runs_update, runs(run_before)),
        run(db, &s.deliveries_insert, changes.deliveries_new.iter().map(delivery_row).collect()),
        run(db, &s.deliveries_tried, changes.deliveries_tried.iter().map(tried_row).collect()),
        run(db, &s.pulls, changes.pulls.iter().map(pull_row).collect()),
        run(db, &s.retries_old, changes.retries_old.iter().map(key_row).collect()),
        run(db, &s.retries, changes.retries.iter().map(retry_row).collect()),
    ];
    let (again, new): (Vec<_>, Vec<_>) =
        changes.entries.iter().partition(|(key, _)| changes.entries_again.contains(*key));
    let (again, new, moved) = (Lines::of(&again), Lines::of(&new), Moves::of(&sheets(moved)));
    let writes = future::try_join3(
        future::try_join_all(rare),
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

/// Appends the events and commits; returns the last number and the time of all events. The log's lock is taken here
/// and held until the commit: no reader sees a number before those below it. A batch of another process that
/// decided later may have committed first, so the time is at least that of the newest event: times rise with the
/// numbers.
async fn log_and_commit(
    db: &Db,
    statements: &Statements,
    desk: &Desk,
    channel: &str,
) -> Result<(u64, Timestamp), Error> {
    let events = Logged::of(&desk.changes.events);
    let mut values = events.and(&desk.now.0, &channel).to_vec();
    let statement = match events.has_steps() {
        true => &statements.events_of_jobs,
        false => &statements.events,
    };
    if events.has_steps() {
        values.push(events.jobs());
    }
    // `try_join` sends its first half first. If anything fails, COMMIT rolls everything back.
    let log = db.query_one(statement, &values);
    let (row, ()) = future::try_join(log, db.batch_execute("COMMIT")).await?;
    Ok((row.try_get::<_, i64>(0)? as u64, Timestamp(row.try_get(1)?)))
}
