//! Codes and page sessions, in the embedded store.

use async_trait::async_trait;
use callboard_domain::page::{PageGrant, PageKey};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, read};
use crate::table::Cells;
use crate::table::page_key::{self, KEY};
use crate::{NewPageKey, PageHash, PageStore, Store, StoreError};

/// Stores a code or a page session under the hash of its secret. The rights of a token are looked up at each use, so
/// only a key of a terminal carries its own.
fn add(db: &Connection, key: &NewPageKey, now: Timestamp) -> Result<(), StoreError> {
    let org = read::org(db, &key.org)?;
    let token = match &key.grant {
        PageGrant::Token(token) => Some(token.0.to_bytes()),
        PageGrant::Terminal(_) => None,
    };
    db.execute(
        "INSERT INTO page_keys (hash, kind, org, actor, token, rights, created_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            key.hash,
            key.kind.as_str(),
            org,
            key.actor.as_str(),
            token,
            key.rights(),
            now.0,
            key.expires_at(now).0,
        ],
    )
    .map_err(from_sqlite)?;
    Ok(())
}

/// Uses up a code. The row is deleted by the statement that reads it, so of two browsers with one code only the first
/// gets in.
fn take(db: &Connection, hash: PageHash, now: Timestamp) -> Result<Option<PageKey>> {
    let sql = format!(
        "DELETE FROM page_keys WHERE hash = ?1 AND kind = 'code' AND expires_at > ?2 \
         RETURNING {KEY}"
    );
    db.prepare_cached(&sql)?.query_row(params![hash, now.0], page_key).optional()
}

/// A page session, also one that has expired: the engine judges the time.
fn session(db: &Connection, hash: PageHash) -> Result<Option<PageKey>> {
    let sql = format!("SELECT {KEY} FROM page_keys WHERE hash = ?1 AND kind = 'session'");
    db.prepare_cached(&sql)?.query_row([hash], page_key).optional()
}

fn page_key(row: &Row<'_>) -> Result<PageKey> {
    page_key::read(&mut row.reader())
}

#[async_trait]
impl PageStore for SqliteStore {
    async fn page_key_add(&self, key: NewPageKey) -> std::result::Result<(), StoreError> {
        let now = self.now();
        self.on_writer(move |db| add(db, &key, now)).await
    }

    async fn page_code_take(
        &self,
        hash: PageHash,
    ) -> std::result::Result<Option<PageKey>, StoreError> {
        let now = self.now();
        // A DELETE, so it waits for its turn like every write.
        self.on_writer(move |db| take(db, hash, now).map_err(from_sqlite)).await
    }

    async fn page_session(
        &self,
        hash: PageHash,
    ) -> std::result::Result<Option<PageKey>, StoreError> {
        self.shared.look_up(|db| session(db, hash))
    }

    async fn page_session_end(&self, hash: PageHash) -> std::result::Result<(), StoreError> {
        let end = move |db: &mut Connection| {
            let sql = "DELETE FROM page_keys WHERE hash = ?1 AND kind = 'session'";
            db.execute(sql, [hash]).map(drop).map_err(from_sqlite)
        };
        self.on_writer(end).await
    }

    async fn page_keys_prune(&self, before: Timestamp) -> std::result::Result<(), StoreError> {
        let prune = move |db: &mut Connection| {
            let sql = "DELETE FROM page_keys WHERE expires_at < ?1";
            db.execute(sql, [before.0]).map(drop).map_err(from_sqlite)
        };
        self.on_writer(prune).await
    }
}
