//! One agent in one worktree: before a run starts, the processes of earlier runs there are ended, whichever server
//! started them. A process that does not end holds the run back and is named beside its job.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::command::Command;
use callboard_domain::decide::agent_at_work;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobState;
use callboard_domain::runs::run::RunRecord;

use crate::board::card::CardSeen;
use crate::ports::EarlierRuns;
use crate::runs::patch::LeasedRun;
use crate::{Engine, EngineError};

/// The pause between two tries to end a process.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many runs of a task are searched for processes left in its worktree.
const LOOK_BACK: usize = 16;

/// `below` for every attempt of a job.
const ALL: u32 = u32::MAX;

impl Engine {
    /// Returns when no process of these runs is left. Dropping it ends the wait.
    pub(crate) async fn run_make_way(
        &self,
        taken: &LeasedRun,
        runs: Vec<EarlierRuns>,
    ) -> Result<(), EngineError> {
        let Some(agents) = self.parts.agents.as_ref().filter(|_| !runs.is_empty()) else {
            return Ok(());
        };
        let (job, fence) = (taken.job, taken.fence);
        let mut is_held = false;
        loop {
            let left = agents.end_earlier(runs.clone()).await;
            let is_clear = left.is_empty();
            if !is_clear && !is_held {
                tracing::warn!(%job, ?left, "processes of an earlier run cannot be ended");
            }
            if !is_clear || is_held {
                self.act_as_runner(&taken.org, Command::RunHold { job, fence, left }).await?;
            }
            if is_clear {
                return Ok(());
            }
            is_held = true;
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// As `run_make_way`, for a run in a task's workspace, where all other runs of the task have worked too.
    pub(crate) async fn work_make_way(
        &self,
        taken: &LeasedRun,
        task: TaskId,
        attempt: u32,
    ) -> Result<(), EngineError> {
        let mut runs = vec![EarlierRuns { job: taken.job.to_string(), below: attempt }];
        let works = self.parts.store.works(&taken.org, &[task], LOOK_BACK).await?;
        let is_other = |work: &&RunRecord| work.job.id != taken.job && work.job.is_over();
        let is_here = |work: &&RunRecord| work.run.runs_on.as_ref() == Some(&self.parts.machine);
        let others: Vec<&RunRecord> = works.iter().filter(is_other).filter(is_here).collect();
        runs.extend(others.iter().map(|work| all_of(work)));
        runs.retain(|run| run.below > 1);
        self.run_make_way(taken, runs).await?;
        for other in others {
            self.work_gone_tell(&taken.org, other).await?;
        }
        Ok(())
    }

    /// Ends the processes left of a run on this machine; returns whether none is left.
    pub(crate) async fn work_force(
        &self,
        org: &Arc<str>,
        work: &RunRecord,
    ) -> Result<bool, EngineError> {
        let is_here = work.run.runs_on.as_ref() == Some(&self.parts.machine);
        let Some(agents) = self.parts.agents.as_ref().filter(|_| is_here) else { return Ok(false) };
        let is_gone = agents.end_earlier(vec![all_of(work)]).await.is_empty();
        if is_gone {
            self.work_gone_tell(org, work).await?;
        }
        Ok(is_gone)
    }

    /// Records that a run that is over has no process left.
    pub(crate) async fn work_gone_tell(
        &self,
        org: &Arc<str>,
        work: &RunRecord,
    ) -> Result<(), EngineError> {
        if work.is_alive() {
            let (job, fence) = (work.job.id, work.run.fence);
            self.act_as_runner(org, Command::WorkGone { job, fence }).await?;
        }
        Ok(())
    }

    /// The runs of a task that are not over or have a process left.
    pub(crate) async fn works_left(
        &self,
        org: &str,
        task: TaskId,
    ) -> Result<Vec<RunRecord>, EngineError> {
        let mut left = Vec::new();
        for work in self.parts.store.works(org, &[task], LOOK_BACK).await? {
            if !work.job.is_over() || self.has_process(&work).await {
                left.push(work);
            }
        }
        Ok(left)
    }

    /// Whether a process of a run lives. The store knows that from the run's server; if that server cannot tell any
    /// more, this machine looks.
    pub(crate) async fn has_process(&self, work: &RunRecord) -> bool {
        let is_here = work.run.runs_on.as_ref() == Some(&self.parts.machine);
        let is_kept = match &work.job.state {
            JobState::Running { runner, .. } => !(self.parts.is_gone)(runner),
            JobState::Queued { .. }
            | JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => false,
        };
        match &self.parts.agents {
            Some(agents) if work.is_alive() && is_here && !is_kept => {
                agents.are_left(vec![all_of(work)]).await
            }
            _ => work.is_alive(),
        }
    }

    /// The actor that changes a task's files on Callboard's behalf.
    pub(crate) async fn agent_at_work(
        &self,
        org: &str,
        seen: &CardSeen,
    ) -> Result<Option<Actor>, EngineError> {
        let works = self.works_left(org, seen.record.task.id).await?;
        Ok(agent_at_work(seen.record.newest.as_ref(), &works))
    }
}

fn all_of(work: &RunRecord) -> EarlierRuns {
    EarlierRuns { job: work.job.id.to_string(), below: ALL }
}
