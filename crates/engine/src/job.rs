//! Jobs that this process runs: leased, kept while the work goes on, and given back. Any number of processes may run
//! jobs; each job is run by one of them at a time.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::command::Command;
use callboard_domain::runs::job::Job;
use callboard_store::{DueJob, Outcome};

use crate::{Engine, EngineError};

/// The lease of a job: how long its runner may be silent.
const LEASE_S: u32 = 60;
/// How often the lease of a long job is renewed.
const KEEP_EVERY: Duration = Duration::from_secs(15);

/// A job that this process has leased.
#[derive(Clone, Debug)]
pub(crate) struct LeasedJob {
    pub job: Job,
    pub org: Arc<str>,
}

impl Engine {
    /// `None` when another process leased the job first.
    pub(crate) async fn job_take(&self, due: DueJob) -> Result<Option<LeasedJob>, EngineError> {
        let command = Command::JobTake { job: due.job.id, lease_s: LEASE_S };
        match self.act_as_runner(&due.org, command).await {
            Ok(Outcome::Job(job)) => Ok(Some(LeasedJob { job: *job, org: due.org })),
            Ok(_) | Err(EngineError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does the work and renews the job's lease meanwhile.
    pub(crate) async fn keeping<T>(
        &self,
        taken: &LeasedJob,
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

    /// The actor under which this process runs jobs.
    pub(crate) fn runner(&self) -> Actor {
        self.parts.runner.clone()
    }
}
