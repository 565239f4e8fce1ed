//! Jobs for agents: reads.

pub(crate) mod deliveries;
pub(crate) mod jobs;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::board::counts;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, clock, read};
use crate::runs::{
    FOLLOWED_MS, FORGOTTEN_MAX, POSITION, RUNNERS, RUNNERS_KEPT_MS, follow, is_followed, overdue,
    runner_put, tail, tail_drop, tail_put,
};
use crate::table::Cells;
use crate::table::job::{self, JOB, JOB_FROM};
use crate::table::run::{self, RUN};
use crate::{
    DueJob, RunOrder, RunPage, RunQuery, RunSeen, RunStore, RunTail, RunnerSeen, StoreError,
};

/// Jobs with their runs: those in `$1`, and the open ones of the tasks in `$2`.
pub(crate) fn lookup() -> String {
    format!(
        "SELECT {JOB}, {RUN}, j.org FROM {JOB_FROM} JOIN runs r ON r.job = j.id
         WHERE r.job = ANY (ARRAY(
             SELECT unnest($1::uuid[])
             UNION SELECT n.job FROM unnest($2::uuid[]) AS s (task) CROSS JOIN LATERAL (
                 SELECT a.job FROM runs a JOIN jobs b ON b.id = a.job
                 WHERE a.task = s.task AND b.due_at IS NOT NULL
                 ORDER BY a.job DESC LIMIT 1) n))"
    )
}

fn record(row: &Row) -> Result<RunRecord> {
    run::read(&mut row.reader())
}

fn seen(row: &Row) -> Result<RunSeen> {
    run::read_seen(&mut row.reader())
}

fn due(row: &Row) -> Result<DueJob> {
    job::read_due(&mut row.reader())
}

/// A run as callers see it, with its place in the queue and its version.
pub(crate) async fn find(db: &Db, org: i64, id: JobId) -> Result<Option<RunSeen>> {
    let sql = format!(
        "SELECT {JOB}, {RUN}, {POSITION}, r.version FROM {JOB_FROM} JOIN runs r ON r.job = j.id \
         WHERE r.job = $1 AND r.org = $2"
    );
    read::one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(seen).transpose()
}

/// A page of patch jobs, with the number of all that match.
pub(crate) async fn page(db: &Db, org: i64, query: &RunQuery) -> Result<RunPage> {
    let mut counts = Vec::new();
    for row in &read::all(db, &counts::runs_sql('$'), &[&org]).await? {
        let mut row = row.reader();
        counts.push((row.text()?, row.int()?));
    }
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let rows = match query.order {
        RunOrder::Queue { offset } => {
            let Some(keys) = query.keys_sql('$', &counts) else { return Ok(RunPage::default()) };
            let sql = format!(
                "SELECT {JOB}, {RUN}, {POSITION}, r.version \
                 FROM ({keys}) AS k (priority, created_at, id) \
                 CROSS JOIN LATERAL (SELECT * FROM jobs o WHERE o.id = k.id OFFSET 0) j \
                 JOIN runs r ON r.job = j.id LEFT JOIN tasks t ON t.id = j.task \
                 ORDER BY k.priority, k.created_at, k.id"
            );
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            read::all(db, &sql, &[&org, &limit, &offset]).await?
        }
        RunOrder::NewestFirst { after } => {
            let state = query.state.map(|state| format!("AND o.state = '{state}'"));
            let sql = format!(
                "SELECT {JOB}, {RUN}, {POSITION}, r.version FROM runs r \
                 CROSS JOIN LATERAL (SELECT * FROM jobs o WHERE o.id = r.job AND o.kind = 'run' {} \
                     OFFSET 0) j \
                 LEFT JOIN tasks t ON t.id = j.task \
                 WHERE r.org = $1 AND r.job < $2 ORDER BY r.job DESC LIMIT $3",
                state.unwrap_or_default()
            );
            let before = uuid(after.map_or(Id(u128::MAX), |job| job.0));
            read::all(db, &sql, &[&org, &before, &limit]).await?
        }
    };
    let runs = rows.iter().map(seen).collect::<Result<_>>()?;
    Ok(RunPage { runs, total: query.total(&counts) })
}

/// Jobs of every org with the org's name, for runners, which serve all orgs.
async fn jobs(db: &Db, rest: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<DueJob>> {
    let sql = format!(
        "SELECT {JOB}, o.name FROM {JOB_FROM} JOIN runs r ON r.job = j.id \
         JOIN orgs o ON o.id = j.org WHERE {rest}"
    );
    read::all(db, &sql, values).await?.iter().map(due).collect()
}

/// Queued jobs, in the order of the queue.
pub(crate) async fn waiting(
    db: &Db,
    kind: JobKind,
    machine: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let rest = format!("{} LIMIT $3", crate::runs::waiting(kind, "$1", "$2"));
    jobs(db, &rest, &[&machine, &now.0, &(limit as i64)]).await
}

/// Runs whose lease or whose time to wait is over.
pub(crate) async fn late(db: &Db, now: Timestamp, limit: usize) -> Result<Vec<DueJob>> {
    let rest = format!("{} LIMIT $2", overdue("$1"));
    jobs(db, &rest, &[&now.0, &(limit as i64)]).await
}

/// Runs that a machine has: after a restart its server looks after their processes.
pub(crate) async fn running_on(db: &Db, machine: &str) -> Result<Vec<DueJob>> {
    let sql = crate::runs::running_on(&format!("{JOB}, o.name"), '$');
    read::all(db, &sql, &[&machine]).await?.iter().map(due).collect()
}

/// Runs in tasks' workspaces: open ones first, then the newest.
pub(crate) async fn works(
    db: &Db,
    org: i64,
    tasks: &[TaskId],
    each: usize,
) -> Result<Vec<RunRecord>> {
    let sql = format!(
        "SELECT {JOB}, {RUN} FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY AS s (task, place)
         CROSS JOIN LATERAL (
             SELECT a.job FROM runs a JOIN jobs b ON b.id = a.job
             WHERE a.task = s.task AND a.org = $2 AND b.kind IN ('work', 'crew')
             ORDER BY b.due_at IS NULL, a.job DESC LIMIT {each}) n
         JOIN runs r ON r.job = n.job JOIN {JOB_FROM} ON j.id = r.job
         ORDER BY s.place, j.due_at IS NULL, r.job DESC"
    );
    let ids: Vec<_> = tasks.iter().map(|task| uuid(task.id)).collect();
    let rows = read::all(db, &sql, &[&ids, &org]).await?;
    rows.iter().map(record).collect()
}

/// Open runs in workspaces, in the order of the queue; one statement for each kind.
async fn works_open(db: &Db, org: i64, limit: usize) -> Result<Vec<RunRecord>> {
    let mut open = Vec::new();
    for kind in JobKind::IN_WORKSPACES {
        let sql = format!(
            "SELECT {JOB}, {RUN} FROM {JOB_FROM} JOIN runs r ON r.job = j.id \
             WHERE j.kind = '{}' AND j.due_at IS NOT NULL AND j.org = $1 \
             ORDER BY j.priority, j.created_at, j.id LIMIT $2",
            kind.as_str()
        );
        let rows = read::all(db, &sql, &[&org, &(limit as i64)]).await?;
        open.extend(rows.iter().map(record).collect::<Result<Vec<_>>>()?);
    }
    Ok(crate::runs::in_turn(open, limit))
}

/// Deletes some jobs that ended before this; 0 when none are left. Needs a transaction.
pub(crate) async fn forget(db: &Db, before: Timestamp, limit: usize) -> Result<usize> {
    let sql = "WITH old AS (SELECT id FROM jobs WHERE kind = 'run' AND ended_at < $1 LIMIT $2),
         gone AS (DELETE FROM runs WHERE job IN (SELECT id FROM old)),
         left_over AS (UPDATE pulls SET job = NULL WHERE job IN (SELECT id FROM old)),
         told AS (DELETE FROM deliveries WHERE about IN (SELECT id FROM old) RETURNING job),
         jobs_gone AS (DELETE FROM jobs WHERE id IN (SELECT id FROM old UNION SELECT job FROM told))
         SELECT count(*) FROM old";
    let row = read::one(db, sql, &[&before.0, &(limit as i64)]).await?;
    let forgotten = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
    Ok(forgotten.unwrap_or_default() as usize)
}

#[async_trait]
impl RunStore for PostgresStore {
    async fn run(&self, org: &str, id: JobId) -> Result<Option<RunSeen>, StoreError> {
        self.shared.read_in(org, |db, org| async move { find(&db, org, id).await }).await
    }

    async fn runs(&self, query: RunQuery) -> Result<RunPage, StoreError> {
        let query = &query;
        self.shared.read_in(&query.org, |db, org| async move { page(&db, org, query).await }).await
    }

    async fn runs_due(
        &self,
        kind: JobKind,
        machine: &str,
        limit: usize,
    ) -> Result<Vec<DueJob>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(|db| async move {
                waiting(&db, kind, machine, clock::now(&db, clock).await?, limit).await
            })
            .await
    }

    async fn works(
        &self,
        org: &str,
        tasks: &[TaskId],
        each: usize,
    ) -> Result<Vec<RunRecord>, StoreError> {
        self.shared.read_in(org, |db, org| async move { works(&db, org, tasks, each).await }).await
    }

    async fn works_open(&self, org: &str, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.shared.read_in(org, |db, org| async move { works_open(&db, org, limit).await }).await
    }

    async fn runs_overdue(&self, limit: usize) -> Result<Vec<DueJob>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(|db| async move { late(&db, clock::now(&db, clock).await?, limit).await })
            .await
    }

    async fn runs_on(&self, machine: &str) -> Result<Vec<DueJob>, StoreError> {
        self.shared.read(|db| async move { running_on(&db, machine).await }).await
    }

    async fn run_tail_put(
        &self,
        org: &str,
        job: JobId,
        fence: u64,
        text: &str,
    ) -> Result<(), StoreError> {
        // PostgreSQL cannot store NUL in a text.
        let (id, fence, text) = (uuid(job.0), fence as i64, text.replace('\0', "\u{fffd}"));
        let (fence, text) = (&fence, &text);
        self.shared
            .read_in(org, |db, org| async move {
                let sql = tail_put("$1", "$2", "$3", "$4::text");
                read::one(&db, &sql, &[&id, &org, fence, text]).await.map(|_| ())
            })
            .await
    }

    async fn run_follow(&self, org: &str, job: JobId) -> Result<(), StoreError> {
        let (clock, id) = (&self.shared.clock, uuid(job.0));
        self.shared
            .read_in(org, |db, org| async move {
                let until = clock::now(&db, clock).await?.plus_ms(FOLLOWED_MS).0;
                let sql = follow("$1", "$2", "$3");
                read::one(&db, &sql, &[&id, &org, &until]).await.map(|_| ())
            })
            .await
    }

    async fn run_is_followed(&self, job: JobId) -> Result<bool, StoreError> {
        let (clock, id) = (&self.shared.clock, uuid(job.0));
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, clock).await?.0;
                Ok(read::one(&db, &is_followed("$1", "$2"), &[&id, &now]).await?.is_some())
            })
            .await
    }

    async fn run_tail(&self, org: &str, job: JobId) -> Result<Option<RunTail>, StoreError> {
        let id = uuid(job.0);
        self.shared
            .read_in(org, |db, org| async move {
                let row = read::one(&db, &tail("$1", "$2"), &[&id, &org]).await?;
                row.map(|row| run::read_tail(&mut row.reader())).transpose()
            })
            .await
    }

    async fn run_tail_drop(&self, job: JobId, fence: u64) -> Result<(), StoreError> {
        let (id, fence) = (uuid(job.0), fence as i64);
        self.shared
            .read(|db| async move {
                let sql = tail_drop("$1", "$2");
                read::one(&db, &sql, &[&id, &fence]).await.map(|_| ())
            })
            .await
    }

    async fn runner_seen(&self, runner: &Actor, machine: &str) -> Result<(), StoreError> {
        let (clock, runner) = (&self.shared.clock, runner.as_str());
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, clock).await?;
                let put = runner_put("$1", "$2", "$3");
                read::one(&db, &put, &[&runner, &machine, &now.0]).await?;
                let before = now.plus_ms(-RUNNERS_KEPT_MS).0;
                let forget = "DELETE FROM runners WHERE seen_at < $1";
                read::one(&db, forget, &[&before]).await.map(|_| ())
            })
            .await
    }

    async fn runner_gone(&self, runner: &Actor) -> Result<(), StoreError> {
        let runner = runner.as_str();
        self.shared
            .read(|db| async move {
                let forget = "DELETE FROM runners WHERE runner = $1";
                read::one(&db, forget, &[&runner]).await.map(|_| ())
            })
            .await
    }

    async fn runners(&self) -> Result<Vec<RunnerSeen>, StoreError> {
        let seen = |row: &Row| run::read_runner(&mut row.reader());
        self.shared
            .read(|db| async move {
                read::all(&db, RUNNERS, &[]).await?.iter().map(seen).collect::<Result<_>>()
            })
            .await
    }

    async fn runs_forget(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.shared.read(|db| async move { forget(&db, before, FORGOTTEN_MAX).await }).await
    }
}
