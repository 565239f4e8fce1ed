//! The output of an agent that works on a task: its tail while the run goes on, its log afterwards.

use std::convert::Infallible;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::command::Command;
use callboard_domain::runs::run::ArtifactName;
use callboard_domain::runs::usage::RunUsage;
use callboard_store::Store;
use tokio::sync::watch;

use crate::runs::follow::{TailKeeper, keep_paced};
use crate::runs::patch::LeasedRun;
use crate::{Engine, EngineError};

/// Keeps the tail of a run's output.
struct TailOf<'a> {
    store: &'a dyn Store,
    taken: &'a LeasedRun,
}

#[async_trait]
impl TailKeeper for TailOf<'_> {
    async fn is_followed(&self) -> bool {
        self.store.run_is_followed(self.taken.job).await.unwrap_or(false)
    }

    async fn keep(&self, text: String) {
        let LeasedRun { org, job, fence } = self.taken;
        if let Err(error) = self.store.run_tail_put(org, *job, *fence, &text).await {
            tracing::info!(%error, %job, "cannot keep an agent's output so far");
        }
    }
}

impl Engine {
    /// Keeps the output so far for readers, without an event.
    pub(super) async fn work_tail_keep(
        &self,
        taken: &LeasedRun,
        heard: watch::Receiver<String>,
    ) -> Infallible {
        keep_paced(&TailOf { store: &*self.parts.store, taken }, heard).await;
        std::future::pending().await
    }

    /// Turns the kept tail of a lost run into its log.
    pub(super) async fn work_tail_save(&self, taken: &LeasedRun) -> Result<(), EngineError> {
        match self.parts.store.run_tail(&taken.org, taken.job).await? {
            Some(tail) => self.work_logs_keep(taken, tail.fence, tail.text).await,
            None => Ok(()),
        }
    }

    /// Appends a run's log to the job's logs, in place of its tail. The logs of earlier runs stay.
    pub(super) async fn work_logs_keep(
        &self,
        taken: &LeasedRun,
        of: u64,
        logs: String,
    ) -> Result<(), EngineError> {
        self.work_report_keep(taken, of, logs, None).await
    }

    /// As `work_logs_keep`; what the agent used is recorded in the same commit.
    pub(super) async fn work_report_keep(
        &self,
        taken: &LeasedRun,
        of: u64,
        logs: String,
        used: Option<(Actor, RunUsage)>,
    ) -> Result<(), EngineError> {
        let now = self.parts.store.run(&taken.org, taken.job).await?;
        let earlier = now.and_then(|now| now.record.run.artifact(ArtifactName::Logs).cloned());
        let earlier = match earlier {
            Some(earlier) => self.artifact_text(&taken.org, &earlier).await?.unwrap_or_default(),
            None => String::new(),
        };
        let text = earlier + &logs;
        let LeasedRun { org, job, fence } = taken;
        let (job, fence) = (*job, *fence);
        let new = self.artifact_new(org, job, of, ArtifactName::Logs, text).await?;
        let kept = Command::RunArtifact { job, fence, new };
        let used = used.map(|(agent, usage)| Command::RunUse { job, fence, agent, usage });
        match self.run_steps(taken, [kept].into_iter().chain(used).collect()).await? {
            true => Ok(self.parts.store.run_tail_drop(job, of).await?),
            false => Ok(()),
        }
    }
}
