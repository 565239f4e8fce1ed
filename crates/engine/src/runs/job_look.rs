//! Jobs as a person looks at them: each with its task, its place in the queue and the reason of its wait; one job with
//! its steps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use callboard_domain::board::filter::{FilterTerm, FilterWants};
use callboard_domain::ids::TaskId;
use callboard_domain::runs::filter::JobFacts;
use callboard_domain::runs::job::{Job, JobId, JobKind, JobState};
use callboard_domain::runs::notes::RunNotes;
use callboard_domain::runs::steps::{RunStep, RunStepKind, run_steps};
use callboard_domain::task::Task;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;
use callboard_store::{EventQuery, JobQuery};

use crate::context::OpContext;
use crate::runs::list::{JobSeen, JobsWanted};
use crate::runs::notes::RunLimits;
use crate::task::query::AttemptFilter;
use crate::{At, Engine, EngineError};

/// How many queued jobs are counted for the places in the queues.
const QUEUED_MAX: usize = 1000;
/// How many jobs are searched for those that fit a filter.
pub const JOBS_SEARCHED: usize = 500;
/// How many events of a task are searched for the steps of a job.
const EVENTS_MAX: usize = 20_000;
/// How many attempts of a task are searched for the one of a run.
const ATTEMPTS_MAX: usize = 100;

/// A job in a list.
#[derive(Clone, Debug)]
pub struct JobLine {
    pub seen: JobSeen,
    /// `None` also when the task was removed.
    pub task: Option<Task>,
    /// Only while the job is queued.
    pub wait: Option<JobWait>,
}

impl JobLine {
    /// The facts for a filter, beside the epic of the task and the attempt of the last run.
    fn facts<'j>(&'j self, epic: Option<&'j Task>, attempt: Option<&'j Attempt>) -> JobFacts<'j> {
        let (job, run) = (&self.seen.job, self.seen.run.as_ref());
        let reason = match &job.state {
            JobState::Failed { reason, .. } => reason.as_str(),
            JobState::Queued { .. }
            | JobState::Running { .. }
            | JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => "",
        };
        let order = run.and_then(|run| run.order.patch());
        let of_order = order.map_or("", |spec| spec.task.title.as_str());
        JobFacts {
            job,
            title: self.task.as_ref().map_or(of_order, |task| &task.title),
            summary: run.and_then(|run| run.summary.as_deref()).unwrap_or(reason),
            asked_by: run.and_then(|run| run.order.work()).map(|order| &order.asked_by),
            agent: attempt.map(|attempt| &attempt.actor),
            task: self.task.as_ref(),
            epic,
        }
    }
}

/// The wait of a queued job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobWait {
    /// The place among the org's queued jobs of this kind, 1 for the next.
    pub place: usize,
    pub why: JobWaitsFor,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobWaitsFor {
    /// The next try comes at this time.
    Time(Timestamp),
    /// No process starts agents on this machine; `None`: on any.
    Runner(Option<String>),
    /// This many agents may run at a time, and they do.
    Place(usize),
    /// A runner takes the job next, or after the jobs before it.
    Turn,
}

/// One job with everything that is known about its course.
#[derive(Clone, Debug)]
pub struct JobLook {
    pub line: JobLine,
    pub steps: Vec<RunStep>,
    /// The attempt of the newest run.
    pub attempt: Option<Attempt>,
    /// When the open question was asked, and when it counts as refused.
    pub answer_within: Option<(Timestamp, Timestamp)>,
    /// The notes of the first run.
    pub notes: RunNotes,
    /// `None` for a job of the server itself.
    pub limits: Option<RunLimits>,
}

/// The queues as they are now, read once for a list.
#[derive(Default)]
struct Queues {
    places: HashMap<JobId, usize>,
    /// Whether a process starts agents on a machine, and how many of each kind run there.
    machines: HashMap<Option<String>, (bool, usize, usize)>,
}

impl Engine {
    /// As `job_list`, each job with its task and its wait.
    pub async fn jobs_look(
        &self,
        op: &OpContext,
        wanted: JobsWanted,
    ) -> Result<At<Vec<JobLine>>, EngineError> {
        let jobs = self.job_list(op, wanted).await?;
        let mut queues = Queues::default();
        let mut lines = Vec::with_capacity(jobs.len());
        for seen in jobs {
            lines.push(self.job_line(op, seen, &mut queues).await?);
        }
        Ok(At { it: lines, now: self.parts.store.now() })
    }

    /// As `jobs_look`, of the jobs that fit the terms: those among the first `JOBS_SEARCHED` jobs, at most `wanted.limit`.
    pub async fn jobs_found(
        &self,
        op: &OpContext,
        wanted: JobsWanted,
        terms: &[FilterTerm],
    ) -> Result<At<Vec<JobLine>>, EngineError> {
        if terms.is_empty() {
            return self.jobs_look(op, wanted).await;
        }
        let jobs = self.job_list(op, JobsWanted { limit: JOBS_SEARCHED, ..wanted }).await?;
        let now = self.parts.store.now();
        let (mut queues, mut lines) = (Queues::default(), Vec::new());
        let mut epics: HashMap<TaskId, Option<Task>> = HashMap::new();
        let asks_for_actor = terms.iter().any(|term| matches!(term.wants, FilterWants::Actor(_)));
        for seen in jobs {
            if lines.len() == wanted.limit {
                break;
            }
            let line = self.job_line(op, seen, &mut queues).await?;
            let epic = match line.task.as_ref().and_then(|task| task.parent) {
                None => None,
                Some(parent) => match epics.entry(parent) {
                    Entry::Occupied(known) => known.into_mut().as_ref(),
                    Entry::Vacant(place) => {
                        let found = self.parts.store.task(&op.principal.org, parent).await?;
                        place.insert(found.map(|record| record.task)).as_ref()
                    }
                },
            };
            let attempt = match asks_for_actor {
                true => self.attempt_of_run(op, &line).await?,
                false => None,
            };
            if line.facts(epic, attempt.as_ref()).fit(terms, now) {
                lines.push(line);
            }
        }
        Ok(At { it: lines, now })
    }

    /// A job of any kind with its steps.
    pub async fn job_look(&self, op: &OpContext, id: JobId) -> Result<At<JobLook>, EngineError> {
        let seen = self.job_see(op, id).await?;
        let line = self.job_line(op, seen, &mut Queues::default()).await?;
        let (org, job) = (&op.principal.org, &line.seen.job);
        let events = match job.task {
            None => Vec::new(),
            Some(_) => {
                let query = EventQuery {
                    org: Some(org.clone()),
                    after: 0,
                    task: job.task,
                    limit: EVENTS_MAX,
                };
                self.parts.store.events(query).await?
            }
        };
        let steps = run_steps(job, &events);
        let attempt = self.attempt_of_run(op, &line).await?;
        let asked = steps.iter().rev().find(|step| match step.kind {
            RunStepKind::Question { .. } => step.ended_at.is_none(),
            _ => false,
        });
        let patience = self.parts.runs.ask_timeout.as_secs() as u32;
        let answer_within = asked.map(|step| (step.began_at, step.began_at.plus_s(patience)));
        let notes = self.run_notes(org, &line.seen).await?;
        let limits = self.run_limits(&line.seen);
        let it = JobLook { line, steps, attempt, answer_within, notes, limits };
        Ok(At { it, now: self.parts.store.now() })
    }

    async fn attempt_of_run(
        &self,
        op: &OpContext,
        line: &JobLine,
    ) -> Result<Option<Attempt>, EngineError> {
        let fence = line.seen.run.as_ref().map(|run| run.fence).filter(|fence| *fence > 0);
        let (Some(fence), Some(task)) = (fence, line.seen.job.task) else { return Ok(None) };
        let filter =
            AttemptFilter { task: Some(task), limit: ATTEMPTS_MAX, ..AttemptFilter::default() };
        let attempts = self.attempt_list(op, filter).await?.it;
        Ok(attempts.into_iter().find(|attempt| attempt.fence == fence))
    }

    async fn job_line(
        &self,
        op: &OpContext,
        seen: JobSeen,
        queues: &mut Queues,
    ) -> Result<JobLine, EngineError> {
        let org = &op.principal.org;
        let task = match seen.job.task {
            Some(task) => self.parts.store.task(org, task).await?.map(|record| record.task),
            None => None,
        };
        let wait = match seen.job.state {
            JobState::Queued { due_at } => Some(self.job_wait(org, &seen, due_at, queues).await?),
            JobState::Running { .. }
            | JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => None,
        };
        Ok(JobLine { seen, task, wait })
    }

    async fn job_wait(
        &self,
        org: &Arc<str>,
        seen: &JobSeen,
        due_at: Timestamp,
        queues: &mut Queues,
    ) -> Result<JobWait, EngineError> {
        let JobSeen { job, run } = seen;
        if !queues.places.contains_key(&job.id) {
            self.count_places(org, job, queues).await?;
        }
        let place = queues.places.get(&job.id).copied().unwrap_or(QUEUED_MAX);
        let wait = |why| Ok(JobWait { place, why });
        if due_at > self.parts.store.now() {
            return wait(JobWaitsFor::Time(due_at));
        }
        let Some(run) = run else { return wait(JobWaitsFor::Turn) };
        let machine = run.bound_to.clone();
        let (is_there, works, patches) = self.machine_now(&machine, queues).await?;
        let (running, most) = match job.kind {
            JobKind::Work => {
                (works, self.board_settings(org).await?.max_concurrent_agents as usize)
            }
            JobKind::Run => (patches, self.parts.runs.running_max as usize),
            JobKind::Verify
            | JobKind::Embed
            | JobKind::Crew
            | JobKind::Deliver
            | JobKind::Stop
            | JobKind::Check => (0, usize::MAX),
        };
        wait(match () {
            () if !is_there => JobWaitsFor::Runner(machine),
            () if running >= most => JobWaitsFor::Place(most),
            () => JobWaitsFor::Turn,
        })
    }

    async fn count_places(
        &self,
        org: &Arc<str>,
        job: &Job,
        queues: &mut Queues,
    ) -> Result<(), EngineError> {
        let query = JobQuery {
            org: org.clone(),
            is_over: false,
            kinds: vec![job.kind],
            state: Some(job.state.as_str()),
            limit: QUEUED_MAX,
        };
        let mut queue = self.parts.store.jobs(query).await?;
        queue.sort_by_key(|job| (job.priority, job.created_at, job.id));
        let places = queue.iter().enumerate().map(|(index, job)| (job.id, index + 1));
        queues.places.extend(places);
        Ok(())
    }

    async fn machine_now(
        &self,
        machine: &Option<String>,
        queues: &mut Queues,
    ) -> Result<(bool, usize, usize), EngineError> {
        if let Some(known) = queues.machines.get(machine) {
            return Ok(*known);
        }
        let is_there = self.runner_is_there(machine.as_deref()).await?;
        let name = machine.as_deref().unwrap_or(&self.parts.machine);
        let there = self.parts.store.runs_on(name).await?;
        let count =
            |kind| there.iter().filter(|due| due.job.kind == kind && !due.job.is_over()).count();
        let known = (is_there, count(JobKind::Work), count(JobKind::Run));
        queues.machines.insert(machine.clone(), known);
        Ok(known)
    }
}
