//! Messages about ended jobs and about events: the queries of a store.

use async_trait::async_trait;
use callboard_domain::runs::delivery::Delivery;
use callboard_domain::runs::job::{Job, JobId};

use crate::StoreError;

/// The part of a store that keeps messages, and the secrets they are signed with.
#[async_trait]
pub trait DeliveryStore {
    /// The message that a deliver job sends.
    async fn delivery(&self, org: &str, job: JobId) -> Result<Option<Delivery>, StoreError>;
    /// Messages with the jobs that send them, the newest first.
    async fn deliveries(&self, org: &str, limit: usize)
    -> Result<Vec<(Job, Delivery)>, StoreError>;
    /// Messages behind this one in the order of `deliveries`; none for an unknown one.
    async fn deliveries_below(
        &self,
        org: &str,
        job: JobId,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, StoreError>;
    /// The org's secret of that name. Stores `fresh` first when the org has none.
    async fn secret(&self, org: &str, name: &str, fresh: &str) -> Result<String, StoreError>;
}

/// The conditions of `deliveries_below`. Values: the org, the message, the limit.
pub(crate) fn below(sign: char) -> String {
    format!(
        "WHERE d.org = {sign}1 AND (d.ended_at, d.job) < \
             (SELECT b.ended_at, b.job FROM deliveries b WHERE b.job = {sign}2 AND b.org = {sign}1) \
         ORDER BY d.ended_at DESC, d.job DESC LIMIT {sign}3"
    )
}
