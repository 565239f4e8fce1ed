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
        Ok(self.jobs_take(vec![due]).await?.pop())
    }

    /// Leases jobs in one commit; those that another process leased first are left out.
    pub(crate) async fn jobs_take(&self, due: Vec<DueJob>) -> Result<Vec<LeasedJob>, EngineError> {
        let take = |due: &DueJob| {
            (due.org.clone(), Command::JobTake { job: due.job.id, lease_s: LEASE_S })
        };
        let answers = self.act_all_as_runner(due.iter().map(take).collect()).await;
        let (mut taken, mut fault) = (Vec::new(), None);
        for (DueJob { org, .. }, answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(Outcome::Job(job)) => taken.push(LeasedJob { job: *job, org }),
                Ok(_) | Err(EngineError::Refused(_)) => {}
                Err(error) => fault = Some(error),
            }
        }
        match fault {
            // The jobs that were leased are run; the others are found again at the next look.
            Some(error) if taken.is_empty() => Err(error),
            _ => Ok(taken),
        }
    }

    /// Does the work and renews the job's lease meanwhile.
    pub(crate) async fn keeping<T>(
        &self,
        taken: &LeasedJob,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        tokio::pin!(work);
        let Job { id: job, tries, .. } = taken.job;
        let keep = Command::JobKeep { job, tries, lease_s: LEASE_S };
        let mut lease = self.lease_hold(&taken.org, keep, KEEP_EVERY);
        loop {
            tokio::select! {
                done = &mut work => return done,
                renewed = lease.renewed() => drop(renewed?),
            }
        }
    }

    /// The actor under which this process runs jobs.
    pub(crate) fn runner(&self) -> Actor {
        self.parts.runner.clone()
    }
}
