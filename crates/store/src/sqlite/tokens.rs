//! The rows of tokens, which admit callers over HTTP.

use callboard_domain::actor::Actor;
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId};
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use crate::sqlite::settle;
use crate::table::Cells;
use crate::table::token::{self, TOKEN, TOKEN_FROM};
use crate::{KeptToken, TokenGrant};

/// Stores the hash of a token's secret; the secret itself is shown once and kept nowhere.
pub(crate) fn add(db: &mut Connection, grant: &TokenGrant, now: Timestamp) -> Result<Token> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let org = settle::org(&tx, &grant.org)?;
    let rights = serde_json::to_string(&grant.rights).expect("rights are plain data");
    tx.execute(
        "INSERT INTO tokens (id, hash, org, actor, rights, created_at, created_by, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            grant.id.0.to_bytes(),
            grant.hash,
            org,
            grant.actor.as_str(),
            rights,
            now.0,
            grant.by.as_str(),
            grant.expires_at(now).map(|at| at.0),
        ],
    )?;
    tx.commit()?;
    Ok(grant.token(now))
}

/// Revokes a token. A repeat changes nothing, so the row keeps the first revocation: rows of tokens tell who was let
/// in and until when, and are never deleted.
pub(crate) fn revoke(
    db: &Connection,
    id: TokenId,
    by: &Actor,
    now: Timestamp,
) -> Result<Option<Token>> {
    db.execute(
        "UPDATE tokens SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1 AND revoked_at IS NULL",
        params![id.0.to_bytes(), now.0, by.as_str()],
    )?;
    Ok(find(db, id)?.map(|kept| kept.token))
}

pub(crate) fn find(db: &Connection, id: TokenId) -> Result<Option<KeptToken>> {
    db.prepare_cached(&format!("SELECT {TOKEN} FROM {TOKEN_FROM} WHERE k.id = ?1"))?
        .query_row([id.0.to_bytes()], kept)
        .optional()
}

pub(crate) fn all(db: &Connection) -> Result<Vec<Token>> {
    let mut found =
        db.prepare_cached(&format!("SELECT {TOKEN} FROM {TOKEN_FROM} ORDER BY k.id DESC"))?;
    let tokens = found.query_map([], |row| kept(row).map(|kept| kept.token))?;
    tokens.collect()
}

/// Whether any token was ever made, live or not.
pub(crate) fn any(db: &Connection) -> Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM tokens)")?.query_row([], |row| row.get(0))
}

fn kept(row: &Row<'_>) -> Result<KeptToken> {
    token::read(&mut row.reader())
}
