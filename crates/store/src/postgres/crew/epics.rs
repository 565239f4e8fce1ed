//! Epics and the workers for their tasks: reads.

use async_trait::async_trait;
use callboard_domain::crew::Agent;
use callboard_domain::ids::{Id, TaskId};
use tokio_postgres::Row;

use crate::crew::epics::{
    self, BusyWorker, EpicQuery, EpicStore, OrphanRun, StaleWorker, UnassignedTask,
};
use crate::postgres::board::cards;
use crate::postgres::errors::Result;
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, read};
use crate::table::{Cells, agent};
use crate::{CardRow, StoreError};

// The SQL and the readers are in `crew/epics.rs` at the top of this crate, shared with SQLite. Only the type of a row
// differs here.
fn waiting(row: &Row) -> Result<UnassignedTask> {
    epics::read_waiting(&mut row.reader())
}

fn adrift(row: &Row) -> Result<StaleWorker> {
    epics::read_adrift(&mut row.reader())
}

fn post(row: &Row) -> Result<BusyWorker> {
    epics::read_post(&mut row.reader())
}

fn stray(row: &Row) -> Result<OrphanRun> {
    epics::read_stray(&mut row.reader())
}

impl PostgresStore {
    /// Runs a sweep over every org. The limit stands in the SQL, so there are no values.
    async fn list<T: Send>(
        &self,
        sql: &str,
        row: fn(&Row) -> Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.shared
            .read(|db| async move { read::all(&db, sql, &[]).await?.iter().map(row).collect() })
            .await
    }
}

#[async_trait]
impl EpicStore for PostgresStore {
    async fn epic_tasks(&self, query: EpicQuery) -> Result<Vec<CardRow>, StoreError> {
        let (page, query) = (&query.page('$'), &query);
        self.shared
            .read_in(&query.org, |db, org| async move {
                // Below every id, so that the first page needs no SQL of its own.
                let (epic, after) = (uuid(query.epic.id), uuid(query.after.unwrap_or(Id(0))));
                cards::page_of(&db, page, &[&org, &epic, &after], false).await
            })
            .await
    }

    async fn crew_waiting(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        self.list(&epics::waiting(limit), waiting).await
    }

    async fn crew_orphans(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        self.list(&epics::orphans(limit), waiting).await
    }

    async fn crew_merged(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError> {
        self.list(&epics::merged(limit), waiting).await
    }

    async fn crew_adrift(&self, limit: usize) -> Result<Vec<StaleWorker>, StoreError> {
        self.list(&epics::adrift(limit), adrift).await
    }

    async fn crew_posts(&self, limit: usize) -> Result<Vec<BusyWorker>, StoreError> {
        self.list(&epics::posts(limit), post).await
    }

    async fn crew_strays(&self, limit: usize) -> Result<Vec<OrphanRun>, StoreError> {
        self.list(&epics::strays(limit), stray).await
    }

    async fn workers_for(&self, org: &str, task: TaskId) -> Result<Vec<Agent>, StoreError> {
        let sql = &epics::workers_for('$');
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &uuid(task.id)]).await?;
                found.iter().map(|row| agent::read(&mut row.reader())).collect()
            })
            .await
    }

    async fn workers_count(&self, org: &str) -> Result<u64, StoreError> {
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::one(&db, &epics::workers_count('$'), &[&org]).await?;
                let count = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
                Ok(count.unwrap_or_default().unsigned_abs())
            })
            .await
    }

    async fn workspace_is_taken(&self, org: &str, name: &str) -> Result<bool, StoreError> {
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::one(&db, &epics::workspace_taken('$'), &[&org, &name]).await?;
                Ok(found.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
            })
            .await
    }
}
