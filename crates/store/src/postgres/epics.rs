//! Epics and the workers for their tasks: reads.

use async_trait::async_trait;
use callboard_domain::crew::Agent;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::job::JobId;
use callboard_domain::policy::Phase;
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::errors::Trouble;
use super::rows::{self, uuid};
use super::{PostgresStore, cards, crew, read};
use crate::crew::AGENT;
use crate::epics::{self, Adrift, EpicQuery, EpicStore, Post, Stray, Waiting};
use crate::{CardRow, StoreError};

type Result<T, E = Trouble> = std::result::Result<T, E>;

fn waiting(row: &Row) -> Result<Waiting> {
    Ok(Waiting { org: row.try_get::<_, &str>(0)?.into(), task: rows::task_id(row, 1, 2)? })
}

fn adrift(row: &Row) -> Result<Adrift> {
    let agent = crew::agent_id(row, 3)?.ok_or_else(|| rows::damaged("agent"))?;
    let Waiting { org, task } = waiting(row)?;
    Ok(Adrift { org, agent, task })
}

fn post(row: &Row) -> Result<Post> {
    let Adrift { org, agent, task } = adrift(row)?;
    Ok(Post {
        org,
        agent,
        task,
        phase: Phase::parse(row.try_get(4)?).ok_or_else(|| rows::damaged("phase"))?,
        heard_at: rows::time(row, 5)?.max(rows::time(row, 6)?),
        is_run: row.try_get(7)?,
        mail_at: row.try_get::<_, Option<i64>>(8)?.map(Timestamp),
    })
}

fn stray(row: &Row) -> Result<Stray> {
    Ok(Stray { org: row.try_get::<_, &str>(0)?.into(), job: JobId(rows::id(row, 1)?) })
}

impl PostgresStore {
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
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, &query.org).await?;
                let (epic, after) = (uuid(query.epic.id), uuid(query.after.unwrap_or(Id(0))));
                cards::page_of(&db, page, &[&org, &epic, &after], false).await
            })
            .await
    }

    async fn crew_waiting(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        self.list(&epics::waiting(limit), waiting).await
    }

    async fn crew_orphans(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        self.list(&epics::orphans(limit), waiting).await
    }

    async fn crew_merged(&self, limit: usize) -> Result<Vec<Waiting>, StoreError> {
        self.list(&epics::merged(limit), waiting).await
    }

    async fn epic_pulls(&self, org: &str, epic: TaskId) -> Result<Vec<(Id, String)>, StoreError> {
        let sql = &epics::pulls('$');
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &uuid(epic.id)]).await?;
                found.iter().map(|row| Ok((rows::id(row, 0)?, row.try_get(1)?))).collect()
            })
            .await
    }

    async fn crew_adrift(&self, limit: usize) -> Result<Vec<Adrift>, StoreError> {
        self.list(&epics::adrift(limit), adrift).await
    }

    async fn crew_posts(&self, limit: usize) -> Result<Vec<Post>, StoreError> {
        self.list(&epics::posts(limit), post).await
    }

    async fn crew_strays(&self, limit: usize) -> Result<Vec<Stray>, StoreError> {
        self.list(&epics::strays(limit), stray).await
    }

    async fn workers_for(&self, org: &str, task: TaskId) -> Result<Vec<Agent>, StoreError> {
        let sql = &epics::workers_for(AGENT, '$');
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &uuid(task.id)]).await?;
                found.iter().map(crew::agent_row).collect()
            })
            .await
    }

    async fn workers_count(&self, org: &str) -> Result<u64, StoreError> {
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::one(&db, &epics::workers_count('$'), &[&org]).await?;
                let count = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
                Ok(count.unwrap_or_default().unsigned_abs())
            })
            .await
    }

    async fn workspace_is_taken(&self, org: &str, name: &str) -> Result<bool, StoreError> {
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::one(&db, &epics::workspace_taken('$'), &[&org, &name]).await?;
                Ok(found.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
            })
            .await
    }
}
