//! Running a verify job: look at the contract, ask the forge, run the checks, let `decide` judge.

use callboard_domain::command::{Checked, Command, Found};
use callboard_domain::decide::verification::{self, VerifyFault, VerifyStep};
use callboard_domain::forge::{ForgeKind, ForgeRef, judge_merged};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::contract::VerificationContract;
use callboard_store::DueJob;

use crate::context::{OpContext, Principal};
use crate::job::LeasedJob;
use crate::ports::{ForgeFault, PullStateRequest};
use crate::{Engine, EngineError};

impl Engine {
    /// Does one leased verify job. A machine that cannot run the checks reports that as a result, so that the job is
    /// due again later, perhaps elsewhere.
    pub(crate) async fn verify(&self, taken: &LeasedJob) -> Result<(), EngineError> {
        let (found, checked, work) = match self.look(taken).await {
            Ok(judged) => judged,
            Err(EngineError::Refused(Refusal::CheckInfrastructure { message })) => {
                tracing::info!(job = %taken.job.id, reason = message, "the verification cannot run on this machine");
                (VerifyFault::ChecksUnavailable.found(), None, None)
            }
            Err(error) => return Err(error),
        };
        let (job, tries) = (taken.job.id, taken.job.tries);
        let judge = Command::VerificationJudge { job, tries, found, checked, work };
        match self.act_as_runner(&taken.org, judge).await {
            // Another runner took the job over; its result counts.
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether this process may verify: a job that needs files is for runners on the machine that has them.
    pub(crate) async fn may_verify(&self, due: &DueJob) -> Result<bool, EngineError> {
        let Some(task) = due.job.task else { return Ok(true) };
        match self.parts.store.task(&due.org, task).await? {
            Some(record) => self.runs_checks_of(&due.org, &record).await,
            None => Ok(true),
        }
    }

    /// The verdict so far, the results of checks, and the state of the task's own files.
    async fn look(
        &self,
        taken: &LeasedJob,
    ) -> Result<(Found, Option<Checked>, Option<String>), EngineError> {
        let record = match taken.job.task {
            Some(task) => self.parts.store.task(&taken.org, task).await?,
            None => None,
        };
        // The task was removed meanwhile. `decide` finds no task to move, and only the job ends.
        let Some(record) = record else { return Ok((Found::Passed, None, None)) };
        let contract = verification::contract(&record.task, &self.parts.policy);
        let found = match verification::verify_step(&record.task, &contract) {
            VerifyStep::Found(found) => found,
            VerifyStep::AskForge { kind, request } => {
                self.ask(record.task.id, &contract, kind, &request).await
            }
            VerifyStep::RunChecks => Found::Passed,
        };
        // Checks cost minutes; they run only once everything else is in order.
        if found != Found::Passed {
            return Ok((found, None, None));
        }
        let work = self.work_of(&taken.org, &record).await?;
        Ok((Found::Passed, self.checks_now(taken, &record).await?, work))
    }

    /// The answer of a forge about a pull request.
    async fn ask(
        &self,
        task: TaskId,
        contract: &VerificationContract,
        kind: ForgeKind,
        pull: &ForgeRef,
    ) -> Found {
        let Some(forge) = &self.parts.forge else { return VerifyFault::ForgeUnconfigured.found() };
        let wanted = PullStateRequest {
            checks: !contract.required_checks.is_empty(),
            files: !contract.files.is_empty(),
        };
        match forge.pull(kind, pull, &wanted).await {
            Ok(state) => {
                let branch = contract.branch.as_deref();
                judge_merged(&state, branch, &contract.required_checks, &contract.files).into()
            }
            Err(fault) => {
                tracing::info!(%task, %fault, "the forge gave no answer");
                VerifyFault::from(&fault).found()
            }
        }
    }

    /// Runs the command checks that do not pass for the current files.
    async fn checks_now(
        &self,
        taken: &LeasedJob,
        record: &TaskRecord,
    ) -> Result<Option<Checked>, EngineError> {
        if !record.task.checks.iter().any(|check| check.is_command()) {
            return Ok(None);
        }
        // The runner acts for itself here, in the org of the job.
        let principal = Principal { org: taken.org.clone(), ..Principal::local(self.runner()) };
        let op = OpContext::new(principal, "verify");
        let (checked, _turn) = self.checks_for_closing(&op, record).await?;
        Ok(Some(checked))
    }
}

impl From<&ForgeFault> for VerifyFault {
    fn from(fault: &ForgeFault) -> Self {
        match fault {
            ForgeFault::Unconfigured => Self::ForgeUnconfigured,
            ForgeFault::Refused(_) => Self::ForgeRefused,
            ForgeFault::NotFound => Self::RequestNotFound,
            ForgeFault::Unavailable { .. } => Self::ForgeUnavailable,
        }
    }
}
