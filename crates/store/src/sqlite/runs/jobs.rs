//! Jobs: reads and writes.

use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::runs::jobs::listed;
use crate::sqlite::rows;
use crate::table::Cells;
use crate::table::job::{self, AGAIN, JOB, JOB_FROM};
use crate::{DueJob, JobQuery};

pub(crate) fn find(db: &Connection, org: i64, id: JobId) -> Result<Option<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} WHERE j.id = ?1 AND j.org = ?2");
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], job).optional()
}

/// The job with this key that is not over. The index `jobs_by_key` allows one.
pub(crate) fn under_way(db: &Connection, org: i64, key: &str) -> Result<Option<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM {JOB_FROM} WHERE j.org = ?1 AND j.key = ?2 AND j.due_at IS NOT NULL"
    );
    db.prepare_cached(&sql)?.query_row(params![org, key], job).optional()
}

pub(crate) fn list(db: &Connection, org: i64, query: &JobQuery) -> Result<Vec<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} {}", listed(query, "?1", "?2"));
    db.prepare_cached(&sql)?.query_map(params![org, query.limit as i64], job)?.collect()
}

/// Jobs that a runner may take now, in every org: queued ones that are due, and those whose lease is over.
pub(crate) fn due(
    db: &Connection,
    kind: JobKind,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let read = |row: &Row<'_>| job::read_due(&mut row.reader());
    let sql = format!(
        "SELECT {JOB}, o.name FROM {JOB_FROM} JOIN orgs o ON o.id = j.org \
         WHERE j.due_at <= ?1 AND j.kind = ?2 ORDER BY j.priority, j.due_at, j.id LIMIT ?3"
    );
    db.prepare_cached(&sql)?.query_map(params![now.0, kind.as_str(), limit as i64], read)?.collect()
}

fn job(row: &Row<'_>) -> Result<Job> {
    job::read(&mut row.reader())
}

pub(crate) fn insert(db: &Connection, org: i64, job: &Job) -> Result<()> {
    rows::insert(db, &job::values(org, job), "")
}

/// Inserts a job, or queues a known one again.
pub(crate) fn put(db: &Connection, org: i64, job: &Job) -> Result<()> {
    rows::insert(db, &job::values(org, job), AGAIN)
}
