//! The job that runs the command checks of a task that came into review. It records results and moves nothing.

use callboard_domain::command::{Checked, Command, JobEnd};
use callboard_domain::ids::TaskId;
use callboard_domain::needs::check_job;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{Job, JobKind};
use callboard_store::JobQuery;

use crate::context::{OpContext, Principal, Scope};
use crate::job::LeasedJob;
use crate::{Engine, EngineError};

/// The backoff before checks that cannot run here are tried again.
const AGAIN_AFTER_S: u32 = 60;
/// How long after the request checks are tried again before the job fails.
const GIVE_UP_AFTER_MS: i64 = 60 * 60 * 1000;

impl Engine {
    /// Runs the job's checks and ends the job. If the checks were requested again meanwhile, the job stays queued, so
    /// the final result is about the newest files.
    pub(crate) async fn check_job(&self, taken: &LeasedJob) -> Result<(), EngineError> {
        let end = match self.checks_of_review(taken).await {
            Ok(end) => end,
            Err(EngineError::Refused(Refusal::CheckInfrastructure { message })) => {
                self.unable(&taken.job, message)
            }
            Err(error) => return Err(error),
        };
        let Job { id: job, tries, .. } = taken.job;
        match self.act_as_runner(&taken.org, Command::JobEnd { job, tries, end }).await {
            // Another runner took the job over; its result counts.
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn checks_of_review(&self, taken: &LeasedJob) -> Result<JobEnd, EngineError> {
        let Some(task) = taken.job.task else { return Ok(JobEnd::Done) };
        let principal = Principal { org: taken.org.clone(), ..Principal::local(self.runner()) };
        let op = OpContext::new(principal, "check");
        let (checked, _turn) = match self.checks_for_review(&op, task).await {
            Ok(Some(checked)) => checked,
            Ok(None) | Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => {
                return Ok(JobEnd::Done);
            }
            Err(error) => return Err(error),
        };
        let passed = self.checks_record(taken, task, checked).await?;
        Ok(passed.map_or(JobEnd::Again { after_s: 0 }, |passed| JobEnd::Checked {
            asked_at: taken.job.created_at,
            passed,
        }))
    }

    /// Whether every command check passes; `None` when the checks changed while they ran.
    async fn checks_record(
        &self,
        taken: &LeasedJob,
        task: TaskId,
        checked: Checked,
    ) -> Result<Option<bool>, EngineError> {
        let tree = checked.tree.clone();
        if !checked.runs.is_empty() {
            match self.act_as_runner(&taken.org, Command::CheckRun { task, checked }).await {
                Ok(_) => {}
                Err(EngineError::Refused(Refusal::Conflict { .. })) => return Ok(None),
                Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => return Ok(Some(true)),
                Err(error) => return Err(error),
            }
        }
        let record = self.parts.store.task(&taken.org, task).await?;
        Ok(Some(record.is_none_or(|record| {
            let mut commands = record.task.checks.iter().filter(|check| check.is_command());
            commands.all(|check| check.passes_for(tree.as_deref(), None))
        })))
    }

    fn unable(&self, job: &Job, message: String) -> JobEnd {
        tracing::info!(job = %job.id, reason = message, "the checks cannot run on this machine");
        match self.parts.store.now().ms_since(job.created_at) < GIVE_UP_AFTER_MS {
            true => JobEnd::Again { after_s: AGAIN_AFTER_S },
            false => JobEnd::Failed { reason: message },
        }
    }

    /// The job that runs a task's checks for review, if there ever was one.
    pub async fn check_job_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<Job>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.job(&op.principal.org, check_job(task)).await?)
    }

    /// Check jobs that are not over.
    pub async fn check_jobs_open(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<Vec<Job>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (org, kinds) = (op.principal.org.clone(), vec![JobKind::Check]);
        let query = JobQuery { org, is_over: false, kinds, state: None, limit };
        Ok(self.parts.store.jobs(query).await?)
    }
}
