//! Pull requests: reads.

use async_trait::async_trait;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::pulls::Pull;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::postgres::PostgresStore;
use crate::postgres::errors::Trouble;
use crate::postgres::{read, rows};
use crate::table::Cells;
use crate::table::pull::{self, PULL, PULL_FROM};
use crate::{OpenPulls, PullOf, PullQuery, PullStore, StoreError, pulls};

/// Pull requests of the tasks `$1`, the oldest first.
pub(crate) fn sql() -> String {
    format!(
        "SELECT {PULL}, p.org FROM {PULL_FROM} WHERE p.task = ANY($1) \
         ORDER BY p.created_at, p.number"
    )
}

/// A row of that query: the pull request with its org.
pub(crate) fn of_task(row: &Row) -> Result<(i64, Pull), Trouble> {
    let mut row = row.reader();
    let PullOf { pull, .. } = pull::read(&mut row)?;
    Ok((row.int()?, pull))
}

fn pull(row: &Row) -> Result<PullOf, Trouble> {
    pull::read(&mut row.reader())
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

    async fn epic_pulls(&self, org: &str, epic: TaskId) -> Result<Vec<(Id, String)>, StoreError> {
        let sql = &pulls::of_epic('$');
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &rows::uuid(epic.id)]).await?;
                found.iter().map(|row| pulls::read_page(&mut row.reader())).collect()
            })
            .await
    }
}
