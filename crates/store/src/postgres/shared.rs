//! What the tasks of one process share: connections, caches, the clock and the feed of events.

use std::sync::Arc;

use crate::StoreError;
use crate::feed::Feed;
use crate::knowledge::vectors::VectorCache;
use crate::postgres::connections::{Connections, STATEMENTS};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::{bell, clock, log, orgs, task};
use crate::watch::Watch;

/// What the writer, the readers and the listener use together.
pub(crate) struct Shared {
    pub(super) connections: Connections,
    pub(super) clock: clock::SharedClock,
    pub(super) watch: Watch,
    pub(super) orgs: orgs::Orgs,
    pub(super) feed: Arc<Feed>,
    pub(super) bell: bell::Bell,
    pub(super) sequencer: log::Sequencer,
    pub(super) fronts: task::front::Fronts,
    /// The channel that announces commits; one per schema.
    pub(super) channel: String,
    pub(super) vectors: VectorCache,
}

impl Shared {
    /// Runs statements that may be repeated.
    pub(super) async fn read<T, F>(
        &self,
        work: impl Fn(Arc<Db>) -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        Ok(self.connections.run(&STATEMENTS, work).await?)
    }

    /// As `read`, in an org.
    pub(super) async fn read_in<T, F>(
        &self,
        org: &str,
        work: impl Fn(Arc<Db>, i64) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        let work = &work;
        self.read(|db| async move {
            let org = self.orgs.get(&db, org).await?;
            work(db, org).await
        })
        .await
    }
}
