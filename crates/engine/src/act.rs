//! The write path of commands: the only place that hands a command to the store. A caller's command is judged
//! by the caller's rights first (`act`); this process acts as runner and as clock without a caller.
//!
//! Tokens, quotas, files, handles, the log of retry keys and what reviewers keep for themselves are written by store
//! methods of their own.

use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::command::{Command, Reach};
use callboard_domain::retry::RetryKey;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_store::{Applied, ApplyError, Op, Outcome, StoreError};

use crate::context::{OpContext, Principal, Scope};
use crate::{At, Engine, EngineError, counts};

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(words) | StoreError::Newer(words) => Self::Unavailable(words),
            StoreError::Corrupt(words) => Self::Damaged(words),
            StoreError::Internal(words) => Self::Internal(words),
        }
    }
}

impl From<ApplyError> for EngineError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Refused(refusal) => Self::Refused(refusal),
            ApplyError::Store(error) => error.into(),
        }
    }
}

impl Engine {
    pub(crate) async fn act(
        &self,
        op: &OpContext,
        command: Command,
    ) -> Result<Applied, EngineError> {
        self.act_within(op, Scope::TasksWrite, command).await
    }

    /// As `act`, for commands that another scope covers.
    pub(crate) async fn act_within(
        &self,
        op: &OpContext,
        scope: Scope,
        command: Command,
    ) -> Result<Applied, EngineError> {
        op.principal.rights.judge_command(op.tool, scope, &command)?;
        if command.needs_one_client() {
            op.principal.judge_one_client(op.tool)?;
        }
        self.judge_reach(op, &command).await?;
        let Principal { org, actor, .. } = &op.principal;
        let claims = matches!(
            command,
            Command::TaskClaim { .. }
                | Command::TaskClaimStartable { .. }
                | Command::AttemptBegin(_)
        );
        let applied = self.apply(org, actor.clone(), op.tool, op.retry_key.clone(), command).await;
        let applied = applied.inspect_err(|error| {
            if claims {
                counts::claim_failed(error);
            }
        })?;
        if let Some(taken) = &applied.taken {
            self.count_wait(taken, &applied).await;
        }
        match applied.but {
            Some(refusal) => Err(refusal.into()),
            None => Ok(applied),
        }
    }

    /// Refuses commands outside the task that a caller is bound to. A row that names no task itself is looked up: its
    /// task never changes. A missing row is left to `decide`, which refuses it.
    async fn judge_reach(&self, op: &OpContext, command: &Command) -> Result<(), EngineError> {
        let Principal { rights, org, .. } = &op.principal;
        if rights.task.is_none() {
            return Ok(());
        }
        let store = &self.parts.store;
        let task = match command.reach() {
            Reach::Own => None,
            Reach::Task(task) => Some(task),
            Reach::Attempt(attempt) => store.attempt(org, attempt).await?.map(|found| found.task),
            Reach::Comment(comment) => store.comment(org, comment).await?.map(|found| found.task),
            Reach::Job(job) => match store.job(org, job).await? {
                Some(found) if found.task.is_none() => {
                    return Ok(rights.judge_outside(&format!("job {job}"))?);
                }
                found => found.and_then(|found| found.task),
            },
            Reach::Outside(what) => return Ok(rights.judge_outside(what)?),
        };
        Ok(task.map_or(Ok(()), |task| rights.judge_task(task))?)
    }

    /// Logs a fact about a call itself: that it was refused, that its agent was seen. The call was judged already, and
    /// needs no further right to be logged.
    pub(crate) async fn note(&self, op: &OpContext, command: Command) -> Result<(), EngineError> {
        let Principal { org, actor, .. } = &op.principal;
        self.apply(org, actor.clone(), op.tool, None, command).await?;
        Ok(())
    }

    /// A step of a job that this process runs. `decide` judges its lease and its fencing token.
    pub(crate) async fn act_as_runner(
        &self,
        org: &Arc<str>,
        command: Command,
    ) -> Result<Outcome, EngineError> {
        let applied = self.apply(org, self.runner(), "runner", None, command).await?;
        Ok(applied.outcome)
    }

    /// As `act_as_runner`, for steps that go together: one commit for all, an answer for each.
    pub(crate) async fn act_all_as_runner(
        &self,
        steps: Vec<(Arc<str>, Command)>,
    ) -> Vec<Result<Outcome, EngineError>> {
        let policy = &self.parts.policy;
        let op = |(org, command)| {
            let (actor, tool, retry_key) = (self.runner(), "runner", None);
            Op { org, actor, tool, retry_key, policy: policy.clone(), command }
        };
        let applied = self.parts.store.apply_all(steps.into_iter().map(op).collect()).await;
        let answer = |applied: Result<Applied, ApplyError>| {
            let applied = applied?;
            self.nudges.wake(applied.queued);
            Ok(applied.outcome)
        };
        applied.into_iter().map(answer).collect()
    }

    /// A change that time alone causes.
    pub(crate) async fn act_as_clock(
        &self,
        org: &Arc<str>,
        command: Command,
    ) -> Result<(), EngineError> {
        let clock = "system:clock".parse().expect("a constant actor is well formed");
        self.apply(org, clock, "sweep", None, command).await?;
        Ok(())
    }

    async fn apply(
        &self,
        org: &Arc<str>,
        actor: Actor,
        tool: &'static str,
        retry_key: Option<RetryKey>,
        command: Command,
    ) -> Result<Applied, ApplyError> {
        let (org, policy) = (org.clone(), self.parts.policy.clone());
        let op = Op { org, actor, tool, retry_key, policy, command };
        let applied = self.parts.store.apply(op).await?;
        self.nudges.wake(applied.queued);
        Ok(applied)
    }

    pub(crate) async fn act_on_task(
        &self,
        op: &OpContext,
        command: Command,
    ) -> Result<At<TaskRecord>, EngineError> {
        let applied = self.act(op, command).await?;
        let seen = self.task_of(op, applied)?;
        self.as_files_are(op, seen).await
    }

    /// The task of a command's outcome.
    pub(crate) fn task_of(
        &self,
        op: &OpContext,
        applied: Applied,
    ) -> Result<At<TaskRecord>, EngineError> {
        let Outcome::Task(record) = applied.outcome else {
            return Err(EngineError::Internal(format!("{} answered with no task", op.tool)));
        };
        Ok(At { it: record.as_of(&self.parts.policy, applied.at), now: applied.at })
    }

    pub(crate) async fn act_on_attempt(
        &self,
        op: &OpContext,
        command: Command,
    ) -> Result<At<Attempt>, EngineError> {
        let applied = self.act(op, command).await?;
        let Outcome::Attempt(attempt) = applied.outcome else {
            return Err(EngineError::Internal(format!("{} answered with no attempt", op.tool)));
        };
        Ok(At { it: attempt.as_of(applied.at), now: applied.at })
    }
}
