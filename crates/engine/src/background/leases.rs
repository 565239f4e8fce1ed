//! The sweep: leases, sessions, crews, and rows whose retention is over.

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_domain::command::Command;
use callboard_domain::relay::spec::TTL_S_MAX;
use callboard_store::RETRIES_KEPT_MS;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::ports::RUNS;
use crate::runs::queue::ARTIFACTS;
use crate::{Engine, EngineError};

/// How often leases are swept by default.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Well below the silence after which leases count as unwatched.
const WATCH_EVERY: Duration = Duration::from_secs(10);
const TIDY_EVERY: Duration = Duration::from_secs(3600);
const LOGS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
const BATCH: usize = 100;

/// An interval whose first tick comes after 5 s at most, but not at once: a starting process has more urgent work.
fn every(period: Duration) -> Interval {
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
        let mut tidy = every(TIDY_EVERY);
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
                _ = tidy.tick() => (self.sweep_leftovers().await, "remove old rows"),
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

    /// Deletes retry keys after a day, handles of calls and page sessions when they expire, check logs after a month,
    /// and jobs for agents after their retention.
    pub async fn sweep_leftovers(&self) -> Result<(), EngineError> {
        let store = &self.parts.store;
        store.prune_retries(store.now().plus_ms(-RETRIES_KEPT_MS)).await?;
        store.handles_prune(store.now()).await?;
        store.page_keys_prune(store.now()).await?;
        let repo = store.repo_path(self.parts.home.project.id, &self.parts.machine).await?;
        if let (Some(checks), Some(repo)) = (&self.parts.checks, repo) {
            checks.prune_logs(&repo, LOGS_KEPT).await;
        }
        let before = store.now().plus_ms(-(LOGS_KEPT.as_millis() as i64));
        while store.files_prune(&format!("{RUNS}/"), before).await? > 0 {}
        let rule = &self.parts.runs;
        let kept_ms = (rule.kept.as_millis() as i64).max(i64::from(rule.window_s) * 1000);
        let before = store.now().plus_ms(-kept_ms);
        while store.runs_forget(before).await? > 0 {}
        // An artifact is older than the end of its job by at most the time a job may last.
        let before = before.plus_ms(-i64::from(TTL_S_MAX) * 1000);
        while store.files_prune(&format!("{ARTIFACTS}/"), before).await? > 0 {}
        Ok(())
    }
}
