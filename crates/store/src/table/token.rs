//! Tokens, which admit callers over HTTP.

use callboard_domain::token::{Revoked, Token, TokenId};

use super::{Cells, RowReader};
use crate::KeptToken;

/// The columns of a token `k` with its org `o`.
pub(crate) const TOKEN: &str = "k.id, k.hash, o.name, k.actor, k.rights, k.created_at, \
     k.created_by, k.expires_at, k.revoked_at, k.revoked_by";
pub(crate) const TOKEN_FROM: &str = "tokens k JOIN orgs o ON o.id = k.org";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<KeptToken, R::Error> {
    let (id, hash) = (TokenId(row.id()?), row.bytes("hash")?);
    let token = Token {
        id,
        org: row.str()?.into(),
        actor: row.actor()?,
        rights: row.json("rights")?,
        created_at: row.time()?,
        created_by: row.actor()?,
        expires_at: row.time_if()?,
        revoked: match row.time_if()? {
            // A CHECK of the table demands both columns or neither.
            Some(at) => Some(Revoked { at, by: row.actor()? }),
            None => None,
        },
    };
    Ok(KeptToken { token, hash })
}
