//! A crew's agents, mail and decisions: locked and loaded for a batch, written, read.

use std::collections::BTreeSet;

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId, Decision, DecisionId, Mail, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::needs::CrewNeeds;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_domain::world::CrewWrite;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::batch::Batch;
use super::db::Db;
use super::errors::Trouble;
use super::rows::{self, uuid};
use super::{PostgresStore, read, schema};
use crate::crew::{AGENT, AGENT_ALL, epics_sql, mail_columns, unread_sql};
use crate::epics::workers_count;
use crate::{AgentQuery, CrewStore, DecisionQuery, MailQuery, MailSeen, StoreError};

type Result<T, E = Trouble> = std::result::Result<T, E>;

/// The rows of crews that a batch needs.
#[derive(Default)]
pub(super) struct Wanted {
    agents: BTreeSet<(i64, AgentId)>,
    mails: BTreeSet<Id>,
    /// Orgs whose workers are counted.
    workers: BTreeSet<i64>,
}

impl Wanted {
    pub fn add(&mut self, org: i64, needs: &CrewNeeds) {
        self.agents.extend(needs.agents.iter().map(|agent| (org, agent.clone())));
        self.mails.extend(needs.mails.iter().map(|mail| mail.0));
        self.workers.extend(needs.workers.then_some(org));
    }
}

/// Locks mails first, then agents, each in the order of their keys. Every process locks in this order.
pub(super) async fn fetch(db: &Db, wanted: &Wanted, batch: &mut Batch) -> Result<()> {
    let mut agents = wanted.agents.clone();
    if !wanted.mails.is_empty() {
        let ids: Vec<_> = wanted.mails.iter().map(|id| uuid(*id)).collect();
        let sql = format!(
            "SELECT {} WHERE m.id = ANY($1) ORDER BY m.id FOR UPDATE OF m",
            mail_columns("m.body").replacen(" FROM", ", m.org FROM", 1)
        );
        for row in read::all(db, &sql, &[&ids]).await? {
            let (org, MailSeen { mail, .. }) = (row.try_get(10)?, mail_row(&row)?);
            agents.extend(mail.from.clone().map(|from| (org, from)));
            batch.desk(org).rows.crew.mails.push(mail);
        }
    }
    if !agents.is_empty() {
        let orgs: Vec<i64> = agents.iter().map(|(org, _)| *org).collect();
        let ids: Vec<&str> = agents.iter().map(|(_, id)| id.as_str()).collect();
        let sql = format!(
            "SELECT {} WHERE (a.org, a.id) IN (SELECT * FROM unnest($1::bigint[], $2::text[])) \
             ORDER BY a.org, a.id FOR UPDATE OF a",
            AGENT.replacen(" FROM", ", a.org FROM", 1)
        );
        for row in read::all(db, &sql, &[&orgs, &ids]).await? {
            batch.desk(row.try_get(11)?).rows.crew.agents.push(agent_row(&row)?);
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

pub(super) fn agent_row(row: &Row) -> Result<Agent> {
    let time = |column| Ok::<_, Trouble>(row.try_get::<_, Option<i64>>(column)?.map(Timestamp));
    let task = |column: usize| match rows::optional_id(row, column)? {
        None => Ok(None),
        Some(_) => rows::task_id(row, column, column + 1).map(Some),
    };
    Ok(Agent {
        id: agent_id(row, 0)?.ok_or_else(|| rows::damaged("agent"))?,
        kind: agent_type(row, 1)?.ok_or_else(|| rows::damaged("type"))?,
        epic: task(2)?,
        task: task(4)?,
        idle_since: time(6)?,
        last_active_at: rows::time(row, 7)?,
        created_at: rows::time(row, 8)?,
        updated_at: rows::time(row, 9)?,
        failed_at: time(10)?,
    })
}

pub(super) fn agent_id(row: &Row, column: usize) -> Result<Option<AgentId>> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| AgentId::parse(text).ok_or_else(|| rows::damaged("agent"))).transpose()
}

fn agent_type(row: &Row, column: usize) -> Result<Option<AgentType>> {
    Ok(row.try_get::<_, Option<&str>>(column)?.and_then(AgentType::parse))
}

fn mail_row(row: &Row) -> Result<MailSeen> {
    let mail = Mail {
        id: MailId(rows::id(row, 0)?),
        from: agent_id(row, 1)?,
        to: agent_id(row, 2)?,
        subject: row.try_get(3)?,
        body: row.try_get(4)?,
        in_reply_to: rows::optional_id(row, 5)?.map(MailId),
        created_at: rows::time(row, 6)?,
        read_at: row.try_get::<_, Option<i64>>(7)?.map(Timestamp),
    };
    Ok(MailSeen { mail, from_type: agent_type(row, 8)?, body_chars: rows::count(row, 9)? })
}

fn decision_row(row: &Row) -> Result<Decision> {
    Ok(Decision {
        id: DecisionId(rows::id(row, 0)?),
        agent: agent_id(row, 1)?.ok_or_else(|| rows::damaged("agent"))?,
        decision: row.try_get(2)?,
        reasoning: row.try_get(3)?,
        context: row.try_get(4)?,
        at: rows::time(row, 5)?,
    })
}

pub(super) async fn write(db: &Db, org: i64, write: &CrewWrite) -> Result<()> {
    match write {
        CrewWrite::AgentInsert { agent } => agent_put(db, org, agent, "").await?,
        CrewWrite::AgentUpdate { agent } => {
            let again = "ON CONFLICT (org, id) DO UPDATE SET epic = excluded.epic, \
                 task = excluded.task, idle_since = excluded.idle_since, \
                 last_active_at = excluded.last_active_at, updated_at = excluded.updated_at, \
                 failed_at = excluded.failed_at";
            agent_put(db, org, agent, again).await?;
        }
        CrewWrite::AgentRemove { agent } => {
            let sql = "DELETE FROM crew_agents WHERE org = $1 AND id = $2";
            read::one(db, sql, &[&org, &agent.as_str()]).await?;
        }
        CrewWrite::MailInsert { mail } => {
            let sql = "INSERT INTO mails (id, org, from_agent, to_agent, subject, body, \
                     in_reply_to, created_at, read_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
            let from = mail.from.as_ref().map(AgentId::as_str);
            let to = mail.to.as_ref().map(AgentId::as_str);
            let (id, original) = (uuid(mail.id.0), mail.in_reply_to.map(|mail| uuid(mail.0)));
            let (created_at, read_at) = (mail.created_at.0, mail.read_at.map(|at| at.0));
            let values: [&(dyn ToSql + Sync); 9] = [
                &id,
                &org,
                &from,
                &to,
                &mail.subject,
                &mail.body,
                &original,
                &created_at,
                &read_at,
            ];
            read::one(db, sql, &values).await?;
        }
        CrewWrite::MailRead { mail, at } => {
            let sql = "UPDATE mails SET read_at = $3 WHERE org = $1 AND id = $2";
            read::one(db, sql, &[&org, &uuid(mail.0), &at.0]).await?;
        }
        CrewWrite::DecisionInsert { decision } => {
            let sql = "INSERT INTO decisions (id, org, agent, decision, reasoning, context, at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let Decision { id, agent, decision, reasoning, context, at } = decision;
            let (id, agent) = (uuid(id.0), agent.as_str());
            let values: [&(dyn ToSql + Sync); 7] =
                [&id, &org, &agent, decision, reasoning, context, &at.0];
            read::one(db, sql, &values).await?;
        }
    }
    Ok(())
}

async fn agent_put(db: &Db, org: i64, agent: &Agent, otherwise: &str) -> Result<()> {
    let sql = format!(
        "INSERT INTO crew_agents ({AGENT_ALL}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         {otherwise}"
    );
    let Agent { id, kind, created_at, updated_at, last_active_at, .. } = agent;
    let (id, kind) = (id.as_str(), kind.as_str());
    let epic = agent.epic.map(|epic| uuid(epic.id));
    let task = agent.task.map(|task| uuid(task.id));
    let idle_since = agent.idle_since.map(|at| at.0);
    let failed_at = agent.failed_at.map(|at| at.0);
    let values: [&(dyn ToSql + Sync); 10] = [
        &org,
        &id,
        &kind,
        &epic,
        &task,
        &idle_since,
        &last_active_at.0,
        &created_at.0,
        &updated_at.0,
        &failed_at,
    ];
    read::one(db, &sql, &values).await?;
    Ok(())
}

/// Above every id that can exist.
const ABOVE_ALL: Id = Id(u128::MAX);

#[async_trait]
impl CrewStore for PostgresStore {
    async fn agent(&self, org: &str, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        let sql = &format!("SELECT {AGENT} WHERE a.org = $1 AND a.id = $2");
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::one(&db, sql, &[&org, &id.as_str()]).await?;
                found.as_ref().map(agent_row).transpose()
            })
            .await
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        let sql = &format!(
            "SELECT {AGENT} WHERE a.org = $1 AND ($2::text IS NULL OR a.type = $2) \
             AND ($3::uuid IS NULL OR a.epic = $3) ORDER BY a.created_at, a.id LIMIT $4"
        );
        let query = &query;
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, &query.org).await?;
                let kind = query.kind.map(AgentType::as_str);
                let (epic, limit) = (query.epic.map(|epic| uuid(epic.id)), query.limit as i64);
                let found = read::all(&db, sql, &[&org, &kind, &epic, &limit]).await?;
                found.iter().map(agent_row).collect()
            })
            .await
    }

    async fn mail(&self, org: &str, id: MailId) -> Result<Option<MailSeen>, StoreError> {
        let sql = &format!("SELECT {} WHERE m.org = $1 AND m.id = $2", mail_columns("m.body"));
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::one(&db, sql, &[&org, &uuid(id.0)]).await?;
                found.as_ref().map(mail_row).transpose()
            })
            .await
    }

    async fn mails(&self, query: MailQuery) -> Result<Vec<MailSeen>, StoreError> {
        let (sql, query) = (&query.sql('$'), &query);
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, &query.org).await?;
                let before = uuid(query.before.map_or(ABOVE_ALL, |mail| mail.0));
                let (limit, to) = (query.limit as i64, query.to.as_ref().map(AgentId::as_str));
                let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org, &before, &limit];
                values.extend(to.as_ref().map(|to| to as &(dyn ToSql + Sync)));
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
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(|row| rows::task_id(row, 0, 1)).collect()
            })
            .await
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<Decision>, StoreError> {
        let (sql, query) = (&query.sql('$'), &query);
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, &query.org).await?;
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
