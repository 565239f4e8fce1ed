//! Every job of an org, whichever toolset created it: listed, and ended in the way of its kind.

use callboard_domain::command::Command;
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::runs::job::{Job, JobId, JobKind, JobState};
use callboard_domain::runs::run::Run;
use callboard_domain::runs::work::Role;
use callboard_store::JobQuery;

use crate::context::{OpContext, Scope};
use crate::runs::stop::Stopped;
use crate::{Engine, EngineError};

/// The filter of a list of jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobsWanted {
    /// `JobState::as_str`.
    pub state: Option<&'static str>,
    /// Includes ended jobs of the server itself: verifications, messages, stops.
    pub every_kind: bool,
    pub limit: usize,
}

/// A job, with its run if it has one.
#[derive(Clone, Debug)]
pub struct JobSeen {
    pub job: Job,
    pub run: Option<Run>,
}

/// The result of a request to end a job.
#[derive(Clone, Debug)]
pub struct JobCanceled {
    pub job: Job,
    /// False when the job was over already.
    pub is_new: bool,
    /// Whether its agent is gone, if one was at work.
    pub agent: Option<Stopped>,
    pub run: Option<Run>,
}

/// The kinds of jobs whose ends users of agents look for.
const OF_AGENTS: [JobKind; 4] = [JobKind::Run, JobKind::Work, JobKind::Crew, JobKind::Check];

impl Engine {
    /// Open jobs, oldest first; then ended jobs, newest first.
    pub async fn job_list(
        &self,
        op: &OpContext,
        wanted: JobsWanted,
    ) -> Result<Vec<JobSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let query = |is_over, kinds: &[JobKind], limit| JobQuery {
            org: org.clone(),
            is_over,
            kinds: kinds.to_vec(),
            state: wanted.state,
            limit,
        };
        let mut jobs = store.jobs(query(false, &JobKind::ALL, wanted.limit)).await?;
        let room = wanted.limit.saturating_sub(jobs.len());
        // Ended jobs of the server itself are shown only on request.
        let every_kind = wanted.every_kind || wanted.state.is_some();
        let kinds: &[JobKind] = if every_kind { &JobKind::ALL } else { &OF_AGENTS };
        jobs.extend(store.jobs(query(true, kinds, room)).await?);
        let mut seen = Vec::with_capacity(jobs.len());
        for job in jobs {
            seen.push(self.with_run(org, job).await?);
        }
        Ok(seen)
    }

    async fn with_run(&self, org: &str, job: Job) -> Result<JobSeen, EngineError> {
        let run = match job.kind.is_run() {
            true => self.parts.store.run(org, job.id).await?.map(|seen| seen.record.run),
            false => None,
        };
        Ok(JobSeen { job, run })
    }

    /// A job of any kind.
    pub async fn job_see(&self, op: &OpContext, id: JobId) -> Result<JobSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let job = self.parts.store.job(org, id).await?.or_not_found(&id)?;
        self.with_run(org, job).await
    }

    /// Ends a job in the way of its kind: a waiting job does not start, and an agent at work is stopped with its
    /// processes.
    pub async fn job_cancel(&self, op: &OpContext, id: JobId) -> Result<JobCanceled, EngineError> {
        let JobSeen { job, run } = self.job_see(op, id).await?;
        if job.is_over() {
            return Ok(JobCanceled { job, run, is_new: false, agent: None });
        }
        let mut agent = None;
        match job.kind {
            JobKind::Run => {
                self.run_cancel(op, id).await?;
            }
            JobKind::Work | JobKind::Crew => agent = self.work_call_off(op, id).await?,
            JobKind::Stop => {
                self.act(op, Command::StopCancel { job: id }).await?;
            }
            JobKind::Verify | JobKind::Check | JobKind::Deliver | JobKind::Embed => {
                self.act(op, Command::JobCancel { job: id }).await?;
            }
        }
        let JobSeen { job, run } = self.job_see(op, id).await?;
        let is_new = matches!(job.state, JobState::Canceled { .. });
        Ok(JobCanceled { job, run, is_new, agent })
    }

    /// Takes back a start that is on no machine yet; stops an agent that is.
    async fn work_call_off(
        &self,
        op: &OpContext,
        id: JobId,
    ) -> Result<Option<Stopped>, EngineError> {
        let record = self.run_find(op, id).await?.record;
        if record.run.runs_on.is_none() {
            self.act(op, Command::RunCancel { job: id }).await?;
            return Ok(None);
        }
        self.works_end(op, &[record]).await.map(Some)
    }
}

/// The worker of a crew whose agent a run was. The crew starts that agent again while the worker has its task.
pub fn crew_worker(run: &Run) -> Option<&str> {
    let order = run.order.work().filter(|order| order.role == Role::Crew)?;
    Some(order.asked_by.as_str().trim_start_matches("agent:"))
}
