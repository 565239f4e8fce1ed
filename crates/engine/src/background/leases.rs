//! The sweep: leases, sessions and crews.

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_domain::command::Command;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{Engine, EngineError};

/// How often leases are swept by default.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Well below the silence after which leases count as unwatched.
const WATCH_EVERY: Duration = Duration::from_secs(10);
const BATCH: usize = 100;

/// An interval whose first tick comes after 5 s at most, but not at once: a starting process has more urgent work.
pub(super) fn every(period: Duration) -> Interval {
    let first = Instant::now() + period.min(SWEEP_EVERY);
    let mut tick = tokio::time::interval_at(first, period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}

impl Engine {
    /// Sweeps until canceled. A failure is logged and tried again at the next tick.
    pub async fn sweep_until(&self, stop: CancellationToken) {
        let mut watch = every(WATCH_EVERY);
        let mut expire = every(self.parts.sweep_every);
        let mut crew = every(self.parts.sweep_every);
        let mut sessions = every(self.parts.sweep_every);
        let mut suspects = BTreeSet::new();
        loop {
            let (done, what) = tokio::select! {
                () = stop.cancelled() => return,
                _ = watch.tick() => (self.watch_leases().await, "write down that leases are watched"),
                _ = expire.tick() => {
                    (self.sweep_leases().await.map(|_| ()), "look for expired leases")
                }
                _ = crew.tick() => (self.crew_sweep().await.map(|_| ()), "update the crew"),
                _ = sessions.tick() => {
                    (self.sweep_sessions(&mut suspects).await, "look for ended sessions")
                }
            };
            if let Err(error) = done {
                tracing::warn!(%error, "cannot {what}");
            }
        }
    }

    /// Records that this process watches the leases, after extending the leases that no process watched. The order of
    /// this and `sweep_leases` does not matter: the store extends them before every write.
    pub async fn watch_leases(&self) -> Result<(), EngineError> {
        self.parts.store.tick().await?;
        Ok(())
    }

    /// Writes the end of expired leases. Returns how many.
    pub async fn sweep_leases(&self) -> Result<usize, EngineError> {
        let overdue = self.parts.store.attempts_overdue(BATCH).await?;
        for item in &overdue {
            let expire = Command::AttemptExpire { attempt: item.attempt };
            self.act_as_clock(&item.org, expire).await?;
        }
        Ok(overdue.len())
    }
}
