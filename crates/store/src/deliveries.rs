//! Messages about jobs that are over and about events: what is asked of a store about them, and the SQL both
//! databases share.

use async_trait::async_trait;
use callboard_domain::delivery::Delivery;
use callboard_domain::job::{Job, JobId};

use crate::StoreError;

/// The part of a store that keeps messages, and what they are signed with.
#[async_trait]
pub trait DeliveryStore {
    /// What a deliver job sends.
    async fn delivery(&self, org: &str, job: JobId) -> Result<Option<Delivery>, StoreError>;
    /// With the jobs that send them, the newest first.
    async fn deliveries(&self, org: &str, limit: usize)
    -> Result<Vec<(Job, Delivery)>, StoreError>;
    /// The org's secret of that name; `fresh` from now on, when it has none.
    async fn secret(&self, org: &str, name: &str, fresh: &str) -> Result<String, StoreError>;
}

/// Behind the columns of its job.
pub(crate) const DELIVERY: &str =
    "d.about, d.url, d.kind, d.data, d.ended_at, d.tried_at, d.outcome";

/// Every column, in the order of an INSERT.
pub(crate) const DELIVERY_ALL: &str =
    "job, org, about, url, kind, data, ended_at, tried_at, outcome";
