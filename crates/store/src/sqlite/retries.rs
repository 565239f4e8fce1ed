//! Calls with a retry key, in the embedded store.

use async_trait::async_trait;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{HeldNow, HeldTask};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, Result, params};

use crate::retries::{self, ANSWER, RETRIES_KEPT_MS, Row, answer_text, hex};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::read::SIGN;
use crate::sqlite::{SqliteStore, fetch, read, rows as table_rows};
use crate::table::Cells;
use crate::table::retry::{self, KEY, RETRIES, RETRY};
use crate::{CallKey, KeptCall, Op, RetryStore, Store, StoreError};

/// The rows of a key, without expired ones.
pub(crate) fn rows(
    db: &Connection,
    org: i64,
    actor: &str,
    tool: &str,
    key: &str,
    now: Timestamp,
) -> Result<Vec<Row>> {
    let row = |row: &rusqlite::Row<'_>| retry::read(&mut row.reader());
    let since = now.plus_ms(-RETRIES_KEPT_MS).0;
    let sql = format!(
        "SELECT {RETRY} FROM retries r \
         WHERE org = ?1 AND actor = ?2 AND tool = ?3 AND key = ?4 AND at > ?5"
    );
    db.prepare_cached(&sql)?.query_map(params![org, actor, tool, key, since], row)?.collect()
}

/// Keeps the effect of a command under its key, in the transaction of the command. A row that has expired is replaced.
pub(crate) fn remember(db: &Connection, org: i64, op: &Op, row: &Row) -> Result<()> {
    let Some(key) = &op.retry_key else { return Ok(()) };
    let values = retry::values(org, op.actor.as_str(), op.tool, key.key(), row);
    table_rows::insert(db, &values, &RETRIES.again(&KEY))
}

/// Refuses unless the caller still holds what the first call gave.
pub(crate) fn judge_held(
    db: &Connection,
    org: i64,
    op: &Op,
    held: HeldTask,
    now: Timestamp,
) -> Result<std::result::Result<(), Refusal>> {
    let record = fetch::record(db, org, held.task)?;
    let attempt = match held.attempt {
        Some(attempt) => fetch::attempt(db, org, attempt)?,
        None => None,
    };
    let at = HeldNow {
        task: record.as_ref().map(|record| &record.task),
        newest: record.as_ref().and_then(|record| record.newest.as_ref()),
        attempt: attempt.as_ref(),
    };
    Ok(held.judge(&op.actor, at, &op.policy, now))
}

#[async_trait]
impl RetryStore for SqliteStore {
    async fn retry(&self, call: CallKey) -> std::result::Result<Option<KeptCall>, StoreError> {
        let CallKey { org, actor, tool, key } = call;
        self.shared.read_in(&org, |db, org, now| {
            let rows = rows(db, org, actor.as_str(), tool, key.key(), now).map_err(from_sqlite)?;
            Ok(KeptCall::of(&rows))
        })
    }

    async fn answer_keep(
        &self,
        call: CallKey,
        answer: &str,
    ) -> std::result::Result<(), StoreError> {
        let (now, kept) = (self.now(), answer_text(answer).map(str::to_owned));
        // Only an expired answer is replaced: of two calls at once with one key the first answer stays.
        let keep = move |db: &mut Connection| {
            let CallKey { org, actor, tool, key } = call;
            let org = read::org(db, &org)?;
            let since = now.plus_ms(-RETRIES_KEPT_MS).0;
            let digest = hex(key.digest());
            db.prepare_cached(
                "INSERT INTO retries (org, actor, tool, key, step, at, digest, kept) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE \
                 SET at = excluded.at, digest = excluded.digest, kept = excluded.kept \
                 WHERE retries.at <= ?9",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    org,
                    actor.as_str(),
                    tool,
                    key.key(),
                    ANSWER,
                    now.0,
                    digest,
                    kept,
                    since
                ])
            })
            .map_err(from_sqlite)?;
            Ok(())
        };
        self.on_writer(keep).await
    }

    async fn prune_retries(&self, before: Timestamp) -> std::result::Result<usize, StoreError> {
        // Reads leave expired rows out anyway, so a late sweep changes no answer.
        let prune = move |db: &mut Connection| {
            db.execute(&retries::prune(SIGN), [before.0]).map_err(from_sqlite)
        };
        self.on_writer(prune).await
    }
}
