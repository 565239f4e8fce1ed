//! Jobs: reads.

use super::db::Db;
use callboard_domain::ids::{Prefix, TaskId};
use callboard_domain::job::{Job, JobId, JobKind, JobState};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::errors::Trouble;
use super::read;
use super::rows::{self, uuid};
use crate::jobs::listed;
use crate::{DueJob, JobQuery};

type Result<T> = std::result::Result<T, Trouble>;

pub(super) const JOB: &str = "j.id, j.kind, j.key, j.task, t.prefix, j.tries, j.created_at, \
     j.state, j.due_at, j.runner, j.ended_at, j.reason, j.priority";
pub(super) const JOB_FROM: &str = "jobs j LEFT JOIN tasks t ON t.id = j.task";
pub(super) const JOB_COLUMNS: usize = 13;

pub(super) async fn find(db: &Db, org: i64, id: JobId) -> Result<Option<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} WHERE j.id = $1 AND j.org = $2");
    read::one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(job).transpose()
}

pub(super) async fn under_way(db: &Db, org: i64, key: &str) -> Result<Option<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM {JOB_FROM} WHERE j.org = $1 AND j.key = $2 AND j.due_at IS NOT NULL"
    );
    read::one(db, &sql, &[&org, &key]).await?.as_ref().map(job).transpose()
}

pub(super) async fn list(db: &Db, org: i64, query: &JobQuery) -> Result<Vec<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} {}", listed(query, "$1", "$2"));
    let found = read::all(db, &sql, &[&org, &(query.limit as i64)]).await?;
    found.iter().map(job).collect()
}

pub(super) async fn due(
    db: &Db,
    kind: JobKind,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let sql = format!(
        "SELECT {JOB}, o.name FROM {JOB_FROM} JOIN orgs o ON o.id = j.org \
         WHERE j.due_at IS NOT NULL AND j.due_at <= $1 AND j.kind = $2 \
         ORDER BY j.priority, j.due_at, j.id LIMIT $3"
    );
    let read = |row: &Row| {
        let org: &str = row.try_get(JOB_COLUMNS)?;
        Ok(DueJob { job: job(row)?, org: org.into() })
    };
    let found = read::all(db, &sql, &[&now.0, &kind.as_str(), &(limit as i64)]).await?;
    found.iter().map(read).collect()
}

pub(super) fn job(row: &Row) -> Result<Job> {
    let task = match rows::optional_id(row, 3)? {
        None => None,
        Some(id) => {
            let prefix = row.try_get::<_, Option<&str>>(4)?.unwrap_or_default();
            Some(TaskId { id, prefix: Prefix::parse(prefix).unwrap_or_else(Prefix::fallback) })
        }
    };
    let state = match row.try_get(7)? {
        "queued" => JobState::Queued { due_at: rows::time(row, 8)? },
        "running" => JobState::Running { runner: rows::actor(row, 9)?, until: rows::time(row, 8)? },
        "stale" => JobState::Stale { runner: rows::actor(row, 9)?, until: rows::time(row, 8)? },
        "canceled" => JobState::Canceled { at: rows::time(row, 10)? },
        "expired" => JobState::Expired { at: rows::time(row, 10)? },
        "done" => JobState::Done { at: rows::time(row, 10)? },
        "failed" => JobState::Failed { at: rows::time(row, 10)?, reason: row.try_get(11)? },
        _ => return Err(rows::damaged("state")),
    };
    Ok(Job {
        id: JobId(rows::id(row, 0)?),
        kind: JobKind::parse(row.try_get(1)?).ok_or_else(|| rows::damaged("kind"))?,
        key: row.try_get(2)?,
        task,
        priority: rows::count(row, 12)?,
        tries: rows::count(row, 5)?,
        created_at: rows::time(row, 6)?,
        state,
    })
}
