//! A crew's agents, mail and decisions: locked and loaded for a batch, read.

pub(crate) mod epics;

use std::collections::BTreeSet;

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId, Decision, Mail, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::needs::CrewNeeds;
use callboard_domain::rights::AgentType;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::crew::epics::workers_count;
use crate::crew::{answers_sql, epics_sql, unread_sql};
use crate::postgres::batch::Batch;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, read, schema};
use crate::table::agent::{self, AGENT, AGENT_FROM};
use crate::table::mail::{self, MAIL_FROM};
use crate::table::{Cells, decision};
use crate::{AgentQuery, CrewStore, DecisionQuery, MailQuery, MailSeen, StoreError};

/// The rows of crews that a batch needs.
#[derive(Default)]
pub(crate) struct CrewRowsWanted {
    agents: BTreeSet<(i64, AgentId)>,
    mails: BTreeSet<Id>,
    /// Orgs whose workers are counted.
    workers: BTreeSet<i64>,
}

impl CrewRowsWanted {
    /// Adds the rows of one command. Sets keep the order of keys, in which the rows are locked.
    pub fn add(&mut self, org: i64, needs: &CrewNeeds) {
        self.agents.extend(needs.agents.iter().map(|agent| (org, agent.clone())));
        self.mails.extend(needs.mails.iter().map(|mail| mail.0));
        self.workers.extend(needs.workers.then_some(org));
    }
}

/// Locks mails first, then agents, each in the order of their keys. Every process locks in this order.
pub(crate) async fn fetch(db: &Db, wanted: &CrewRowsWanted, batch: &mut Batch) -> Result<()> {
    let mut agents = wanted.agents.clone();
    if !wanted.mails.is_empty() {
        let ids: Vec<_> = wanted.mails.iter().map(|id| uuid(*id)).collect();
        let sql = format!(
            "SELECT {}, m.org FROM {MAIL_FROM} WHERE m.id = ANY($1) ORDER BY m.id FOR UPDATE OF m",
            mail::columns("m.body")
        );
        for row in read::all(db, &sql, &[&ids]).await? {
            let mut row = row.reader();
            let (MailSeen { mail, .. }, org) = (mail::read(&mut row)?, row.int()?);
            // A reply goes to the sender, whose row is known only now. That is why mails are locked before agents.
            agents.extend(mail.from.clone().map(|from| (org, from)));
            batch.desk(org).rows.crew.mails.push(mail);
        }
    }
    if !agents.is_empty() {
        let orgs: Vec<i64> = agents.iter().map(|(org, _)| *org).collect();
        let ids: Vec<&str> = agents.iter().map(|(_, id)| id.as_str()).collect();
        let sql = format!(
            "SELECT {AGENT}, a.org FROM {AGENT_FROM} \
             WHERE (a.org, a.id) IN (SELECT * FROM unnest($1::bigint[], $2::text[])) \
             ORDER BY a.org, a.id FOR UPDATE OF a"
        );
        for row in read::all(db, &sql, &[&orgs, &ids]).await? {
            let mut row = row.reader();
            let agent = agent::read(&mut row)?;
            batch.desk(row.int()?).rows.crew.agents.push(agent);
        }
    }
    for org in &wanted.workers {
        // Without the lock, two batches that count at once would both see room for one more.
        db.batch_execute(&schema::alone_with(&format!("workers of {org}"))).await?;
        let count = read::one(db, &workers_count('$'), &[org]).await?;
        let count = count.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        batch.desk(*org).rows.crew.workers = count.unwrap_or_default() as u32;
    }
    Ok(())
}

fn agent_row(row: &Row) -> Result<Agent> {
    agent::read(&mut row.reader())
}

fn mail_row(row: &Row) -> Result<MailSeen> {
    mail::read(&mut row.reader())
}

fn decision_row(row: &Row) -> Result<Decision> {
    decision::read(&mut row.reader())
}

/// Above every id that can exist.
const ABOVE_ALL: Id = Id(u128::MAX);

#[async_trait]
impl CrewStore for PostgresStore {
    async fn agent(&self, org: &str, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        let sql = &format!("SELECT {AGENT} FROM {AGENT_FROM} WHERE a.org = $1 AND a.id = $2");
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::one(&db, sql, &[&org, &id.as_str()]).await?;
                found.as_ref().map(agent_row).transpose()
            })
            .await
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        let sql = &format!(
            "SELECT {AGENT} FROM {AGENT_FROM} WHERE a.org = $1 AND ($2::text IS NULL OR a.type = $2) \
             AND ($3::uuid IS NULL OR a.epic = $3) ORDER BY a.created_at, a.id LIMIT $4"
        );
        let query = &query;
        self.shared
            .read_in(&query.org, |db, org| async move {
                let kind = query.kind.map(AgentType::as_str);
                let (epic, limit) = (query.epic.map(|epic| uuid(epic.id)), query.limit as i64);
                let found = read::all(&db, sql, &[&org, &kind, &epic, &limit]).await?;
                found.iter().map(agent_row).collect()
            })
            .await
    }

    async fn mail(&self, org: &str, id: MailId) -> Result<Option<MailSeen>, StoreError> {
        let columns = mail::columns("m.body");
        let sql = &format!("SELECT {columns} FROM {MAIL_FROM} WHERE m.org = $1 AND m.id = $2");
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::one(&db, sql, &[&org, &uuid(id.0)]).await?;
                found.as_ref().map(mail_row).transpose()
            })
            .await
    }

    async fn mails(&self, query: MailQuery) -> Result<Vec<MailSeen>, StoreError> {
        let (sql, query) = (&query.sql('$'), &query);
        self.shared
            .read_in(&query.org, |db, org| async move {
                let before = uuid(query.before.map_or(ABOVE_ALL, |mail| mail.0));
                let (limit, to) = (query.limit as i64, query.to.as_ref().map(AgentId::as_str));
                let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org, &before, &limit];
                // The inbox of people has another condition and so one value less.
                values.extend(to.as_ref().map(|to| to as &(dyn ToSql + Sync)));
                read::all(&db, sql, &values).await?.iter().map(mail_row).collect()
            })
            .await
    }

    async fn mail_answers(
        &self,
        org: &str,
        mail: &Mail,
        limit: usize,
    ) -> Result<Vec<MailSeen>, StoreError> {
        let sql = &answers_sql(mail.from.as_ref(), '$');
        self.shared
            .read_in(org, |db, org| async move {
                let (id, limit) = (uuid(mail.id.0), limit as i64);
                let from = mail.from.as_ref().map(AgentId::as_str);
                let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org, &id, &limit];
                values.extend(from.as_ref().map(|from| from as &(dyn ToSql + Sync)));
                read::all(&db, sql, &values).await?.iter().map(mail_row).collect()
            })
            .await
    }

    async fn mails_unread(&self, org: &str, to: Option<&AgentId>) -> Result<u64, StoreError> {
        let sql = &unread_sql(to, '$');
        self.shared
            .read(|db| async move {
                let (org, to) = (self.shared.orgs.get(&db, org).await?, to.map(AgentId::as_str));
                let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org];
                values.extend(to.as_ref().map(|to| to as &(dyn ToSql + Sync)));
                let found = read::one(&db, sql, &values).await?;
                let count = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
                Ok(count.unwrap_or_default().unsigned_abs())
            })
            .await
    }

    async fn epics(&self, org: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        let sql = &epics_sql('$');
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(|row| row.reader().task()).collect()
            })
            .await
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<Decision>, StoreError> {
        let (sql, query) = (&query.sql('$'), &query);
        self.shared
            .read_in(&query.org, |db, org| async move {
                let before = uuid(query.before.map_or(ABOVE_ALL, |decision| decision.0));
                let limit = query.limit as i64;
                let agent = query.agent.as_ref().map(AgentId::as_str);
                let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org, &before, &limit];
                values.extend(agent.as_ref().map(|agent| agent as &(dyn ToSql + Sync)));
                read::all(&db, sql, &values).await?.iter().map(decision_row).collect()
            })
            .await
    }
}
