//! Pull requests: reads.

use async_trait::async_trait;
use callboard_domain::ids::{Prefix, TaskId};
use callboard_domain::job::JobId;
use callboard_domain::pull::Pull;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::errors::Trouble;
use super::{read, rows};
use crate::pulls::{PULL, PULL_FROM};
use crate::{OpenPulls, PullOf, PullQuery, PullStore, StoreError};

/// Pull requests of the tasks `$1`, the oldest first.
pub(super) fn sql() -> String {
    format!(
        "SELECT {PULL}, p.org FROM {PULL_FROM} WHERE p.task = ANY($1) \
         ORDER BY p.created_at, p.number"
    )
}

/// A row of that query: the pull request with its org.
pub(super) fn of_task(row: &Row) -> Result<(i64, Pull), Trouble> {
    Ok((row.try_get("org")?, pull(row)?.pull))
}

fn pull(row: &Row) -> Result<PullOf, Trouble> {
    let prefix = row.try_get::<_, Option<&str>>(11)?.and_then(Prefix::parse);
    let prefix = prefix.unwrap_or_else(Prefix::fallback);
    let pull = Pull {
        forge: row.try_get(1)?,
        repo: row.try_get(2)?,
        number: row.try_get::<_, i64>(3)?.unsigned_abs(),
        url: row.try_get(4)?,
        status: row.try_get(5)?,
        branch: row.try_get(6)?,
        base: row.try_get(7)?,
        head: row.try_get(8)?,
        title: row.try_get(9)?,
        task: rows::optional_id(row, 10)?.map(|id| TaskId { id, prefix }),
        job: rows::optional_id(row, 12)?.map(JobId),
        machine: row.try_get(13)?,
        created_at: rows::time(row, 14)?,
        changed_at: rows::time(row, 15)?,
        is_awaited: row.try_get(16)?,
        merge_commit: row.try_get(17)?,
        is_revoked: row.try_get(18)?,
    };
    let org: &str = row.try_get(0)?;
    Ok(PullOf { org: org.into(), pull })
}

#[async_trait]
impl PullStore for PostgresStore {
    async fn pulls(&self, query: PullQuery) -> Result<Vec<PullOf>, StoreError> {
        let sql = &format!(
            "SELECT {PULL} FROM {PULL_FROM} WHERE ($1::text IS NULL OR o.name = $1) \
             AND ($2::text IS NULL OR p.status = $2) AND ($4::uuid IS NULL OR p.task = $4) \
             AND ($5::text IS NULL OR p.url = $5) \
             ORDER BY p.created_at DESC, p.number DESC LIMIT $3"
        );
        let query = &query;
        self.shared
            .read(|db| async move {
                let (org, limit) = (query.org.as_deref(), query.limit as i64);
                let task = query.task.map(|task| rows::uuid(task.id));
                let found =
                    read::all(&db, sql, &[&org, &query.status, &limit, &task, &query.url]).await?;
                found.iter().map(pull).collect()
            })
            .await
    }

    async fn pulls_open(&self, query: OpenPulls) -> Result<Vec<PullOf>, StoreError> {
        let (sql, query) = (&query.sql('$'), &query);
        self.shared
            .read(|db| async move {
                let after = query.after();
                let (number, org) = (after.number as i64, &*after.org);
                let machine = query.machine();
                let values: [&(dyn ToSql + Sync); 5] =
                    [&after.created_at.0, &number, &after.repo, &org, &machine];
                read::all(&db, sql, &values).await?.iter().map(pull).collect()
            })
            .await
    }
}
