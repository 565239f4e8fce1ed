//! Agents that work on a task alone, from the side of the callers that start them: start one, see how the start went,
//! wait for it, take it back, stop the agent. The runner's side is `start.rs`.

use std::time::Duration;

use callboard_domain::board::card::Mode;
use callboard_domain::command::{Command, Start, TerminalStart, WorkSubmit};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::found::{OrNotFound as _, Sought as _};
use callboard_domain::runs::job::{Job, JobId, JobKind, JobState};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::runs::work::judge_executor;
use callboard_domain::runs::work::{Role, WorkOrder};
use callboard_store::Outcome;
use tokio::time::Instant;

use crate::context::{OpContext, Scope};
use crate::ports::ExecutorSeen;
use crate::runs::admit::BATCH;
use crate::runs::queue::run_of;
use crate::task::wait::RunEvent;
use crate::{Engine, EngineError};

/// How often a wait reports progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub struct WorkWish {
    /// Instructions for this run alone.
    pub instructions: Option<String>,
    pub model: Option<String>,
    pub start: Start,
}

/// A request to start or stop a task's agent.
#[derive(Clone, Debug)]
pub enum WorkJob {
    Start(Box<WorkSeen>),
    Stop(Box<Job>),
}

/// The start of an agent as it is now.
#[derive(Clone, Debug)]
pub struct WorkSeen {
    pub record: RunRecord,
    /// The start waits for another agent to end.
    pub waits_for_place: bool,
}

impl WorkJob {
    pub fn job(&self) -> &Job {
        match self {
            WorkJob::Start(seen) => &seen.record.job,
            WorkJob::Stop(job) => job,
        }
    }

    /// Whether the result is known.
    pub fn is_decided(&self) -> bool {
        let is_up = match self {
            WorkJob::Start(seen) => seen.record.run.up_at.is_some(),
            WorkJob::Stop(_) => false,
        };
        is_up || self.job().is_over()
    }
}

/// How a wait for the result ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkWaited {
    Decided,
    TimedOut,
    Interrupted,
}

impl Engine {
    /// The names of the agents that can be started here; `None` when this process starts none.
    pub fn executors(&self) -> Option<Vec<String>> {
        self.parts.workshop.as_ref()?.workers.as_ref()?.executors()
    }

    /// Every executor as this process could start it; empty when it starts none.
    pub fn executors_seen(&self) -> Vec<ExecutorSeen> {
        let workers = self.parts.workshop.as_ref().and_then(|shop| shop.workers.as_ref());
        workers.map(|workers| workers.executors_seen()).unwrap_or_default()
    }

    pub async fn work_submit(
        &self,
        op: &OpContext,
        task: TaskId,
        wish: WorkWish,
    ) -> Result<WorkJob, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let order = WorkOrder {
            role: Role::Worker,
            asked_by: op.principal.actor.clone(),
            instructions: wish.instructions,
            model: wish.model,
        };
        let wanted = self.work_wanted(&op.principal.org, task, order).await?;
        let submit = WorkSubmit { start: wish.start, ..wanted };
        if let Start::Terminal(start) = &submit.start {
            self.executor_judge(&op.principal.org, &submit, start).await?;
        }
        let applied = self.act(op, Command::WorkSubmit(submit)).await?;
        let record = run_of(applied.outcome)?;
        self.runs_nudge();
        self.work_seen(&op.principal.org, record).await
    }

    /// The command that queues a run in a task's workspace now.
    pub(crate) async fn work_wanted(
        &self,
        org: &str,
        task: TaskId,
        order: WorkOrder,
    ) -> Result<WorkSubmit, EngineError> {
        let bound_to = self.machine_of(org, task).await?;
        let waits = self.before_a_place(org, bound_to.as_deref(), None).await?;
        Ok(WorkSubmit {
            job: JobId(self.parts.ids.next_id()),
            task,
            order,
            bound_to,
            waits,
            ttl_s: self.run_ttl_s(),
            start: Start::Board,
        })
    }

    /// Refuses an agent whose program is not on this machine, if it would be started here.
    async fn executor_judge(
        &self,
        org: &str,
        submit: &WorkSubmit,
        start: &TerminalStart,
    ) -> Result<(), EngineError> {
        let is_here = submit.bound_to.as_ref().is_none_or(|bound| *bound == self.parts.machine);
        let shop = self.parts.workshop.as_ref().filter(|_| is_here);
        let workers = shop.and_then(|shop| shop.workers.as_ref());
        let Some(found) = workers.and_then(|workers| workers.executors()) else { return Ok(()) };
        let card = self.parts.store.card(org, submit.task).await?.unwrap_or_default();
        let named = start.agent.clone().map(|name| name.trim().to_owned()).or(card.agent);
        let executor = match named.filter(|name| !name.is_empty()) {
            Some(named) => named,
            None => self.board_settings(org).await?.default_worker_agent,
        };
        Ok(judge_executor(executor, found)?)
    }

    pub(crate) fn run_ttl_s(&self) -> u32 {
        u32::try_from(self.parts.board.run_ttl.as_secs()).unwrap_or(u32::MAX)
    }

    /// Queues a reviewer agent for an AUTO task, if the settings say so; returns its job. While an agent still works on
    /// the task, the end of its work queues the reviewer.
    pub(crate) async fn review_queue(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<JobId>, EngineError> {
        let org = &op.principal.org;
        let has_workers = self.parts.workshop.as_ref().is_some_and(|shop| shop.workers.is_some());
        if !has_workers || !self.board_settings(org).await?.auto_review {
            return Ok(None);
        }
        let seen = self.card_get(op, task).await?.it;
        let is_auto = seen.card.mode == Mode::Auto;
        if !is_auto || self.work_open(org, task).await?.is_some() {
            return Ok(None);
        }
        match self.workspace_find(org, &seen.record.task, &seen.card).await {
            Ok(work) if work.is_empty() => return Ok(None),
            Ok(_) => {}
            Err(fault) => {
                let fault = fault.of_worktree()?;
                // The review is requested; only the advice of an agent is missing.
                tracing::warn!(%fault, %task, "cannot start a reviewer agent");
                return Ok(None);
            }
        }
        let asked_by = op.principal.actor.clone();
        let (instructions, model) = (None, None);
        let order = WorkOrder { role: Role::Reviewer, asked_by, instructions, model };
        let submit = self.work_wanted(org, task, order).await?;
        let applied = self.act(&op.unkeyed(), Command::WorkSubmit(submit)).await?;
        self.runs_nudge();
        let job = run_of(applied.outcome)?.job.id;
        tracing::info!(%task, %job, "general.auto_review starts a reviewer agent");
        Ok(Some(job))
    }

    /// Queues a stop of the agent that works on a task.
    pub async fn stop_queue(&self, op: &OpContext, task: TaskId) -> Result<WorkJob, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let open = self.work_open(&op.principal.org, task).await?;
        let open = open.filter(|open| open.job.kind == JobKind::Work).map(|open| open.job.id);
        let job = JobId(self.parts.ids.next_id());
        let applied = self.act(op, Command::StopQueue { job, task, open }).await?;
        self.runs_nudge();
        job_of(applied.outcome)
    }

    /// A start or stop of this task's agent; any other job does not exist here.
    pub async fn work_get(
        &self,
        op: &OpContext,
        task: TaskId,
        id: JobId,
    ) -> Result<WorkJob, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let job = self.parts.store.job(org, id).await?.filter(|job| job.task == Some(task));
        let job = job.or_not_found(&id)?;
        match job.kind {
            JobKind::Stop => Ok(WorkJob::Stop(job.into())),
            JobKind::Work => {
                let seen = self.parts.store.run(org, id).await?;
                let record = seen.map(|seen| seen.record).filter(is_start);
                self.work_seen(org, record.or_not_found(&id)?).await
            }
            JobKind::Verify
            | JobKind::Embed
            | JobKind::Run
            | JobKind::Crew
            | JobKind::Deliver
            | JobKind::Check => Err(id.not_found().into()),
        }
    }

    /// As `work_get`, by the job alone; returns its task as well.
    pub async fn work_find(
        &self,
        op: &OpContext,
        id: JobId,
    ) -> Result<(TaskId, WorkJob), EngineError> {
        let job = self.parts.store.job(&op.principal.org, id).await?;
        let task = job.and_then(|job| job.task).or_not_found(&id)?;
        Ok((task, self.work_get(op, task, id).await?))
    }

    /// Returns when the result is known, or with the current state at the deadline.
    pub async fn work_wait(
        &self,
        op: &OpContext,
        task: TaskId,
        job: JobId,
        timeout: Duration,
    ) -> Result<(WorkJob, WorkWaited), EngineError> {
        let (began, total) = (Instant::now(), timeout.as_secs_f64());
        let mut feed = self.run_feed(Some(job)).await?;
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        let mut seen = self.work_get(op, task, job).await?;
        loop {
            if seen.is_decided() {
                return Ok((seen, WorkWaited::Decided));
            }
            let ended = tokio::select! {
                biased;
                () = op.cancel.cancelled() => WorkWaited::Interrupted,
                () = op.closing.cancelled() => WorkWaited::Interrupted,
                event = feed.next() => match event {
                    Some(_) => {
                        seen = self.work_get(op, task, job).await?;
                        continue;
                    }
                    None => WorkWaited::Interrupted,
                },
                () = tokio::time::sleep_until(began + timeout) => WorkWaited::TimedOut,
                _ = tick.tick() => {
                    op.progress.report(began.elapsed().as_secs_f64(), Some(total), "waiting");
                    continue;
                }
            };
            // Whether there is a place may have changed without an event of this job.
            return Ok((self.work_get(op, task, job).await?, ended));
        }
    }

    /// Takes back a start or stop that is not decided yet.
    pub async fn work_cancel(
        &self,
        op: &OpContext,
        task: TaskId,
        job: JobId,
    ) -> Result<WorkJob, EngineError> {
        match self.work_get(op, task, job).await? {
            WorkJob::Start(_) => {
                let applied = self.act(op, Command::RunCancel { job }).await?;
                let record = run_of(applied.outcome)?;
                self.work_seen(&op.principal.org, record).await
            }
            WorkJob::Stop(_) => job_of(self.act(op, Command::StopCancel { job }).await?.outcome),
        }
    }

    /// The events of a start or stop so far, oldest first.
    pub async fn work_events(
        &self,
        op: &OpContext,
        task: TaskId,
        job: JobId,
    ) -> Result<Vec<RunEvent>, EngineError> {
        self.work_get(op, task, job).await?;
        self.run_events_of(&op.principal.org, Some(task), job).await
    }

    /// The run that works on a task, or waits to.
    pub(crate) async fn work_open(
        &self,
        org: &str,
        task: TaskId,
    ) -> Result<Option<RunRecord>, EngineError> {
        let newest = self.parts.store.works(org, &[task], 1).await?;
        Ok(newest.into_iter().find(|record| !record.job.is_over()))
    }

    async fn work_seen(&self, org: &str, record: RunRecord) -> Result<WorkJob, EngineError> {
        let waits_for_place = matches!(record.job.state, JobState::Queued { .. }) && {
            let machine = record.run.bound_to.as_deref();
            self.before_a_place(org, machine, Some(record.job.id)).await?
        };
        Ok(WorkJob::Start(Box::new(WorkSeen { record, waits_for_place })))
    }

    /// Whether the running agents and the starts ahead in the queue take every place.
    pub(crate) async fn before_a_place(
        &self,
        org: &str,
        machine: Option<&str>,
        job: Option<JobId>,
    ) -> Result<bool, EngineError> {
        let machine = machine.unwrap_or(&self.parts.machine);
        let settings = self.board_settings(org).await?;
        let running = self.parts.store.runs_on(machine).await?;
        let running =
            running.iter().filter(|due| due.job.kind == JobKind::Work && !due.job.is_over());
        let queue = self.parts.store.runs_due(JobKind::Work, machine, BATCH).await?;
        let before = queue.iter().take_while(|due| Some(due.job.id) != job);
        Ok(running.count() + before.count() >= settings.max_concurrent_agents as usize)
    }

    /// The machine with the task's files; this one, if it has them.
    pub(crate) async fn machine_of(
        &self,
        org: &str,
        task: TaskId,
    ) -> Result<Option<String>, EngineError> {
        let record = self.parts.store.task(org, task).await?;
        let project = record.or_not_found(&task)?.task.project;
        let repos = self.parts.store.repos(org, project).await?;
        let here = repos.iter().find(|repo| repo.machine == self.parts.machine);
        Ok(here.or(repos.first()).map(|repo| repo.machine.clone()))
    }
}

fn is_start(record: &RunRecord) -> bool {
    record.run.order.work().is_some_and(|order| order.role == Role::Worker)
}

fn job_of(outcome: Outcome) -> Result<WorkJob, EngineError> {
    match outcome {
        Outcome::Job(job) => Ok(WorkJob::Stop(job)),
        _ => Err(EngineError::Internal("a stop answered with no job".into())),
    }
}
