//! Jobs: reads and writes.

use callboard_domain::ids::{Prefix, TaskId};
use callboard_domain::job::{Job, JobId, JobKind, JobState};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::rows;
use crate::jobs::{JOB_AGAIN, columns, listed};
use crate::{DueJob, JobQuery};

pub(super) const JOB: &str = "j.id, j.kind, j.key, j.task, t.prefix, j.tries, j.created_at, j.state, j.due_at, \
     j.runner, j.ended_at, j.reason, j.priority";
pub(super) const JOB_COLUMNS: usize = 13;
pub(super) const JOB_FROM: &str = "jobs j LEFT JOIN tasks t ON t.id = j.task";

pub(super) fn find(db: &Connection, org: i64, id: JobId) -> Result<Option<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} WHERE j.id = ?1 AND j.org = ?2");
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], job).optional()
}

pub(super) fn under_way(db: &Connection, org: i64, key: &str) -> Result<Option<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM {JOB_FROM} WHERE j.org = ?1 AND j.key = ?2 AND j.due_at IS NOT NULL"
    );
    db.prepare_cached(&sql)?.query_row(params![org, key], job).optional()
}

pub(super) fn list(db: &Connection, org: i64, query: &JobQuery) -> Result<Vec<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} {}", listed(query, "?1", "?2"));
    db.prepare_cached(&sql)?.query_map(params![org, query.limit as i64], job)?.collect()
}

pub(super) fn due(
    db: &Connection,
    kind: JobKind,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let read = |row: &Row<'_>| {
        Ok(DueJob { job: job(row)?, org: row.get::<_, String>(JOB_COLUMNS)?.into() })
    };
    let sql = format!(
        "SELECT {JOB}, o.name FROM {JOB_FROM} JOIN orgs o ON o.id = j.org \
         WHERE j.due_at <= ?1 AND j.kind = ?2 ORDER BY j.priority, j.due_at, j.id LIMIT ?3"
    );
    db.prepare_cached(&sql)?.query_map(params![now.0, kind.as_str(), limit as i64], read)?.collect()
}

pub(super) fn job(row: &Row<'_>) -> Result<Job> {
    let kind = row.get_ref(1)?.as_str()?;
    let task = match rows::optional_id(row, 3)? {
        None => None,
        Some(id) => {
            let prefix = row.get::<_, Option<String>>(4)?.unwrap_or_default();
            Some(TaskId { id, prefix: Prefix::parse(&prefix).unwrap_or_else(Prefix::fallback) })
        }
    };
    let state = match row.get_ref(7)?.as_str()? {
        "queued" => JobState::Queued { due_at: rows::time(row, 8)? },
        "running" => JobState::Running { runner: rows::actor(row, 9)?, until: rows::time(row, 8)? },
        "stale" => JobState::Stale { runner: rows::actor(row, 9)?, until: rows::time(row, 8)? },
        "canceled" => JobState::Canceled { at: rows::time(row, 10)? },
        "expired" => JobState::Expired { at: rows::time(row, 10)? },
        "done" => JobState::Done { at: rows::time(row, 10)? },
        "failed" => JobState::Failed { at: rows::time(row, 10)?, reason: row.get(11)? },
        _ => return Err(rows::damaged(7, "state")),
    };
    Ok(Job {
        id: JobId(rows::id(row, 0)?),
        kind: JobKind::parse(kind).ok_or_else(|| rows::damaged(1, "kind"))?,
        key: row.get(2)?,
        task,
        priority: row.get(12)?,
        tries: row.get(5)?,
        created_at: rows::time(row, 6)?,
        state,
    })
}

pub(super) fn insert(db: &Connection, org: i64, job: &Job) -> Result<()> {
    insert_or(db, org, job, "")
}

/// Inserts a job, or queues a known one again.
pub(super) fn put(db: &Connection, org: i64, job: &Job) -> Result<()> {
    insert_or(db, org, job, JOB_AGAIN)
}

fn insert_or(db: &Connection, org: i64, job: &Job, otherwise: &str) -> Result<()> {
    let (due_at, runner, ended_at, reason) = columns(&job.state);
    db.prepare_cached(&format!(
        "INSERT INTO jobs (id, org, kind, key, task, tries, created_at, state, due_at, runner, \
             ended_at, reason, priority) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) {otherwise}",
    ))?
    .execute(params![
        job.id.0.to_bytes(),
        org,
        job.kind.as_str(),
        job.key,
        job.task.map(|task| task.id.to_bytes()),
        job.tries,
        job.created_at.0,
        job.state.as_str(),
        due_at,
        runner,
        ended_at,
        reason,
        job.priority,
    ])?;
    Ok(())
}

pub(super) fn update(db: &Connection, job: &Job) -> Result<()> {
    let (due_at, runner, ended_at, reason) = columns(&job.state);
    db.prepare_cached(
        "UPDATE jobs SET tries = ?2, state = ?3, due_at = ?4, runner = ?5, ended_at = ?6, \
             reason = ?7 WHERE id = ?1",
    )?
    .execute(params![
        job.id.0.to_bytes(),
        job.tries,
        job.state.as_str(),
        due_at,
        runner,
        ended_at,
        reason,
    ])?;
    Ok(())
}
