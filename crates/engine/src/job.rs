//! Jobs from the runner's side: look what is due, take one, do it, say how it went. Any number of
//! processes may do this; each job is run by one of them at a time.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::command::Command;
use callboard_domain::job::{Job, JobKind};
use callboard_store::{DueJob, Outcome};
use tokio_util::sync::CancellationToken;

use crate::{Engine, EngineError};

/// How long a runner may be silent about a job.
const LEASE_S: u32 = 60;
/// How often a long job's lease is made longer.
const KEEP_EVERY: Duration = Duration::from_secs(15);
/// How often the queue is looked at. Nothing wakes this loop earlier.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 16;

/// A job in the hands of this process.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub job: Job,
    pub org: Arc<str>,
}

impl Engine {
    /// Runs due jobs until canceled. A failure is logged and tried again at the next look.
    pub async fn run_jobs_until(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            if let Err(error) = self.run_jobs().await {
                tracing::warn!(%error, "cannot run jobs");
            }
        }
    }

    /// Runs what is due now, one after the other. Returns how many were run.
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

    /// `None` when another process was faster.
    pub(crate) async fn job_take(&self, due: DueJob) -> Result<Option<Taken>, EngineError> {
        let command = Command::JobTake { job: due.job.id, lease_s: LEASE_S };
        match self.act_as_runner(&due.org, command).await {
            Ok(Outcome::Job(job)) => Ok(Some(Taken { job: *job, org: due.org })),
            Ok(_) | Err(EngineError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does the work while the job's lease is kept.
    pub(crate) async fn keeping<T>(
        &self,
        taken: &Taken,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        tokio::pin!(work);
        let start = tokio::time::Instant::now() + KEEP_EVERY;
        let mut tick = tokio::time::interval_at(start, KEEP_EVERY);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = tick.tick() => {
                    let Job { id: job, tries, .. } = taken.job;
                    let keep = Command::JobKeep { job, tries, lease_s: LEASE_S };
                    self.act_as_runner(&taken.org, keep).await?;
                }
            }
        }
    }

    /// Who runs jobs in this process.
    pub(crate) fn runner(&self) -> Actor {
        self.parts.runner.clone()
    }
}
