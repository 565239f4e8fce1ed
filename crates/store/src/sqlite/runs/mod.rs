//! Jobs for agents: reads and writes.

pub(crate) mod counts;
pub(crate) mod deliveries;
pub(crate) mod jobs;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::runs::run::{OpenRuns, Run, RunRecord};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::board::counts::runs_sql;
use crate::runs::{
    FOLLOWED_MS, FORGOTTEN_MAX, POSITION, RUNNERS, RUNNERS_KEPT_MS, follow, is_followed, overdue,
    runner_put, tail, tail_drop, tail_put,
};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, read, rows};
use crate::table::Cells;
use crate::table::job::{self, JOB, JOB_FROM};
use crate::table::run::{self, RUN};
use crate::{
    DueJob, RunOrder, RunPage, RunQuery, RunSeen, RunStore, RunTail, RunnerSeen, StoreError,
};

/// A job with its run. The reader depends on this order of columns.
fn record_sql(rest: &str) -> String {
    format!("SELECT {JOB}, {RUN} FROM {JOB_FROM} JOIN runs r ON r.job = j.id {rest}")
}

fn record(row: &Row<'_>) -> Result<RunRecord> {
    run::read(&mut row.reader())
}

fn seen(row: &Row<'_>) -> Result<RunSeen> {
    run::read_seen(&mut row.reader())
}

fn due(row: &Row<'_>) -> Result<DueJob> {
    job::read_due(&mut row.reader())
}

/// The run of a job; `None` for jobs that start no agent.
pub(crate) fn of_job(db: &Connection, org: i64, id: JobId) -> Result<Option<RunRecord>> {
    let sql = record_sql("WHERE r.job = ?1 AND r.org = ?2");
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], record).optional()
}

/// The open run of a task.
pub(crate) fn of_task(db: &Connection, org: i64, task: TaskId) -> Result<Option<RunRecord>> {
    let sql = record_sql(
        "WHERE r.task = ?1 AND +r.org = ?2 AND j.due_at IS NOT NULL ORDER BY r.job DESC LIMIT 1",
    );
    db.prepare_cached(&sql)?.query_row(params![task.id.to_bytes(), org], record).optional()
}

/// The newest run with an idempotency key, open or over: its window decides whether it still counts.
pub(crate) fn of_key(db: &Connection, org: i64, key: &str) -> Result<Option<RunRecord>> {
    let sql = record_sql("WHERE r.org = ?1 AND r.key = ?2 ORDER BY r.job DESC LIMIT 1");
    db.prepare_cached(&sql)?.query_row(params![org, key], record).optional()
}

/// As in `POSITION`, the `+` keeps SQLite from an index that also has ended jobs.
const OPEN: &str = "SELECT count(*) FILTER (WHERE state = 'queued'), \
     count(*) FILTER (WHERE state <> 'queued') \
     FROM jobs WHERE kind = 'run' AND due_at IS NOT NULL AND +org = ?1";

/// How many jobs of the org are queued and running, for the limit of open jobs.
pub(crate) fn open(db: &Connection, org: i64) -> Result<OpenRuns> {
    db.prepare_cached(OPEN)?
        .query_row([org], |row| Ok(OpenRuns { queued: row.get(0)?, running: row.get(1)? }))
}

/// How many runs of a kind a machine has, in every org: places belong to the machine.
pub(crate) fn count_on(db: &Connection, kind: JobKind, machine: &str) -> Result<u32> {
    let sql = crate::runs::count_on("?1", "?2");
    db.prepare_cached(&sql)?.query_row(params![kind.as_str(), machine], |row| row.get(0))
}

/// A run as callers see it, with its place in the queue and its version.
fn find_sql() -> String {
    format!(
        "SELECT {JOB}, {RUN}, {POSITION}, r.version FROM {JOB_FROM} JOIN runs r ON r.job = j.id \
         WHERE r.job = ?1 AND r.org = ?2"
    )
}

pub(crate) fn find(db: &Connection, org: i64, id: JobId) -> Result<Option<RunSeen>> {
    db.prepare_cached(&find_sql())?.query_row(params![id.0.to_bytes(), org], seen).optional()
}

/// A page of patch jobs, with the number of all that match.
pub(crate) fn page(db: &Connection, org: i64, query: &RunQuery) -> Result<RunPage> {
    let snapshot = db.unchecked_transaction()?;
    let db = &*snapshot;
    let count = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((row.text()?, row.int()?))
    };
    let counts: Vec<(String, i64)> =
        db.prepare_cached(&runs_sql('?'))?.query_map([org], count)?.collect::<Result<_>>()?;
    let runs = match query.order {
        RunOrder::Queue { offset } => {
            let Some(sql) = query.keys_sql('?', &counts) else { return Ok(RunPage::default()) };
            let id = |row: &Row<'_>| {
                let mut row = row.reader();
                row.skip(2);
                Ok(JobId(row.id()?))
            };
            let values = params![org, query.limit as i64, offset as i64];
            let ids: Vec<JobId> =
                db.prepare_cached(&sql)?.query_map(values, id)?.collect::<Result<_>>()?;
            let found = ids.into_iter().filter_map(|id| find(db, org, id).transpose());
            found.collect::<Result<_>>()?
        }
        RunOrder::NewestFirst { after } => newest(db, org, query, after)?,
    };
    Ok(RunPage { runs, total: query.total(&counts) })
}

/// The newest jobs below an id. The join goes from the org's runs to their jobs; a CROSS JOIN keeps that order.
fn newest(
    db: &Connection,
    org: i64,
    query: &RunQuery,
    after: Option<JobId>,
) -> Result<Vec<RunSeen>> {
    let state = query.state.map(|state| format!("AND j.state = '{state}'")).unwrap_or_default();
    let sql = format!(
        "SELECT {JOB}, {RUN}, {POSITION}, r.version FROM runs r INDEXED BY runs_by_org \
         CROSS JOIN jobs j ON j.id = r.job LEFT JOIN tasks t ON t.id = j.task \
         WHERE r.org = ?1 AND r.job < ?2 AND j.kind = 'run' {state} ORDER BY r.job DESC LIMIT ?3"
    );
    let before = after.map_or(Id(u128::MAX), |job| job.0).to_bytes();
    let values = params![org, before, query.limit as i64];
    db.prepare_cached(&sql)?.query_map(values, seen)?.collect()
}

fn due_sql(rest: &str) -> String {
    format!(
        "SELECT {JOB}, o.name FROM {JOB_FROM} JOIN runs r ON r.job = j.id \
         JOIN orgs o ON o.id = j.org WHERE {rest}"
    )
}

/// Queued jobs, in the order of the queue.
fn waiting_sql(kind: JobKind) -> String {
    due_sql(&format!("{} LIMIT ?3", crate::runs::waiting(kind, "?1", "?2")))
}

pub(crate) fn waiting(
    db: &Connection,
    kind: JobKind,
    machine: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let sql = waiting_sql(kind);
    db.prepare_cached(&sql)?.query_map(params![machine, now.0, limit as i64], due)?.collect()
}

fn late_sql() -> String {
    due_sql(&format!("{} LIMIT ?2", overdue("?1")))
}

pub(crate) fn late(db: &Connection, now: Timestamp, limit: usize) -> Result<Vec<DueJob>> {
    db.prepare_cached(&late_sql())?.query_map(params![now.0, limit as i64], due)?.collect()
}

pub(crate) fn running_on(db: &Connection, machine: &str) -> Result<Vec<DueJob>> {
    let sql = crate::runs::running_on(&format!("{JOB}, o.name"), read::SIGN);
    db.prepare_cached(&sql)?.query_map([machine], due)?.collect()
}

/// Runs in tasks' workspaces: open ones first, then the newest.
pub(crate) fn works(
    db: &Connection,
    org: i64,
    tasks: &[TaskId],
    each: usize,
) -> Result<Vec<RunRecord>> {
    let sql = record_sql(
        "WHERE r.task = ?1 AND +r.org = ?2 AND j.kind IN ('work', 'crew') \
         ORDER BY j.due_at IS NULL, r.job DESC LIMIT ?3",
    );
    let mut found = Vec::new();
    let mut statement = db.prepare_cached(&sql)?;
    for task in tasks {
        let values = params![task.id.to_bytes(), org, each as i64];
        for run in statement.query_map(values, record)? {
            found.push(run?);
        }
    }
    Ok(found)
}

/// The `+` keeps SQLite from an index that also has ended jobs.
fn works_open_sql(kind: JobKind) -> String {
    record_sql(&format!(
        "WHERE j.kind = '{}' AND j.due_at IS NOT NULL AND +j.org = ?1 \
         ORDER BY j.priority, j.created_at, j.id LIMIT ?2",
        kind.as_str()
    ))
}

fn works_open(db: &Connection, org: i64, limit: usize) -> Result<Vec<RunRecord>> {
    let mut open = Vec::new();
    for kind in JobKind::IN_WORKSPACES {
        let mut found = db.prepare_cached(&works_open_sql(kind))?;
        for record in found.query_map(params![org, limit as i64], record)? {
            open.push(record?);
        }
    }
    Ok(crate::runs::in_turn(open, limit))
}

/// A new run. Its task is written once and never changes.
pub(crate) fn insert(db: &Connection, org: i64, run: &Run, task: TaskId) -> Result<()> {
    rows::insert(db, &run::values(org, run, Some(task)), "")
}

/// Records that the event with this number is the newest step of a job.
pub(crate) fn number(db: &Connection, job: JobId, seq: u64) -> Result<()> {
    let values = params![job.0.to_bytes(), seq as i64];
    db.prepare_cached("UPDATE runs SET version = ?2 WHERE job = ?1")?.execute(values)?;
    Ok(())
}

/// Deletes some jobs that ended before this; 0 when none are left.
pub(crate) fn forget(db: &mut Connection, before: Timestamp, limit: usize) -> Result<usize> {
    let tx = db.transaction()?;
    let sql = "SELECT id FROM jobs WHERE kind = 'run' AND ended_at < ?1 LIMIT ?2";
    let ids: Vec<[u8; 16]> = tx
        .prepare(sql)?
        .query_map(params![before.0, limit as i64], |row| row.get(0))?
        .collect::<Result<_>>()?;
    for id in &ids {
        // A pull request outlives the job that opened it. Messages about the job go with it.
        tx.execute("UPDATE pulls SET job = NULL WHERE job = ?1", [id])?;
        let told = "DELETE FROM jobs WHERE id IN (SELECT job FROM deliveries WHERE about = ?1)";
        tx.execute(told, [id])?;
        tx.execute("DELETE FROM deliveries WHERE about = ?1", [id])?;
        tx.execute("DELETE FROM runs WHERE job = ?1", [id])?;
        tx.execute("DELETE FROM jobs WHERE id = ?1", [id])?;
    }
    tx.commit()?;
    Ok(ids.len())
}

/// Notes that a process starts agents, and forgets those that have been silent for too long, in one transaction.
fn runner_put_in(
    db: &mut Connection,
    runner: &str,
    machine: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut put = || -> Result<()> {
        let tx = db.transaction()?;
        tx.execute(&runner_put("?1", "?2", "?3"), params![runner, machine, now.0])?;
        let before = now.plus_ms(-RUNNERS_KEPT_MS).0;
        tx.execute("DELETE FROM runners WHERE seen_at < ?1", [before])?;
        tx.commit()
    };
    put().map_err(from_sqlite)
}

#[async_trait]
impl RunStore for SqliteStore {
    async fn run(&self, org: &str, id: JobId) -> Result<Option<RunSeen>, StoreError> {
        self.shared.read_in(org, |db, org, _| find(db, org, id).map_err(from_sqlite))
    }

    async fn runs(&self, query: RunQuery) -> Result<RunPage, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            page(db, org, &query).map_err(from_sqlite)
        })
        .await
    }

    async fn runs_due(
        &self,
        kind: JobKind,
        machine: &str,
        limit: usize,
    ) -> Result<Vec<DueJob>, StoreError> {
        self.shared.read(|db, now| waiting(db, kind, machine, now, limit).map_err(from_sqlite))
    }

    async fn works(
        &self,
        org: &str,
        tasks: &[TaskId],
        each: usize,
    ) -> Result<Vec<RunRecord>, StoreError> {
        self.shared.read_in(org, |db, org, _| works(db, org, tasks, each).map_err(from_sqlite))
    }

    async fn works_open(&self, org: &str, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.shared.read_in(org, |db, org, _| works_open(db, org, limit).map_err(from_sqlite))
    }

    async fn runs_overdue(&self, limit: usize) -> Result<Vec<DueJob>, StoreError> {
        self.shared.read(|db, now| late(db, now, limit).map_err(from_sqlite))
    }

    async fn runs_on(&self, machine: &str) -> Result<Vec<DueJob>, StoreError> {
        self.shared.read(|db, _| running_on(db, machine).map_err(from_sqlite))
    }

    async fn run_tail_put(
        &self,
        org: &str,
        job: JobId,
        fence: u64,
        text: &str,
    ) -> Result<(), StoreError> {
        let (org, text) = (org.to_owned(), text.to_owned());
        self.on_writer(move |db| {
            let org = read::org(db, &org)?;
            let sql = tail_put("?1", "?2", "?3", "?4");
            let values = params![job.0.to_bytes(), org, fence as i64, text];
            db.execute(&sql, values).map(|_| ()).map_err(from_sqlite)
        })
        .await
    }

    async fn run_follow(&self, org: &str, job: JobId) -> Result<(), StoreError> {
        let (org, shared) = (org.to_owned(), self.shared.clone());
        self.on_writer(move |db| {
            let org = read::org(db, &org)?;
            let until = shared.now().plus_ms(FOLLOWED_MS).0;
            let values = params![job.0.to_bytes(), org, until];
            db.execute(&follow("?1", "?2", "?3"), values).map(|_| ()).map_err(from_sqlite)
        })
        .await
    }

    async fn run_is_followed(&self, job: JobId) -> Result<bool, StoreError> {
        self.shared.read(|db, now| {
            let mut found = db.prepare_cached(&is_followed("?1", "?2")).map_err(from_sqlite)?;
            found.exists(params![job.0.to_bytes(), now.0]).map_err(from_sqlite)
        })
    }

    async fn run_tail(&self, org: &str, job: JobId) -> Result<Option<RunTail>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let mut found = db.prepare_cached(&tail("?1", "?2")).map_err(from_sqlite)?;
            let values = params![job.0.to_bytes(), org];
            found
                .query_row(values, |row| run::read_tail(&mut row.reader()))
                .optional()
                .map_err(from_sqlite)
        })
    }

    async fn run_tail_drop(&self, job: JobId, fence: u64) -> Result<(), StoreError> {
        self.on_writer(move |db| {
            let values = params![job.0.to_bytes(), fence as i64];
            db.execute(&tail_drop("?1", "?2"), values).map(|_| ()).map_err(from_sqlite)
        })
        .await
    }

    async fn runner_seen(&self, runner: &Actor, machine: &str) -> Result<(), StoreError> {
        let (runner, machine) = (runner.to_string(), machine.to_owned());
        let shared = self.shared.clone();
        self.on_writer(move |db| runner_put_in(db, &runner, &machine, shared.now())).await
    }

    async fn runner_gone(&self, runner: &Actor) -> Result<(), StoreError> {
        let runner = runner.to_string();
        self.on_writer(move |db| {
            let gone = db.execute("DELETE FROM runners WHERE runner = ?1", [runner]);
            gone.map(|_| ()).map_err(from_sqlite)
        })
        .await
    }

    async fn runners(&self) -> Result<Vec<RunnerSeen>, StoreError> {
        self.shared.read(|db, _| {
            let seen = |row: &Row<'_>| run::read_runner(&mut row.reader());
            let mut found = db.prepare_cached(RUNNERS).map_err(from_sqlite)?;
            found.query_map([], seen).and_then(Iterator::collect).map_err(from_sqlite)
        })
    }

    async fn runs_forget(&self, before: Timestamp) -> Result<usize, StoreError> {
        let forget = move |db: &mut Connection| forget(db, before, FORGOTTEN_MAX);
        self.on_writer(move |db| forget(db).map_err(from_sqlite)).await
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;

    use super::*;
    use crate::sqlite::schema;
    use crate::sqlite::turnstile::Turnstile;

    #[test]
    fn jobs_that_are_over_cost_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        schema::migrate(&mut db, &path, &turnstile).expect("migrates");
        for (sql, index) in [
            (OPEN.to_owned(), "jobs_by_due"),
            (find_sql(), "q USING INDEX jobs_open_runs"),
            (late_sql(), "j USING INDEX jobs_by_due"),
            (crate::runs::count_on("?1", "?2"), "j USING INDEX jobs_by_due"),
            (waiting_sql(JobKind::Run), "j USING INDEX jobs_open_runs"),
            (waiting_sql(JobKind::Work), "j USING INDEX jobs_open_work"),
            (waiting_sql(JobKind::Crew), "j USING INDEX jobs_open_crew"),
            (works_open_sql(JobKind::Work), "j USING INDEX jobs_open_work"),
            (works_open_sql(JobKind::Crew), "j USING INDEX jobs_open_crew"),
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a plan");
            let values = vec![1; plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(params_from_iter(values), |row| row.get(3))
                .and_then(Iterator::collect)
                .expect("steps");
            let steps = steps.join("\n");
            assert!(steps.contains(index), "{sql}\n{steps}");
            assert!(!steps.contains("jobs_runs") && !steps.contains("TEMP B-TREE"), "{steps}");
        }
    }
}
