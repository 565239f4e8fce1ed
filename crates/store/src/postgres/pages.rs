//! Codes and page sessions, in the shared store.

use async_trait::async_trait;
use callboard_domain::page::{PageGrant, PageKey};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use crate::postgres::errors::Trouble;
use crate::postgres::{PostgresStore, clock, read, rows};
use crate::table::Cells;
use crate::table::page_key::{self, KEY};
use crate::{NewPageKey, PageHash, PageStore, StoreError};

fn page_key(row: &Row) -> Result<PageKey, Trouble> {
    page_key::read(&mut row.reader())
}

#[async_trait]
impl PageStore for PostgresStore {
    /// May be repeated: a hash that is there already is this key's.
    async fn page_key_add(&self, key: NewPageKey) -> Result<(), StoreError> {
        let (key, shared) = (&key, &self.shared);
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, &shared.clock).await?;
                let org = shared.orgs.get(&db, &key.org).await?;
                let token = match &key.grant {
                    PageGrant::Token(token) => Some(rows::uuid(token.0)),
                    PageGrant::Terminal(_) => None,
                };
                let sql = "INSERT INTO page_keys \
                     (hash, kind, org, actor, token, rights, created_at, expires_at) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hash) DO NOTHING";
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
                    &key.hash.as_slice(),
                    &key.kind.as_str(),
                    &org,
                    &key.actor.as_str(),
                    &token,
                    &key.rights(),
                    &now.0,
                    &key.expires_at(now).0,
                ];
                read::one(&db, sql, &values).await?;
                Ok(())
            })
            .await
    }

    /// Uses up a code. The row is deleted by the statement that reads it, so of two browsers with one code only the
    /// first gets in. If the connection breaks after the commit, the repeat finds no row: the code is lost, never used
    /// twice.
    async fn page_code_take(&self, hash: PageHash) -> Result<Option<PageKey>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, clock).await?;
                let sql = format!(
                    "DELETE FROM page_keys WHERE hash = $1 AND kind = 'code' AND expires_at > $2 \
                     RETURNING {KEY}"
                );
                let found = read::one(&db, &sql, &[&hash.as_slice(), &now.0]).await?;
                found.as_ref().map(page_key).transpose()
            })
            .await
    }

    /// A page session, also one that has expired: the engine judges the time.
    async fn page_session(&self, hash: PageHash) -> Result<Option<PageKey>, StoreError> {
        self.shared
            .read(|db| async move {
                let sql =
                    format!("SELECT {KEY} FROM page_keys WHERE hash = $1 AND kind = 'session'");
                let found = read::one(&db, &sql, &[&hash.as_slice()]).await?;
                found.as_ref().map(page_key).transpose()
            })
            .await
    }

    async fn page_session_end(&self, hash: PageHash) -> Result<(), StoreError> {
        self.shared
            .read(|db| async move {
                let sql = "DELETE FROM page_keys WHERE hash = $1 AND kind = 'session'";
                read::one(&db, sql, &[&hash.as_slice()]).await?;
                Ok(())
            })
            .await
    }

    async fn page_keys_prune(&self, before: Timestamp) -> Result<(), StoreError> {
        self.shared
            .read(|db| async move {
                let sql = "DELETE FROM page_keys WHERE expires_at < $1";
                read::one(&db, sql, &[&before.0]).await?;
                Ok(())
            })
            .await
    }
}
