//! Ends the work of agents: somebody asks for it with a job, or something comes that an agent must not
//! be at work for. What is stopped is gone with all its processes before anybody hears so.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::{Command, JobEnd};
use callboard_domain::ids::TaskId;
use callboard_domain::job::{Job, JobKind, JobState};
use callboard_domain::refusal::Refusal;
use callboard_domain::run::RunRecord;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::context::OpContext;
use crate::job::Taken;
use crate::runs::start::BATCH;
use crate::{Engine, EngineError};

/// How long a stopped agent may take to be gone: as long as it is asked nicely, and a little more.
const GONE_WITHIN: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a job keeps of why nothing was stopped.
pub const NOT_RUNNING: &str = "not_running";
const NOT_GONE: &str = "not gone in time";

/// What came of stopping agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Gone,
    /// There was nothing to stop.
    Nothing,
    /// Stopped, and still there.
    Lingers,
}

impl Engine {
    /// Stops what somebody wants stopped.
    pub(crate) async fn stops_start(
        self: &Arc<Self>,
        running: &mut JoinSet<()>,
    ) -> Result<usize, EngineError> {
        let mut started = 0;
        for due in self.parts.store.jobs_due(JobKind::Stop, BATCH).await? {
            let Some(taken) = self.job_take(due).await? else { continue };
            let engine = self.clone();
            running.spawn(async move {
                let done = engine.keeping(&taken, engine.stop_through(&taken)).await;
                if let Err(error) = done {
                    tracing::warn!(%error, job = %taken.job.id, "an agent could not be stopped");
                }
            });
            started += 1;
        }
        Ok(started)
    }

    async fn stop_through(&self, taken: &Taken) -> Result<(), EngineError> {
        let Job { id: job, tries, task, .. } = taken.job;
        let mut stopped = match task {
            Some(task) => self.work_stop(&taken.org, task, GONE_WITHIN).await?,
            None => Stopped::Nothing,
        };
        if let (Stopped::Lingers, Some(task)) = (stopped, task) {
            // Its server may be frozen; this one may be able to end it.
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

    /// Ends whatever works on a task, in the name of whoever asks, and waits until nothing of it is left.
    /// No server is needed for that. Answers the runs that were ended.
    pub async fn agent_stop(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<(Stopped, Vec<RunRecord>), EngineError> {
        op.principal.judge_on(op.tool, task)?;
        self.task_get(op, task).await?;
        let left = self.works_left(&op.principal.org, task).await?;
        if left.is_empty() {
            return Err(Refusal::NotRunning { task }.into());
        }
        Ok((self.works_end(op, &left).await?, left))
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
        // Its server may be frozen; this process may be able to end it.
        for work in left {
            if !self.work_force(org, work).await? {
                return Ok(Stopped::Lingers);
            }
        }
        Ok(Stopped::Gone)
    }

    /// Ends whatever works on a task, and what waits to, and waits until nothing of it is left.
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

    /// Kills what lingers on this machine.
    async fn works_force(&self, org: &Arc<str>, task: TaskId) -> Result<Stopped, EngineError> {
        for work in self.works_left(org, task).await? {
            if !self.work_force(org, &work).await? {
                return Ok(Stopped::Lingers);
            }
        }
        Ok(Stopped::Gone)
    }

    /// Waits until nothing is left of a run that was ended.
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
                // Of a task that was removed nothing is heard.
                let _ = tokio::time::timeout(LOOK_EVERY, watch.changed()).await;
            }
        };
        tokio::time::timeout(within, gone).await.unwrap_or(Ok(Stopped::Lingers))
    }

    /// Whether nobody is left who could say that it is gone.
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
