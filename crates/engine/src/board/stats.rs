//! The numbers of a board over days, for people. Kept counts come from the store; events that were not counted yet are
//! counted as the page is read, so that the numbers are those of now.

use std::time::Duration;

use callboard_domain::board::stats::{DayCounts, day_of};
use tokio_util::sync::CancellationToken;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How often events are counted into their days.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// How many events are counted in one transaction.
const COUNTED_AT_ONCE: u64 = 500;
/// How many uncounted events a reader counts.
const AHEAD_MAX: u64 = 20_000;

/// The counts of an org over some days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSeen {
    pub counts: DayCounts,
    /// The day of the read.
    pub today: i64,
    /// Later events are not counted yet; `None` when every event is.
    pub up_to: Option<u64>,
}

impl Engine {
    /// The counts of the last days, today's included.
    pub async fn stats(&self, op: &OpContext, days: i64) -> Result<StatsSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let newest = store.last_seq().await?;
        let today = day_of(store.now());
        let kept = store.days(org, today - days + 1).await?;
        let to = newest.min(kept.up_to.saturating_add(AHEAD_MAX));
        let mut counts = kept.counts;
        if to > kept.up_to {
            counts.merge(&store.days_ahead(org, kept.up_to, to).await?);
        }
        Ok(StatsSeen { counts, today, up_to: (to < newest).then_some(to) })
    }

    /// Counts the events of every org that were not counted yet. Returns how many were read.
    pub async fn days_count(&self) -> Result<u64, EngineError> {
        let mut all = 0;
        loop {
            match self.parts.store.days_count(COUNTED_AT_ONCE).await? {
                0 => return Ok(all),
                read => all += read,
            }
        }
    }

    /// Counts until canceled.
    pub async fn days_count_until(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.days_count() => if let Err(error) = done {
                    tracing::warn!(%error, "cannot count events into their days");
                },
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(COUNT_EVERY) => {}
            }
        }
    }
}
