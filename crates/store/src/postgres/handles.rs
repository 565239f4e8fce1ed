//! Handles of calls that outlive their request.

use std::collections::HashMap;

use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::rights::Scope;
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::db::Db;
use super::errors::Trouble;
use super::read;
use super::rows::{self, uuid};
use crate::handles::Columns;

type Result<T> = std::result::Result<T, Trouble>;

const HANDLE: &str = "h.id, o.name, h.actor, h.tool, h.scope, h.runner, h.state, h.alive_until, \
     h.cancel_asked, h.questions, h.answers, h.outcome, h.message, h.created_at, h.updated_at, \
     h.expires_at FROM handles h JOIN orgs o ON o.id = h.org";

/// Stores a handle. Idempotent: an existing id is this handle's.
pub(super) async fn add(db: &Db, org: i64, handle: &Handle) -> Result<()> {
    let Columns { state, alive_until, cancel_asked, questions, answers, outcome } =
        Columns::of(&handle.state);
    read::one(
        db,
        "INSERT INTO handles (id, org, actor, tool, scope, runner, state, alive_until, \
         cancel_asked, questions, answers, outcome, message, created_at, updated_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (id) DO NOTHING",
        &[
            &uuid(handle.id.0),
            &org,
            &handle.actor.as_str(),
            &handle.tool,
            &handle.scope.as_str(),
            &handle.runner.as_str(),
            &state,
            &alive_until,
            &cancel_asked,
            &questions,
            &answers,
            &outcome,
            &handle.message,
            &handle.created_at.0,
            &handle.updated_at.0,
            &handle.expires_at.0,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn find(db: &Db, id: HandleId) -> Result<Option<Handle>> {
    let sql = format!("SELECT {HANDLE} WHERE h.id = $1");
    read::one(db, &sql, &[&uuid(id.0)]).await?.as_ref().map(handle).transpose()
}

/// Changes handles; needs a transaction. Idempotent: a change that was made before changes nothing.
pub(super) async fn change(
    db: &Db,
    changes: &[(HandleId, HandleChange)],
    now: Timestamp,
) -> Result<Vec<Handle>> {
    let ids: Vec<Uuid> = changes.iter().map(|(id, _)| uuid(id.0)).collect();
    // Rows are locked in one order everywhere, so that two transactions cannot deadlock.
    let sql = format!("SELECT {HANDLE} WHERE h.id = ANY($1) ORDER BY h.id FOR NO KEY UPDATE OF h");
    let mut found = HashMap::with_capacity(ids.len());
    for row in read::all(db, &sql, &[&ids]).await? {
        let handle = handle(&row)?;
        found.insert(handle.id, handle);
    }
    let (mut handles, mut news) = (Vec::with_capacity(found.len()), Changed::default());
    for (id, change) in changes {
        let Some(found) = found.remove(id) else { continue };
        let next = found.after(change.clone(), now);
        if let Some(next) = &next {
            news.add(next);
        }
        handles.push(next.unwrap_or(found));
    }
    news.write(db).await?;
    Ok(handles)
}

/// Changed handles, an array per column.
#[derive(Default)]
struct Changed {
    ids: Vec<Uuid>,
    states: Vec<String>,
    alive_until: Vec<Option<i64>>,
    cancel_asked: Vec<bool>,
    questions: Vec<String>,
    answers: Vec<String>,
    outcomes: Vec<Option<String>>,
    messages: Vec<Option<String>>,
    updated_at: Vec<i64>,
    expires_at: Vec<i64>,
}

impl Changed {
    fn add(&mut self, handle: &Handle) {
        let columns = Columns::of(&handle.state);
        self.ids.push(uuid(handle.id.0));
        self.states.push(columns.state);
        self.alive_until.push(columns.alive_until);
        self.cancel_asked.push(columns.cancel_asked);
        self.questions.push(columns.questions);
        self.answers.push(columns.answers);
        self.outcomes.push(columns.outcome);
        self.messages.push(handle.message.clone());
        self.updated_at.push(handle.updated_at.0);
        self.expires_at.push(handle.expires_at.0);
    }

    async fn write(&self, db: &Db) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE handles SET state = n.state, alive_until = n.alive_until, \
             cancel_asked = n.cancel_asked, questions = n.questions, answers = n.answers, \
             outcome = n.outcome, message = n.message, updated_at = n.updated_at, \
             expires_at = n.expires_at \
             FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::bool[], $5::text[], $6::text[], \
             $7::text[], $8::text[], $9::int8[], $10::int8[]) AS n (id, state, alive_until, \
             cancel_asked, questions, answers, outcome, message, updated_at, expires_at) \
             WHERE handles.id = n.id";
        let columns: [&(dyn ToSql + Sync); 10] = [
            &self.ids,
            &self.states,
            &self.alive_until,
            &self.cancel_asked,
            &self.questions,
            &self.answers,
            &self.outcomes,
            &self.messages,
            &self.updated_at,
            &self.expires_at,
        ];
        read::all(db, sql, &columns).await?;
        Ok(())
    }
}

pub(super) async fn prune(db: &Db, before: Timestamp) -> Result<()> {
    let sql = "DELETE FROM handles WHERE expires_at < $1 \
         AND (alive_until IS NULL OR alive_until < $1)";
    read::one(db, sql, &[&before.0]).await?;
    Ok(())
}

fn handle(row: &Row) -> Result<Handle> {
    let columns = Columns {
        state: row.try_get(6)?,
        alive_until: row.try_get(7)?,
        cancel_asked: row.try_get(8)?,
        questions: row.try_get(9)?,
        answers: row.try_get(10)?,
        outcome: row.try_get(11)?,
    };
    Ok(Handle {
        id: HandleId(rows::id(row, 0)?),
        org: row.try_get::<_, &str>(1)?.into(),
        actor: rows::actor(row, 2)?,
        tool: row.try_get(3)?,
        scope: Scope::parse(row.try_get(4)?).ok_or_else(|| rows::damaged("scope"))?,
        runner: rows::actor(row, 5)?,
        state: columns.state().ok_or_else(|| rows::damaged("state"))?,
        message: row.try_get(12)?,
        created_at: rows::time(row, 13)?,
        updated_at: rows::time(row, 14)?,
        expires_at: rows::time(row, 15)?,
    })
}
