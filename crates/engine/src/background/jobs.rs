//! The loop that runs due verifications, and checks of tasks that came into review.

use std::time::Duration;

use callboard_domain::runs::job::JobKind;
use tokio_util::sync::CancellationToken;

use crate::{Engine, EngineError};

/// How often the queue is polled for work of other processes, and for work that becomes due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 16;

impl Engine {
    /// Runs due jobs until canceled. A failure is logged and tried again at the next look.
    pub async fn run_jobs_until(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.nudges.jobs.notified() => {}
                _ = tick.tick() => {}
            }
            if let Err(error) = self.run_jobs().await {
                tracing::warn!(%error, "cannot run jobs");
            }
        }
    }

    /// Runs the jobs due now, one after the other. Returns how many were run.
    pub async fn run_jobs(&self) -> Result<usize, EngineError> {
        let mut ran = 0;
        for kind in [JobKind::Verify, JobKind::Check] {
            for due in self.parts.store.jobs_due(kind, AT_ONCE).await? {
                if !self.may_verify(&due).await? {
                    continue;
                }
                let Some(taken) = self.job_take(due).await? else { continue };
                match kind {
                    JobKind::Check => self.keeping(&taken, self.check_job(&taken)).await?,
                    _ => self.keeping(&taken, self.verify(&taken)).await?,
                }
                ran += 1;
            }
        }
        Ok(ran)
    }
}
