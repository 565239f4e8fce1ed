//! What is kept of codes and page sessions: the hash of each, and whose it is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::page::{PageGrant, PageKey, PageKeyKind};
use callboard_domain::time::Timestamp;

use crate::StoreError;

/// SHA-256 of a code or of a page session's id.
pub type PageHash = [u8; 32];

#[async_trait]
pub trait PageStore {
    async fn page_key_add(&self, key: NewPageKey) -> Result<(), StoreError>;
    /// The code with this hash, which is gone then; `None` when there is none, or it has expired.
    async fn page_code_take(&self, hash: PageHash) -> Result<Option<PageKey>, StoreError>;
    /// Also one that has expired and was not pruned yet.
    async fn page_session(&self, hash: PageHash) -> Result<Option<PageKey>, StoreError>;
    /// Idempotent.
    async fn page_session_end(&self, hash: PageHash) -> Result<(), StoreError>;
    /// Forgets codes and sessions that expired before this.
    async fn page_keys_prune(&self, before: Timestamp) -> Result<(), StoreError>;
}

/// A code or page session to add.
#[derive(Clone, Debug)]
pub struct NewPageKey {
    pub hash: PageHash,
    pub kind: PageKeyKind,
    pub org: Arc<str>,
    pub actor: Actor,
    pub grant: PageGrant,
    /// Counted from the store's own time, which judges the end as well.
    pub lives: Duration,
}

impl NewPageKey {
    pub(crate) fn expires_at(&self, now: Timestamp) -> Timestamp {
        now.plus_ms(i64::try_from(self.lives.as_millis()).unwrap_or(i64::MAX))
    }

    /// The rights as they are stored; a token has its own.
    pub(crate) fn rights(&self) -> Option<String> {
        match &self.grant {
            PageGrant::Token(_) => None,
            PageGrant::Terminal(rights) => {
                Some(serde_json::to_string(rights).expect("rights are plain data"))
            }
        }
    }
}
