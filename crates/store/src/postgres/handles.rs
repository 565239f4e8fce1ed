//! Handles of calls that outlive their request.

use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::rights::Scope;
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::db::Db;
use super::errors::Trouble;
use super::read;
use super::rows::{self, uuid};
use crate::handles::Columns;

type Result<T> = std::result::Result<T, Trouble>;

const HANDLE: &str = "h.id, o.name, h.actor, h.tool, h.scope, h.runner, h.state, h.alive_until, \
     h.cancel_asked, h.questions, h.answers, h.outcome, h.message, h.created_at, h.updated_at, \
     h.expires_at FROM handles h JOIN orgs o ON o.id = h.org";

/// May be repeated: an id that is there already is this handle's.
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

/// In a transaction. May be repeated: what was changed before changes nothing.
pub(super) async fn change(
    db: &Db,
    id: HandleId,
    change: HandleChange,
    now: Timestamp,
) -> Result<Option<Handle>> {
    let sql = format!("SELECT {HANDLE} WHERE h.id = $1 FOR NO KEY UPDATE OF h");
    let Some(row) = read::one(db, &sql, &[&uuid(id.0)]).await? else { return Ok(None) };
    let found = handle(&row)?;
    let Some(next) = found.after(change, now) else { return Ok(Some(found)) };
    let Columns { state, alive_until, cancel_asked, questions, answers, outcome } =
        Columns::of(&next.state);
    read::one(
        db,
        "UPDATE handles SET state = $2, alive_until = $3, cancel_asked = $4, questions = $5, \
         answers = $6, outcome = $7, message = $8, updated_at = $9, expires_at = $10 WHERE id = $1",
        &[
            &uuid(id.0),
            &state,
            &alive_until,
            &cancel_asked,
            &questions,
            &answers,
            &outcome,
            &next.message,
            &next.updated_at.0,
            &next.expires_at.0,
        ],
    )
    .await?;
    Ok(Some(next))
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
