//! Handles of calls that outlive their request.

use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::rights::Scope;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use super::errors::from_sqlite;
use super::{read, rows};
use crate::StoreError;
use crate::handles::Columns;

const HANDLE: &str = "h.id, o.name, h.actor, h.tool, h.scope, h.runner, h.state, h.alive_until, \
     h.cancel_asked, h.questions, h.answers, h.outcome, h.message, h.created_at, h.updated_at, \
     h.expires_at FROM handles h JOIN orgs o ON o.id = h.org";

pub(super) fn add(db: &Connection, handle: &Handle) -> Result<(), StoreError> {
    let org = read::org(db, &handle.org)?;
    let Columns { state, alive_until, cancel_asked, questions, answers, outcome } =
        Columns::of(&handle.state);
    db.execute(
        "INSERT INTO handles (id, org, actor, tool, scope, runner, state, alive_until, \
         cancel_asked, questions, answers, outcome, message, created_at, updated_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            handle.id.0.to_bytes(),
            org,
            handle.actor.as_str(),
            handle.tool,
            handle.scope.as_str(),
            handle.runner.as_str(),
            state,
            alive_until,
            cancel_asked,
            questions,
            answers,
            outcome,
            handle.message,
            handle.created_at.0,
            handle.updated_at.0,
            handle.expires_at.0,
        ],
    )
    .map_err(from_sqlite)?;
    Ok(())
}

pub(super) fn find(db: &Connection, id: HandleId) -> Result<Option<Handle>> {
    db.prepare_cached(&format!("SELECT {HANDLE} WHERE h.id = ?1"))?
        .query_row([id.0.to_bytes()], handle)
        .optional()
}

pub(super) fn change(
    db: &mut Connection,
    changes: Vec<(HandleId, HandleChange)>,
    now: Timestamp,
) -> Result<Vec<Handle>> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut handles = Vec::with_capacity(changes.len());
    for (id, change) in changes {
        let Some(found) = find(&tx, id)? else { continue };
        let next = found.after(change, now);
        if let Some(next) = &next {
            write(&tx, next)?;
        }
        handles.push(next.unwrap_or(found));
    }
    tx.commit()?;
    Ok(handles)
}

fn write(db: &Connection, handle: &Handle) -> Result<()> {
    let Columns { state, alive_until, cancel_asked, questions, answers, outcome } =
        Columns::of(&handle.state);
    db.prepare_cached(
        "UPDATE handles SET state = ?2, alive_until = ?3, cancel_asked = ?4, questions = ?5, \
         answers = ?6, outcome = ?7, message = ?8, updated_at = ?9, expires_at = ?10 WHERE id = ?1",
    )?
    .execute(params![
        handle.id.0.to_bytes(),
        state,
        alive_until,
        cancel_asked,
        questions,
        answers,
        outcome,
        handle.message,
        handle.updated_at.0,
        handle.expires_at.0,
    ])?;
    Ok(())
}

pub(super) fn prune(db: &Connection, before: Timestamp) -> Result<()> {
    db.execute(
        "DELETE FROM handles WHERE expires_at < ?1 \
         AND (alive_until IS NULL OR alive_until < ?1)",
        [before.0],
    )?;
    Ok(())
}

fn handle(row: &Row<'_>) -> Result<Handle> {
    let columns = Columns {
        state: row.get(6)?,
        alive_until: row.get(7)?,
        cancel_asked: row.get(8)?,
        questions: row.get(9)?,
        answers: row.get(10)?,
        outcome: row.get(11)?,
    };
    let scope = row.get_ref(4)?.as_str()?;
    Ok(Handle {
        id: HandleId(rows::id(row, 0)?),
        org: row.get::<_, String>(1)?.into(),
        actor: rows::actor(row, 2)?,
        tool: row.get(3)?,
        scope: Scope::parse(scope).ok_or_else(|| rows::damaged(4, "scope"))?,
        runner: rows::actor(row, 5)?,
        state: columns.state().ok_or_else(|| rows::damaged(6, "state"))?,
        message: row.get(12)?,
        created_at: rows::time(row, 13)?,
        updated_at: rows::time(row, 14)?,
        expires_at: rows::time(row, 15)?,
    })
}
