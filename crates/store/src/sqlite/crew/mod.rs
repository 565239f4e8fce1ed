//! A crew's agents, mail and decisions.

pub(crate) mod epics;

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId, Decision, Mail, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::needs::CrewNeeds;
use callboard_domain::rights::AgentType;
use callboard_domain::world::CrewWorld;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::crew::epics::workers_count;
use crate::crew::{answers_sql, epics_sql, unread_sql};
use crate::sqlite::SqliteStore;
use crate::sqlite::errors::from_sqlite;
use crate::table::agent::{self, AGENT, AGENT_FROM};
use crate::table::mail::{self, MAIL_FROM};
use crate::table::{Cells, decision};
use crate::{AgentQuery, CrewStore, DecisionQuery, MailQuery, MailSeen, StoreError};

/// The rows of a crew that a command needs. A mail brings its sender along, because a reply goes to that agent.
pub(crate) fn rows(db: &Connection, org: i64, needs: &CrewNeeds) -> Result<CrewWorld> {
    let mut found = CrewWorld::default();
    let mut wanted = needs.agents.clone();
    for id in &needs.mails {
        if let Some(MailSeen { mail, .. }) = mail(db, org, *id)? {
            wanted.extend(mail.from.clone());
            found.mails.push(mail);
        }
    }
    // After the mails, which may name further agents.
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
    db.prepare_cached(&format!("SELECT {AGENT} FROM {AGENT_FROM} WHERE a.org = ?1 AND a.id = ?2"))?
        .query_row(params![org, id.as_str()], agent_row)
        .optional()
}

fn agent_row(row: &Row<'_>) -> Result<Agent> {
    agent::read(&mut row.reader())
}

/// A mail with its whole body; lists show only a beginning.
pub(crate) fn mail(db: &Connection, org: i64, id: MailId) -> Result<Option<MailSeen>> {
    let columns = mail::columns("m.body");
    let sql = format!("SELECT {columns} FROM {MAIL_FROM} WHERE m.org = ?1 AND m.id = ?2");
    db.prepare_cached(&sql)?.query_row(params![org, id.0.to_bytes()], mail_row).optional()
}

fn mail_row(row: &Row<'_>) -> Result<MailSeen> {
    mail::read(&mut row.reader())
}

fn decision_row(row: &Row<'_>) -> Result<Decision> {
    decision::read(&mut row.reader())
}

/// Above every id that can exist.
/// The first page then needs no SQL of its own: it is the page below this id.
const ABOVE_ALL: Id = Id(u128::MAX);

#[async_trait]
impl CrewStore for SqliteStore {
    async fn agent(&self, org: &str, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        self.shared.read_in(org, |db, org, _| agent(db, org, id).map_err(from_sqlite))
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            let sql = format!(
                "SELECT {AGENT} FROM {AGENT_FROM} WHERE a.org = ?1 AND (?2 IS NULL OR a.type = ?2) \
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
        self.shared.read_in(org, |db, org, _| mail(db, org, id).map_err(from_sqlite))
    }

    async fn mails(&self, query: MailQuery) -> Result<Vec<MailSeen>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            let before = query.before.map_or(ABOVE_ALL, |mail| mail.0).to_bytes();
            let limit = query.limit as i64;
            let found = db.prepare_cached(&query.sql('?')).and_then(|mut found| {
                // The inbox of people has another condition and so one value less.
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

    async fn mail_answers(
        &self,
        org: &str,
        mail: &Mail,
        limit: usize,
    ) -> Result<Vec<MailSeen>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let (id, limit) = (mail.id.0.to_bytes(), limit as i64);
            let sql = answers_sql(mail.from.as_ref(), '?');
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                match &mail.from {
                    Some(from) => found.query_map(params![org, id, limit, from.as_str()], mail_row),
                    None => found.query_map(params![org, id, limit], mail_row),
                }?
                .collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn mails_unread(&self, org: &str, to: Option<&AgentId>) -> Result<u64, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let count = |row: &Row<'_>| row.get::<_, i64>(0).map(i64::unsigned_abs);
            let found = db.prepare_cached(&unread_sql(to, '?')).and_then(|mut found| match to {
                Some(to) => found.query_row(params![org, to.as_str()], count),
                None => found.query_row(params![org], count),
            });
            found.map_err(from_sqlite)
        })
    }

    async fn epics(&self, org: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let found = db.prepare_cached(&epics_sql('?')).and_then(|mut found| {
                let id = |row: &Row<'_>| row.reader().task();
                found.query_map(params![org, limit as i64], id)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<Decision>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
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
