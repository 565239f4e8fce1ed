//! Codes and page sessions.

use callboard_domain::page::{PageGrant, PageKey, PageKeyKind};
use callboard_domain::token::TokenId;

use super::{Cells, RowReader};

/// The columns of a code or page session.
pub(crate) const KEY: &str = "kind, (SELECT name FROM orgs WHERE orgs.id = page_keys.org), actor, \
     token, rights, created_at, expires_at";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<PageKey, R::Error> {
    Ok(PageKey {
        kind: row.word("kind", PageKeyKind::parse)?,
        org: row.str()?.into(),
        actor: row.actor()?,
        grant: match (row.id_if()?, row.json_if("rights")?) {
            // A CHECK of the table allows exactly one of both.
            (Some(token), None) => PageGrant::Token(TokenId(token)),
            (None, Some(rights)) => PageGrant::Terminal(rights),
            _ => return Err(row.damaged("rights")),
        },
        created_at: row.time()?,
        expires_at: row.time()?,
    })
}
