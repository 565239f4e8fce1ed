//! Calls with a retry key.

use super::cell::table;
use super::{Cells, RowReader};
use crate::retries::{Row, hex, unhex};

/// The columns of a row `r`.
pub(crate) const RETRY: &str = "r.step, r.at, r.digest, r.kept";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Row, R::Error> {
    Ok(Row {
        step: row.text()?,
        at: row.time()?,
        // NULL in rows of versions that kept no digest. Their keys are known, but no repeat can be compared.
        digest: row.str_if()?.and_then(unhex),
        kept: row.text_if()?,
    })
}

table! {
    RETRIES = "retries";
    fn values(org: i64, actor: &'a str, tool: &'a str, key: &'a str, row: &'a Row) {
        org: org,
        actor: actor,
        tool: tool,
        key: key,
        step: &row.step,
        at: row.at,
        digest: row.digest.map(hex),
        kept: &row.kept,
    }
}

table! {
    // The key alone: PostgreSQL looks up the keys of a whole batch in one statement.
    RETRY_KEYS = "retries";
    fn key_values(org: i64, actor: &'a str, tool: &'a str, key: &'a str, step: &'a str) {
        org: org,
        actor: actor,
        tool: tool,
        key: key,
        step: step,
    }
}

/// The key of a row.
pub(crate) const KEY: [&str; 5] = ["org", "actor", "tool", "key", "step"];
