//! Stopping agents: a job asks for it, or a change of the task requires it. A stop is reported only after all processes
//! of the agent are gone.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::{Command, JobEnd};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{Job, JobKind, JobState};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::runs::work::judge_running;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::context::{OpContext, Scope};
use crate::job::LeasedJob;
use crate::runs::admit::BATCH;
use crate::{Engine, EngineError};

/// How long a stopped agent may take to be gone: the grace period before it is killed, and a little more.
const GONE_WITHIN: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The reason that a job records when there was nothing to stop.
pub const NOT_RUNNING: &str = "not_running";
const NOT_GONE: &str = "not gone in time";

/// The result of stopping agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Gone,
    /// There was nothing to stop.
    Nothing,
    /// Stopped, but a process is still there.
    Lingers,
}

impl Engine {
    /// Runs the due stop jobs.
    pub(crate) async fn stops_start(
        self: &Arc<Self>,
        running: &mut JoinSet<()>,
    ) -> Result<usize, EngineError> {
        let mut started = 0;
        let due = self.parts.store.jobs_due(JobKind::Stop, BATCH).await?;
        for taken in self.jobs_take(due).await? {
            let engine = self.clone();
            running.spawn(async move {
                let done = engine.keeping(&taken, engine.stop_through(&taken)).await;
                if let Err(error) = done {
                    tracing::warn!(%error, job = %taken.job.id, "cannot stop an agent");
                }
            });
            started += 1;
        }
        Ok(started)
    }

    async fn stop_through(&self, taken: &LeasedJob) -> Result<(), EngineError> {
        let Job { id: job, tries, task, .. } = taken.job;
        let mut stopped = match task {
            Some(task) => self.work_stop(&taken.org, task, GONE_WITHIN).await?,
            None => Stopped::Nothing,
        };
        if let (Stopped::Lingers, Some(task)) = (stopped, task) {
            // The agent's server may be frozen; this process may be able to end the agent.
            stopped = self.works_force(&taken.org, task).await?;
        }
        let failed = |reason: &str| JobEnd::Failed { reason: reason.into() };
        let end = match stopped {
            Stopped::Gone => JobEnd::Done,
            Stopped::Nothing => failed(NOT_RUNNING),
            Stopped::Lingers => failed(NOT_GONE),
        };
        match self.act_as_runner(&taken.org, Command::JobEnd { job, tries, end }).await {
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends all work on a task, in the caller's name, and waits until no process is left. That needs no server. Returns
    /// the runs that were ended.
    pub async fn agent_stop(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<(Stopped, Vec<RunRecord>), EngineError> {
        op.principal.judge_on(op.tool, task)?;
        self.task_get(op, task).await?;
        let left = self.works_left(&op.principal.org, task).await?;
        judge_running(task, !left.is_empty())?;
        Ok((self.works_end(op, &left).await?, left))
    }

    /// Whether `agent_stop` has anything to end: a run of this board that goes on, or waits to begin. An agent that
    /// connected by itself runs elsewhere.
    pub async fn agent_stops(&self, op: &OpContext, task: TaskId) -> Result<bool, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(!self.works_left(&op.principal.org, task).await?.is_empty())
    }

    pub(crate) async fn works_end(
        &self,
        op: &OpContext,
        left: &[RunRecord],
    ) -> Result<Stopped, EngineError> {
        for open in left.iter().filter(|work| !work.job.is_over()) {
            self.act(&op.unkeyed(), Command::WorkStop { job: open.job.id }).await?;
            self.runs_nudge();
        }
        let org = &op.principal.org;
        let stopped = self.works_gone(org, left, GONE_WITHIN).await?;
        if stopped != Stopped::Lingers {
            return Ok(stopped);
        }
        // The agent's server may be frozen; this process may be able to end the agent.
        for work in left {
            if !self.work_force(org, work).await? {
                return Ok(Stopped::Lingers);
            }
        }
        Ok(Stopped::Gone)
    }

    /// Ends all work on a task, waiting runs included, and waits until no process is left.
    pub(crate) async fn work_stop(
        &self,
        org: &Arc<str>,
        task: TaskId,
        within: Duration,
    ) -> Result<Stopped, EngineError> {
        let left = self.works_left(org, task).await?;
        for open in left.iter().filter(|work| !work.job.is_over()) {
            self.act_as_runner(org, Command::WorkStop { job: open.job.id }).await?;
            self.runs_nudge();
        }
        self.works_gone(org, &left, within).await
    }

    async fn works_gone(
        &self,
        org: &Arc<str>,
        left: &[RunRecord],
        within: Duration,
    ) -> Result<Stopped, EngineError> {
        let mut stopped = Stopped::Nothing;
        let until = Instant::now() + within;
        for work in left {
            let within = until.saturating_duration_since(Instant::now());
            match self.work_gone(org, work, within).await? {
                Stopped::Lingers => return Ok(Stopped::Lingers),
                Stopped::Gone | Stopped::Nothing => stopped = Stopped::Gone,
            }
        }
        Ok(stopped)
    }

    /// Kills lingering processes on this machine.
    async fn works_force(&self, org: &Arc<str>, task: TaskId) -> Result<Stopped, EngineError> {
        for work in self.works_left(org, task).await? {
            if !self.work_force(org, &work).await? {
                return Ok(Stopped::Lingers);
            }
        }
        Ok(Stopped::Gone)
    }

    /// Waits until no process of an ended run is left.
    pub(crate) async fn work_gone(
        &self,
        org: &Arc<str>,
        open: &RunRecord,
        within: Duration,
    ) -> Result<Stopped, EngineError> {
        if self.is_left_behind(open) {
            self.clean_up().await;
            self.work_gone_tell(org, open).await?;
            return Ok(Stopped::Gone);
        }
        let job = open.job.id;
        let Some(task) = open.job.task else { return Ok(Stopped::Gone) };
        let watch = self.task_watch(task).await?;
        let gone = async {
            loop {
                let now = self.parts.store.run(org, job).await?;
                let run = now.map(|seen| seen.record.run);
                if run.is_none_or(|run| run.gone_at.is_some() || run.runs_on.is_none()) {
                    return Ok(Stopped::Gone);
                }
                // A removed task has no events, so the timeout makes this a poll.
                let _ = tokio::time::timeout(LOOK_EVERY, watch.changed()).await;
            }
        };
        tokio::time::timeout(within, gone).await.unwrap_or(Ok(Stopped::Lingers))
    }

    /// Whether the run's server is gone, so that no process will report its end.
    fn is_left_behind(&self, open: &RunRecord) -> bool {
        let here = open.run.runs_on.as_ref() == Some(&self.parts.machine);
        match &open.job.state {
            JobState::Running { runner, .. } | JobState::Stale { runner, .. } => {
                here && (self.parts.is_gone)(runner)
            }
            JobState::Queued { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => false,
        }
    }

    /// Ends what is left of runs whose process is gone.
    pub(crate) async fn clean_up(&self) {
        if let Some(agents) = &self.parts.agents {
            agents.clean_up().await;
        }
    }
}
