//! Running a verify job: look at the contract, ask the forge, run the checks, let `decide` judge.

use callboard_domain::command::{Checked, Command, Found};
use callboard_domain::contract::VerificationContract;
use callboard_domain::decide::verification;
use callboard_domain::forge::{PullRef, PullVerdict, judge_pull};
use callboard_domain::refusal::Refusal;
use callboard_domain::task::TaskRecord;
use callboard_store::DueJob;

use crate::context::{OpContext, Principal};
use crate::job::Taken;
use crate::ports::{ForgeFault, Wanted};
use crate::{Engine, EngineError};

impl Engine {
    pub(crate) async fn verify(&self, taken: &Taken) -> Result<(), EngineError> {
        let (found, checked, work) = match self.look(taken).await {
            Ok(judged) => judged,
            // A check that cannot run here now may run later, or on another machine.
            Err(EngineError::Refused(Refusal::CheckInfrastructure { message })) => {
                tracing::info!(job = %taken.job.id, reason = message, "cannot verify here");
                (pending("verification.infrastructure"), None, None)
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
        taken: &Taken,
    ) -> Result<(Found, Option<Checked>, Option<String>), EngineError> {
        let record = match taken.job.task {
            Some(task) => self.parts.store.task(&taken.org, task).await?,
            None => None,
        };
        let Some(record) = record else { return Ok((Found::Passed, None, None)) };
        if record.task.open_blockers > 0 {
            return Ok((pending(verification::BLOCKED_BY_REVIEW), None, None));
        }
        let contract = verification::contract(&record.task, &self.parts.policy);
        let found = self.ask(&record, &contract).await;
        if found != Found::Passed {
            return Ok((found, None, None));
        }
        let work = self.work_of(&taken.org, &record).await?;
        Ok((Found::Passed, self.checks_now(taken, &record).await?, work))
    }

    /// The answer of the forge of the contract's kind; passes if the contract needs none.
    async fn ask(&self, record: &TaskRecord, contract: &VerificationContract) -> Found {
        let Some(kind) = contract.kind.forge() else { return Found::Passed };
        let told = record.task.verification.as_ref().and_then(|known| known.external_ref.as_ref());
        let Some(reference) = told.or(contract.external_ref.as_ref()) else {
            return failed("verification.missing_external_ref");
        };
        let Ok(pull) = PullRef::parse(kind, reference) else {
            return failed("verification.bad_external_ref");
        };
        let Some(forge) = &self.parts.forge else {
            return failed("verification.forge_unconfigured");
        };
        let wanted = Wanted {
            checks: !contract.required_checks.is_empty(),
            files: !contract.files.is_empty(),
        };
        let state = match forge.pull(kind, &pull, &wanted).await {
            Ok(state) => state,
            Err(fault) => return at_fault(&record.task.id.to_string(), &fault),
        };
        let branch = contract.branch.as_deref();
        match judge_pull(&state, branch, &contract.required_checks, &contract.files) {
            PullVerdict::Passed => Found::Passed,
            PullVerdict::Pending(reason) => pending(reason.code),
            PullVerdict::Failed(reason) => failed(reason.code),
        }
    }

    /// Runs the command checks that do not pass for the current files.
    async fn checks_now(
        &self,
        taken: &Taken,
        record: &TaskRecord,
    ) -> Result<Option<Checked>, EngineError> {
        if !record.task.checks.iter().any(|check| check.is_command()) {
            return Ok(None);
        }
        let principal = Principal { org: taken.org.clone(), ..Principal::local(self.runner()) };
        let op = OpContext::new(principal, "verify");
        let (checked, _turn) = self.checks_for_closing(&op, record).await?;
        Ok(Some(checked))
    }
}

/// The verdict for a task whose forge gave no answer.
fn at_fault(task: &str, fault: &ForgeFault) -> Found {
    tracing::info!(task, %fault, "the forge gave no answer");
    match fault {
        ForgeFault::Unconfigured | ForgeFault::Refused(_) => {
            failed("verification.forge_unconfigured")
        }
        ForgeFault::NotFound => failed("verification.bad_external_ref"),
        ForgeFault::Unavailable { .. } => pending("verification.forge_unavailable"),
    }
}

fn failed(reason: &str) -> Found {
    Found::Failed { reason: reason.to_owned() }
}

fn pending(reason: &str) -> Found {
    Found::Pending { reason: reason.to_owned() }
}
