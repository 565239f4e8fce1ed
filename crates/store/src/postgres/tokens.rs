//! The rows of tokens, which admit callers over HTTP.

use callboard_domain::actor::Actor;
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId};
use tokio_postgres::Row;

use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::{read, rows, settle};
use crate::table::Cells;
use crate::table::token::{self, TOKEN, TOKEN_FROM};
use crate::{KeptToken, TokenGrant};

/// Adds a token; needs a transaction. Idempotent: an existing id is this grant's.
pub(crate) async fn add(db: &Db, grant: &TokenGrant, now: Timestamp) -> Result<Token> {
    let org = settle::org(db, &grant.org).await?;
    let rights = serde_json::to_string(&grant.rights).expect("rights are plain data");
    read::one(
        db,
        "INSERT INTO tokens (id, hash, org, actor, rights, created_at, created_by, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING",
        &[
            &rows::uuid(grant.id.0),
            &grant.hash.as_slice(),
            &org,
            &grant.actor.as_str(),
            &rights,
            &now.0,
            &grant.by.as_str(),
            &grant.expires_at(now).map(|at| at.0),
        ],
    )
    .await?;
    Ok(grant.token(now))
}

/// Revokes a token. A repeat changes nothing, so the row keeps the first revocation.
pub(crate) async fn revoke(
    db: &Db,
    id: TokenId,
    by: &Actor,
    now: Timestamp,
) -> Result<Option<Token>> {
    read::one(
        db,
        "UPDATE tokens SET revoked_at = $2, revoked_by = $3 WHERE id = $1 AND revoked_at IS NULL",
        &[&rows::uuid(id.0), &now.0, &by.as_str()],
    )
    .await?;
    Ok(find(db, id).await?.map(|kept| kept.token))
}

pub(crate) async fn find(db: &Db, id: TokenId) -> Result<Option<KeptToken>> {
    let sql = format!("SELECT {TOKEN} FROM {TOKEN_FROM} WHERE k.id = $1");
    read::one(db, &sql, &[&rows::uuid(id.0)]).await?.as_ref().map(kept).transpose()
}

pub(crate) async fn all(db: &Db) -> Result<Vec<Token>> {
    let found =
        read::all(db, &format!("SELECT {TOKEN} FROM {TOKEN_FROM} ORDER BY k.id DESC"), &[]).await?;
    found.iter().map(|row| kept(row).map(|kept| kept.token)).collect()
}

/// Whether any token was ever made, live or not.
pub(crate) async fn any(db: &Db) -> Result<bool> {
    Ok(read::one(db, "SELECT 1 FROM tokens LIMIT 1", &[]).await?.is_some())
}

fn kept(row: &Row) -> Result<KeptToken> {
    token::read(&mut row.reader())
}
