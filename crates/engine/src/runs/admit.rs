//! Work on tasks, admitted: of the jobs that wait, those that fit are leased in one commit and begin.

use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::board::card::Card;
use callboard_domain::board::settings::BoardSettings;
use callboard_domain::command::{Command, RunLease};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{JobKind, JobState};
use callboard_domain::runs::together::{LEASED_MAX, QueuedJob, lease_together};
use callboard_domain::runs::work::Role;
use callboard_store::{DueJob, Outcome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::runs::patch::{LeasedRun, RunPlace};
use crate::runs::queue::run_of;
use crate::runs::start::LeasedWork;
use crate::{Engine, EngineError};

/// How many jobs are looked at in one go.
pub(crate) const BATCH: usize = 32;

/// A lease of a run that is asked for, with what the run needs once it has it.
struct Leasing {
    due: DueJob,
    task: TaskId,
    lease: RunLease,
    card: Card,
    settings: BoardSettings,
    executor: String,
    agent: Actor,
}

impl Leasing {
    fn command(&self) -> Command {
        Command::RunLease(self.lease.clone())
    }
}

/// The result of trying to begin a run.
pub(crate) enum Leased {
    Begun(Box<LeasedWork>),
    /// Another process has it, or it could not begin.
    Not,
    NoPlace,
}

impl Engine {
    /// Starts agents as long as there are jobs and places for them.
    pub(crate) async fn works_start(
        self: &Arc<Self>,
        running: &mut JoinSet<()>,
        give_up: &CancellationToken,
    ) -> Result<(), EngineError> {
        let shop = self.parts.workshop.as_ref();
        let Some(workers) = shop.and_then(|shop| shop.workers.clone()) else { return Ok(()) };
        let mut queue = Vec::new();
        for kind in JobKind::IN_WORKSPACES {
            // A server without an executor for crews leaves their jobs to others.
            if kind != JobKind::Crew || self.parts.crew.executor.is_some() {
                queue.extend(self.parts.store.runs_due(kind, &self.parts.machine, BATCH).await?);
            }
        }
        // Each org has its own limit.
        let mut full: Vec<(JobKind, Arc<str>)> = Vec::new();
        while !queue.is_empty() {
            let mut waiting: Vec<QueuedJob<(JobKind, Arc<str>)>> = Vec::new();
            for due in &queue {
                let (group, task) = ((due.job.kind, due.org.clone()), due.job.task);
                let limit = match waiting.iter().find(|other| other.group == group) {
                    Some(other) => other.limit,
                    None => self.works_max(group.0, &group.1).await?,
                };
                let at_work = self.runs.running(group.0);
                waiting.push(QueuedJob { group, limit, at_work, task });
            }
            let mut places = lease_together(&waiting, LEASED_MAX).into_iter().peekable();
            let mut asked = Vec::new();
            for (place, due) in std::mem::take(&mut queue).into_iter().enumerate() {
                match places.next_if_eq(&place) {
                    Some(_) => asked.push(due),
                    None => queue.push(due),
                }
            }
            // A job that was leased is run, whatever becomes of the others.
            let (mut leasings, mut fault) = (Vec::new(), None);
            for due in asked {
                match self.work_leasing(due, false).await {
                    Ok(leasing) => leasings.extend(leasing),
                    Err(error) => fault = Some(error),
                }
            }
            let step = |leasing: &Leasing| (leasing.due.org.clone(), leasing.command());
            let answers = self.act_all_as_runner(leasings.iter().map(step).collect()).await;
            for (leasing, answer) in leasings.into_iter().zip(answers) {
                let of = (leasing.due.job.kind, leasing.due.org.clone());
                let leased = match self.work_leased(leasing, answer).await {
                    Ok(Leased::Begun(leased)) => leased,
                    Ok(Leased::Not) => continue,
                    Ok(Leased::NoPlace) => {
                        full.push(of);
                        continue;
                    }
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                let (engine, workers, give_up) = (self.clone(), workers.clone(), give_up.clone());
                let place = RunPlace::take(self, of.0);
                running.spawn(async move {
                    if let Err(error) = engine.work_through(&*workers, &leased, give_up).await {
                        let job = leased.taken.job;
                        tracing::warn!(%error, %job, "cannot write down an agent's work");
                    }
                    drop(place);
                });
            }
            if let Some(error) = fault {
                return Err(error);
            }
            queue.retain(|due| !full.contains(&(due.job.kind, due.org.clone())));
        }
        Ok(())
    }

    /// How many runs of a kind an org may have on this machine.
    async fn works_max(&self, kind: JobKind, org: &str) -> Result<u32, EngineError> {
        Ok(match kind {
            JobKind::Crew => self.parts.crew.workers_max,
            _ => self.board_settings(org).await?.max_concurrent_agents,
        })
    }

    /// Tries to begin one job. The rules of places and of the task are judged in the transaction of `RunLease`, so two
    /// servers never start agents on one task.
    pub(crate) async fn work_lease(
        &self,
        due: &DueJob,
        early: bool,
    ) -> Result<Leased, EngineError> {
        let Some(leasing) = self.work_leasing(due.clone(), early).await? else {
            return Ok(Leased::Not);
        };
        let answer = self.act_as_runner(&due.org, leasing.command()).await;
        self.work_leased(leasing, answer).await
    }

    /// What is known before the lease of a job; `None` for a job without a task.
    async fn work_leasing(&self, due: DueJob, early: bool) -> Result<Option<Leasing>, EngineError> {
        let Some(task) = due.job.task else { return Ok(None) };
        let settings = self.board_settings(&due.org).await?;
        let card = self.parts.store.card(&due.org, task).await?.unwrap_or_default();
        let crew = &self.parts.crew;
        let crew = crew.executor.as_ref().filter(|_| due.job.kind == JobKind::Crew).zip(Some(crew));
        let attempt = AttemptId(self.parts.ids.next_id());
        let (executor, running_max) = match crew {
            Some((executor, crew)) => (executor.clone(), crew.workers_max),
            None => {
                let usual = || settings.default_worker_agent.clone();
                (card.agent.clone().unwrap_or_else(usual), settings.max_concurrent_agents)
            }
        };
        let agent = agent_of(&executor, attempt)?;
        let lease = RunLease {
            job: due.job.id,
            kind: due.job.kind,
            agent: Some(agent.clone()),
            attempt,
            machine: self.parts.machine.clone(),
            running_max,
            lease_s: self.parts.board.lease_s,
            early,
        };
        Ok(Some(Leasing { due, task, lease, card, settings, executor, agent }))
    }

    /// What came of a lease.
    async fn work_leased(
        &self,
        Leasing { due, task, card, settings, executor, agent, .. }: Leasing,
        answer: Result<Outcome, EngineError>,
    ) -> Result<Leased, EngineError> {
        let (store, org, job) = (&self.parts.store, &due.org, due.job.id);
        let record = match answer {
            Ok(outcome) => run_of(outcome)?,
            Err(EngineError::Refused(Refusal::NoPlace { .. })) => return Ok(Leased::NoPlace),
            Err(EngineError::Refused(_)) => return Ok(Leased::Not),
            Err(error) => return Err(error),
        };
        let (is_begun, run) = (matches!(record.job.state, JobState::Running { .. }), record.run);
        let order = run.order.work().cloned().filter(|_| is_begun);
        let (Some(order), Some(record)) = (order, store.task(org, task).await?) else {
            return Ok(Leased::Not);
        };
        // A worker of a crew keeps its own name; any other agent is named after its executor and its attempt.
        let agent = if order.role == Role::Crew { order.asked_by.clone() } else { agent };
        let taken = LeasedRun { org: org.clone(), job, fence: run.fence };
        let leased = LeasedWork { taken, run, order, record, card, settings, executor, agent };
        Ok(Leased::Begun(leased.into()))
    }
}

/// The name of an agent: `agent:<executor>-<last 6 of its attempt id>`.
fn agent_of(executor: &str, attempt: AttemptId) -> Result<Actor, EngineError> {
    let id = attempt.0.to_string();
    let last = &id[id.len().saturating_sub(6)..];
    let agent = format!("agent:{executor}-{last}").parse();
    agent.map_err(|_| {
        EngineError::Internal(format!("'{executor}' is not a valid name for an agent"))
    })
}
