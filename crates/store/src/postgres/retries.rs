//! Calls with a retry key, in the shared store.

use async_trait::async_trait;
use callboard_domain::time::Timestamp;

use crate::postgres::errors::Trouble;
use crate::postgres::read::SIGN;
use crate::postgres::{PostgresStore, clock, read};
use crate::retries::{self, ANSWER, RETRIES_KEPT_MS, Row, answer_text, hex};
use crate::table::Cells;
use crate::table::retry::{self, RETRY};
use crate::{CallKey, KeptCall, RetryStore, StoreError};

#[async_trait]
impl RetryStore for PostgresStore {
    async fn retry(&self, call: CallKey) -> Result<Option<KeptCall>, StoreError> {
        let (call, shared) = (&call, &self.shared);
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, &shared.clock).await?;
                let org = shared.orgs.get(&db, &call.org).await?;
                let (actor, key) = (call.actor.as_str(), call.key.key());
                let since = now.plus_ms(-RETRIES_KEPT_MS).0;
                let sql = format!(
                    "SELECT {RETRY} FROM retries r \
                     WHERE org = $1 AND actor = $2 AND tool = $3 AND key = $4 AND at > $5"
                );
                let found = read::all(&db, &sql, &[&org, &actor, &call.tool, &key, &since]).await?;
                let rows: Result<Vec<Row>, Trouble> =
                    found.iter().map(|row| retry::read(&mut row.reader())).collect();
                Ok(KeptCall::of(&rows?))
            })
            .await
    }

    async fn answer_keep(&self, call: CallKey, answer: &str) -> Result<(), StoreError> {
        let (call, shared, kept) = (&call, &self.shared, answer_text(answer));
        self.shared
            .read(|db| async move {
                // The server's time, as for the rows of commands: the clocks of two processes may differ.
                let now = clock::now(&db, &shared.clock).await?;
                let org = shared.orgs.get(&db, &call.org).await?;
                let (actor, key) = (call.actor.as_str(), call.key.key());
                // Only an expired answer is replaced: of two calls at once with one key the first answer stays.
                // A repeat after a broken connection finds its own row and changes nothing.
                let since = now.plus_ms(-RETRIES_KEPT_MS).0;
                let digest = hex(call.key.digest());
                let sql = "INSERT INTO retries (org, actor, tool, key, step, at, digest, kept) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                     ON CONFLICT (org, actor, tool, key, step) DO UPDATE \
                     SET at = excluded.at, digest = excluded.digest, kept = excluded.kept \
                     WHERE retries.at <= $9";
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
                    [&org, &actor, &call.tool, &key, &ANSWER, &now.0, &digest, &kept, &since];
                read::one(&db, sql, &values).await?;
                Ok(())
            })
            .await
    }

    async fn prune_retries(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.shared
            .read(|db| async move {
                let sql = db.prepare_cached(&retries::prune(SIGN)).await?;
                Ok(db.execute(&sql, &[&before.0]).await? as usize)
            })
            .await
    }
}
