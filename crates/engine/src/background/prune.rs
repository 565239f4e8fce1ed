//! The pruner: removes what the settings `retention.*` let go, and what has expired.
//!
//! Every step is one small transaction, and the pruner pauses after each, so a writer waits for one small commit at most. A
//! step judges its rows itself: it may be repeated, and any number of processes may prune.

use std::time::Duration;

use callboard_domain::relay::spec::TTL_S_MAX;
use callboard_domain::retention::{Growing, Retention, days_before};
use callboard_domain::time::Timestamp;
use callboard_store::{PruneStep, RETRIES_KEPT_MS};
use tokio_util::sync::CancellationToken;

use crate::background::leases::every;
use crate::ports::RUNS;
use crate::runs::queue::ARTIFACTS;
use crate::{Engine, EngineError};

const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// How many rows a step looks at.
const STEP_ROWS: usize = 500;
/// How many rows a step looks at when nothing is removed.
const LOOK_ROWS: usize = 5_000;
/// The pause between two steps.
const PAUSE: Duration = Duration::from_millis(20);
/// How many pages of 4 KiB one step gives back.
const STEP_PAGES: u32 = 256;
/// Unused bytes that the file keeps, because rows of tomorrow use them again.
const SPARE_BYTES: u64 = 4 * 1024 * 1024;

impl Engine {
    /// Prunes until canceled. A failure is logged and tried again at the next tick.
    pub async fn prune_until(&self, stop: CancellationToken) {
        let mut tick = every(PRUNE_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.prune() => if let Err(error) = done {
                    tracing::warn!(%error, "cannot remove old rows");
                },
            }
        }
    }

    /// Removes everything that may go now. Returns how many rows the settings of `Growing` let go.
    pub async fn prune(&self) -> Result<usize, EngineError> {
        self.sweep_leftovers().await?;
        let mut all = 0;
        for kind in Growing::ALL {
            let Some(before) = self.prune_before(kind) else { continue };
            let removed = self.prune_walk(PruneStep::first(kind, before, STEP_ROWS)).await?;
            if removed > 0 {
                tracing::info!(kind = kind.as_str(), removed, "removed old rows");
            }
            all += removed;
        }
        self.give_back().await?;
        Ok(all)
    }

    /// How long the store keeps what grows.
    pub fn retention(&self) -> &Retention {
        &self.parts.retention
    }

    /// How many rows the setting of a kind would remove now; `None` when all are kept.
    pub async fn prunable(&self, kind: Growing) -> Result<Option<usize>, EngineError> {
        let Some(before) = self.prune_before(kind) else { return Ok(None) };
        let look = PruneStep { removes: false, ..PruneStep::first(kind, before, LOOK_ROWS) };
        Ok(Some(self.prune_walk(look).await?))
    }

    /// Rows of this kind that were over before this time may go. Events stay as long as jobs for patches, because the
    /// steps of such a job are its events.
    fn prune_before(&self, kind: Growing) -> Option<Timestamp> {
        let before = self.parts.retention.before(kind, self.parts.store.now())?;
        Some(match kind {
            Growing::Event => before.min(self.runs_kept_from()),
            Growing::Mail | Growing::Decision | Growing::Delivery => before,
        })
    }

    /// Jobs for patches that ended before this time go.
    fn runs_kept_from(&self) -> Timestamp {
        let rule = &self.parts.runs;
        let kept_ms = (rule.kept.as_millis() as i64).max(i64::from(rule.window_s) * 1000);
        self.parts.store.now().plus_ms(-kept_ms)
    }

    async fn prune_walk(&self, mut step: PruneStep) -> Result<usize, EngineError> {
        let mut all = 0;
        loop {
            let pruned = self.parts.store.prune(step.clone()).await?;
            all += pruned.removed;
            let Some(next) = pruned.next else { return Ok(all) };
            step.after = Some(next);
            if step.removes {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Gives pages that no row uses back to the disk, but for a spare.
    async fn give_back(&self) -> Result<(), EngineError> {
        let store = &self.parts.store;
        while store.space().await?.free_bytes > SPARE_BYTES
            && store.pages_give_back(STEP_PAGES).await? > 0
        {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Deletes retry keys after a day, handles of calls and page sessions when they expire, logs and artifacts by their
    /// settings, and jobs for agents after their retention.
    pub async fn sweep_leftovers(&self) -> Result<(), EngineError> {
        let (store, retention) = (&self.parts.store, &self.parts.retention);
        let now = store.now();
        while store.prune_retries(now.plus_ms(-RETRIES_KEPT_MS)).await? > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        store.handles_prune(now).await?;
        store.page_keys_prune(now).await?;
        let repo = store.repo_path(self.parts.home.project.id, &self.parts.machine).await?;
        if let Some(days) = retention.logs_days {
            if let (Some(checks), Some(repo)) = (&self.parts.checks, repo) {
                checks.prune_logs(&repo, Duration::from_secs(u64::from(days) * 86_400)).await;
            }
            self.files_forget(RUNS, days_before(now, days)).await?;
        }
        let before = self.runs_kept_from();
        while store.runs_forget(before).await? > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        // An artifact is older than the end of its job by at most the time a job may last.
        let with_job = before.plus_ms(-i64::from(TTL_S_MAX) * 1000);
        let own = retention.artifacts_days.map(|days| days_before(now, days));
        self.files_forget(ARTIFACTS, own.map_or(with_job, |own| own.max(with_job))).await
    }

    async fn files_forget(&self, folder: &str, before: Timestamp) -> Result<(), EngineError> {
        while self.parts.store.files_prune(&format!("{folder}/"), before).await? > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}
