//! A crew's agents, mail and decisions: reads and writes.

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId, Decision, DecisionId, Mail, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::needs::CrewNeeds;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_domain::world::{CrewWorld, CrewWrite};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::errors::from_sqlite;
use super::{SqliteStore, read, rows};
use crate::crew::{AGENT, AGENT_ALL, epics_sql, mail_columns, unread_sql};
use crate::epics::workers_count;
use crate::{AgentQuery, CrewStore, DecisionQuery, MailQuery, MailSeen, StoreError};

pub(super) fn rows(db: &Connection, org: i64, needs: &CrewNeeds) -> Result<CrewWorld> {
    let mut found = CrewWorld::default();
    let mut wanted = needs.agents.clone();
    for id in &needs.mails {
        if let Some(MailSeen { mail, .. }) = mail(db, org, *id)? {
            wanted.extend(mail.from.clone());
            found.mails.push(mail);
        }
    }
    for id in &wanted {
        found.agents.extend(agent(db, org, id)?);
    }
    if needs.workers {
        let mut count = db.prepare_cached(&workers_count('?'))?;
        found.workers = count.query_row([org], |row| row.get(0))?;
    }
    Ok(found)
}

fn agent(db: &Connection, org: i64, id: &AgentId) -> Result<Option<Agent>> {
    db.prepare_cached(&format!("SELECT {AGENT} WHERE a.org = ?1 AND a.id = ?2"))?
        .query_row(params![org, id.as_str()], agent_row)
        .optional()
}

pub(super) fn agent_row(row: &Row<'_>) -> Result<Agent> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Timestamp));
    let task = |column: usize| match rows::optional_id(row, column)? {
        None => Ok(None),
        Some(_) => rows::task_id(row, column, column + 1).map(Some),
    };
    Ok(Agent {
        id: agent_id(row, 0)?.ok_or_else(|| rows::damaged(0, "agent"))?,
        kind: agent_type(row, 1)?.ok_or_else(|| rows::damaged(1, "type"))?,
        epic: task(2)?,
        task: task(4)?,
        idle_since: time(6)?,
        last_active_at: rows::time(row, 7)?,
        created_at: rows::time(row, 8)?,
        updated_at: rows::time(row, 9)?,
        failed_at: time(10)?,
    })
}

pub(super) fn agent_id(row: &Row<'_>, column: usize) -> Result<Option<AgentId>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    let parse = |text| AgentId::parse(text).ok_or_else(|| rows::damaged(column, "agent"));
    text.map(parse).transpose()
}

fn agent_type(row: &Row<'_>, column: usize) -> Result<Option<AgentType>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.and_then(AgentType::parse))
}

pub(super) fn mail(db: &Connection, org: i64, id: MailId) -> Result<Option<MailSeen>> {
    let sql = format!("SELECT {} WHERE m.org = ?1 AND m.id = ?2", mail_columns("m.body"));
    db.prepare_cached(&sql)?.query_row(params![org, id.0.to_bytes()], mail_row).optional()
}

fn mail_row(row: &Row<'_>) -> Result<MailSeen> {
    let mail = Mail {
        id: MailId(rows::id(row, 0)?),
        from: agent_id(row, 1)?,
        to: agent_id(row, 2)?,
        subject: row.get(3)?,
        body: row.get(4)?,
        in_reply_to: rows::optional_id(row, 5)?.map(MailId),
        created_at: rows::time(row, 6)?,
        read_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
    };
    Ok(MailSeen {
        mail,
        from_type: agent_type(row, 8)?,
        body_chars: row.get::<_, i64>(9)?.unsigned_abs() as usize,
    })
}

fn decision_row(row: &Row<'_>) -> Result<Decision> {
    Ok(Decision {
        id: DecisionId(rows::id(row, 0)?),
        agent: agent_id(row, 1)?.ok_or_else(|| rows::damaged(1, "agent"))?,
        decision: row.get(2)?,
        reasoning: row.get(3)?,
        context: row.get(4)?,
        at: rows::time(row, 5)?,
    })
}

pub(super) fn write(db: &Connection, org: i64, write: &CrewWrite) -> Result<()> {
    match write {
        CrewWrite::AgentInsert { agent } => agent_put(db, org, agent, "INSERT")?,
        CrewWrite::AgentUpdate { agent } => agent_put(db, org, agent, "INSERT OR REPLACE")?,
        CrewWrite::AgentRemove { agent } => db
            .prepare_cached("DELETE FROM crew_agents WHERE org = ?1 AND id = ?2")?
            .execute(params![org, agent.as_str()])?,
        CrewWrite::MailInsert { mail } => db
            .prepare_cached(
                "INSERT INTO mails (id, org, from_agent, to_agent, subject, body, in_reply_to, \
                     created_at, read_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                mail.id.0.to_bytes(),
                org,
                mail.from.as_ref().map(AgentId::as_str),
                mail.to.as_ref().map(AgentId::as_str),
                mail.subject,
                mail.body,
                mail.in_reply_to.map(|mail| mail.0.to_bytes()),
                mail.created_at.0,
                mail.read_at.map(|at| at.0),
            ])?,
        CrewWrite::MailRead { mail, at } => db
            .prepare_cached("UPDATE mails SET read_at = ?3 WHERE org = ?1 AND id = ?2")?
            .execute(params![org, mail.0.to_bytes(), at.0])?,
        CrewWrite::DecisionInsert { decision } => db
            .prepare_cached(
                "INSERT INTO decisions (id, org, agent, decision, reasoning, context, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                decision.id.0.to_bytes(),
                org,
                decision.agent.as_str(),
                decision.decision,
                decision.reasoning,
                decision.context,
                decision.at.0,
            ])?,
    };
    Ok(())
}

fn agent_put(db: &Connection, org: i64, agent: &Agent, how: &str) -> Result<usize> {
    let sql = format!(
        "{how} INTO crew_agents ({AGENT_ALL}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    );
    db.prepare_cached(&sql)?.execute(params![
        org,
        agent.id.as_str(),
        agent.kind.as_str(),
        agent.epic.map(|epic| epic.id.to_bytes()),
        agent.task.map(|task| task.id.to_bytes()),
        agent.idle_since.map(|at| at.0),
        agent.last_active_at.0,
        agent.created_at.0,
        agent.updated_at.0,
        agent.failed_at.map(|at| at.0),
    ])
}

/// Above every id that can exist.
const ABOVE_ALL: Id = Id(u128::MAX);

#[async_trait]
impl CrewStore for SqliteStore {
    async fn agent(&self, org: &str, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        self.shared.read(|db, _| agent(db, read::org(db, org)?, id).map_err(from_sqlite))
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        self.read(move |db, _| {
            let org = read::org(db, &query.org)?;
            let sql = format!(
                "SELECT {AGENT} WHERE a.org = ?1 AND (?2 IS NULL OR a.type = ?2) \
                 AND (?3 IS NULL OR a.epic = ?3) ORDER BY a.created_at, a.id LIMIT ?4"
            );
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                let kind = query.kind.map(AgentType::as_str);
                let epic = query.epic.map(|epic| epic.id.to_bytes());
                found.query_map(params![org, kind, epic, query.limit as i64], agent_row)?.collect()
            });
            found.map_err(from_sqlite)
        })
        .await
    }

    async fn mail(&self, org: &str, id: MailId) -> Result<Option<MailSeen>, StoreError> {
        self.shared.read(|db, _| mail(db, read::org(db, org)?, id).map_err(from_sqlite))
    }

    async fn mails(&self, query: MailQuery) -> Result<Vec<MailSeen>, StoreError> {
        self.read(move |db, _| {
            let org = read::org(db, &query.org)?;
            let before = query.before.map_or(ABOVE_ALL, |mail| mail.0).to_bytes();
            let limit = query.limit as i64;
            let found = db.prepare_cached(&query.sql('?')).and_then(|mut found| {
                let to = query.to.as_ref().map(AgentId::as_str);
                match to {
                    Some(to) => found.query_map(params![org, before, limit, to], mail_row),
                    None => found.query_map(params![org, before, limit], mail_row),
                }?
                .collect()
            });
            found.map_err(from_sqlite)
        })
        .await
    }

    async fn mails_unread(&self, org: &str, to: Option<&AgentId>) -> Result<u64, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let count = |row: &Row<'_>| row.get::<_, i64>(0).map(i64::unsigned_abs);
            let found = db.prepare_cached(&unread_sql(to, '?')).and_then(|mut found| match to {
                Some(to) => found.query_row(params![org, to.as_str()], count),
                None => found.query_row(params![org], count),
            });
            found.map_err(from_sqlite)
        })
    }

    async fn epics(&self, org: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let found = db.prepare_cached(&epics_sql('?')).and_then(|mut found| {
                let id = |row: &Row<'_>| rows::task_id(row, 0, 1);
                found.query_map(params![org, limit as i64], id)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<Decision>, StoreError> {
        self.read(move |db, _| {
            let org = read::org(db, &query.org)?;
            let before = query.before.map_or(ABOVE_ALL, |decision| decision.0).to_bytes();
            let limit = query.limit as i64;
            let found = db.prepare_cached(&query.sql('?')).and_then(|mut found| {
                match &query.agent {
                    Some(agent) => {
                        found.query_map(params![org, before, limit, agent.as_str()], decision_row)
                    }
                    None => found.query_map(params![org, before, limit], decision_row),
                }?
                .collect()
            });
            found.map_err(from_sqlite)
        })
        .await
    }
}
