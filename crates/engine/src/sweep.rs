//! Background work: functions without input that may run at any time, twice, or never. Nothing
//! depends on them for correctness; they only write down early what every read already judges.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::Command;
use callboard_store::Op;
use tokio_util::sync::CancellationToken;

use crate::ports::RUNS;
use crate::{Engine, EngineError};

const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// Every how many ticks the rarer work runs.
const TIDY_EVERY_TICKS: u32 = 720;
const RETRIES_KEPT_MS: i64 = 24 * 3600 * 1000;
const LOGS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
const BATCH: usize = 100;

impl Engine {
    /// Does this process's share of background work until canceled: sweeps, and due jobs.
    pub fn work_until(self: Arc<Self>, stop: &CancellationToken) {
        let (engine, token) = (self.clone(), stop.clone());
        tokio::spawn(async move { engine.sweep_until(token).await });
        let token = stop.clone();
        tokio::spawn(async move { self.run_jobs_until(token).await });
    }

    /// Sweeps until canceled. A failure is logged and tried again at the next tick.
    pub async fn sweep_until(&self, stop: CancellationToken) {
        let start = tokio::time::Instant::now() + EXPIRE_EVERY;
        let mut tick = tokio::time::interval_at(start, EXPIRE_EVERY);
        let mut ticks = 0u32;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            if let Err(error) = self.sweep_ticks(ticks).await {
                tracing::warn!(%error, "cannot say that the leases are watched");
            }
            if let Err(error) = self.sweep_leases().await {
                tracing::warn!(%error, "cannot look for leases that are over");
            }
            if ticks.is_multiple_of(TIDY_EVERY_TICKS)
                && let Err(error) = self.sweep_leftovers().await
            {
                tracing::warn!(%error, "cannot remove what is too old");
            }
            ticks = ticks.wrapping_add(1);
        }
    }

    /// Every second time: twice five seconds is well below what counts as unwatched.
    async fn sweep_ticks(&self, ticks: u32) -> Result<(), EngineError> {
        if ticks.is_multiple_of(2) {
            self.watch_leases().await?;
        }
        Ok(())
    }

    /// Says that the leases are watched, after giving time to those that were not.
    pub async fn watch_leases(&self) -> Result<(), EngineError> {
        let saved = self.parts.store.tick().await?;
        if saved > 0 {
            tracing::warn!(saved, "nobody watched over the leases for a while; they got more time");
        }
        Ok(())
    }

    /// Writes down leases that are over. Returns how many.
    pub async fn sweep_leases(&self) -> Result<usize, EngineError> {
        let overdue = self.parts.store.attempts_overdue(BATCH).await?;
        for item in &overdue {
            let op = Op {
                org: item.org.clone(),
                actor: "system:clock".parse().expect("a constant actor is well formed"),
                tool: "sweep",
                retry_key: None,
                policy: self.parts.policy.clone(),
                command: Command::AttemptExpire { attempt: item.attempt },
            };
            self.parts.store.apply(op).await?;
        }
        Ok(overdue.len())
    }

    /// Forgets retry keys after a day and check logs after a month.
    pub async fn sweep_leftovers(&self) -> Result<(), EngineError> {
        let store = &self.parts.store;
        store.prune_retries(store.now().plus_ms(-RETRIES_KEPT_MS)).await?;
        let repo = store.repo_path(self.parts.home.project.id, &self.parts.machine).await?;
        if let (Some(checks), Some(repo)) = (&self.parts.checks, repo) {
            checks.prune_logs(&repo, LOGS_KEPT).await;
        }
        let before = store.now().plus_ms(-(LOGS_KEPT.as_millis() as i64));
        while store.files_prune(&format!("{RUNS}/"), before).await? > 0 {}
        Ok(())
    }
}
