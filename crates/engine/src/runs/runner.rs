//! Which processes start agents: each of them reports so in the store while it runs, so that a command can tell whether
//! its job will be started.

use std::time::Duration;

use callboard_domain::time::Timestamp;
use callboard_store::RunnerSeen;
use tokio_util::sync::CancellationToken;

use crate::{Engine, EngineError};

/// How often a process reports that it starts agents: one small write each time.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// A process that was silent for this long has ended or hangs; two late reports are tolerated.
const SILENT_MS: i64 = 90_000;

impl Engine {
    /// Reports that this process starts agents until canceled, and then that it has ended.
    pub(crate) async fn runner_say_until(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(SAY_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = tick.tick() => {}
            }
            if let Err(error) = self.runner_say().await {
                tracing::warn!(%error, "cannot register this process as a runner");
            }
        }
        if let Err(error) = self.parts.store.runner_gone(&self.parts.runner).await {
            tracing::info!(%error, "cannot unregister this process as a runner");
        }
    }

    /// Reports that this process starts agents on this machine.
    pub async fn runner_say(&self) -> Result<(), EngineError> {
        if self.parts.agents.is_none() {
            return Ok(());
        }
        Ok(self.parts.store.runner_seen(&self.parts.runner, &self.parts.machine).await?)
    }

    /// Whether a process starts agents on a machine; `None`: on any.
    pub async fn runner_is_there(&self, machine: Option<&str>) -> Result<bool, EngineError> {
        let runners = self.parts.store.runners().await?;
        let now = self.parts.store.now();
        let at = |seen: &&RunnerSeen| machine.is_none_or(|machine| seen.machine == machine);
        Ok(runners.iter().filter(at).any(|seen| self.is_alive(seen, now)))
    }

    /// Whether a runner is alive. A killed process of this machine is known at once.
    fn is_alive(&self, seen: &RunnerSeen, now: Timestamp) -> bool {
        now.ms_since(seen.seen_at) < SILENT_MS && !(self.parts.is_gone)(&seen.runner)
    }

    /// The name of this machine in the store.
    pub fn machine(&self) -> &str {
        &self.parts.machine
    }
}
