//! Jobs: reads.

use crate::postgres::db::Db;
use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use crate::postgres::errors::Result;
use crate::postgres::read;
use crate::postgres::rows::uuid;
use crate::runs::jobs::listed;
use crate::table::Cells;
use crate::table::job::{self, JOB, JOB_FROM};
use crate::{DueJob, JobQuery};

pub(crate) async fn find(db: &Db, org: i64, id: JobId) -> Result<Option<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} WHERE j.id = $1 AND j.org = $2");
    read::one(db, &sql, &[&uuid(id.0), &org]).await?.as_ref().map(job).transpose()
}

/// The job with this key that is not over. The index `jobs_by_key` allows one.
pub(crate) async fn under_way(db: &Db, org: i64, key: &str) -> Result<Option<Job>> {
    let sql = format!(
        "SELECT {JOB} FROM {JOB_FROM} WHERE j.org = $1 AND j.key = $2 AND j.due_at IS NOT NULL"
    );
    read::one(db, &sql, &[&org, &key]).await?.as_ref().map(job).transpose()
}

pub(crate) async fn list(db: &Db, org: i64, query: &JobQuery) -> Result<Vec<Job>> {
    let sql = format!("SELECT {JOB} FROM {JOB_FROM} {}", listed(query, "$1", "$2"));
    let found = read::all(db, &sql, &[&org, &(query.limit as i64)]).await?;
    found.iter().map(job).collect()
}

/// Jobs that a runner may take now, in every org: queued ones that are due, and those whose lease is over.
pub(crate) async fn due(
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
    let found = read::all(db, &sql, &[&now.0, &kind.as_str(), &(limit as i64)]).await?;
    found.iter().map(|row| job::read_due(&mut row.reader())).collect()
}

fn job(row: &Row) -> Result<Job> {
    job::read(&mut row.reader())
}
