//! Jobs: taken, kept, ended. A runner that lost its lease is refused and writes nothing.

use serde_json::json;

use crate::command::JobEnd;
use crate::decide::draft::job_writes;
use crate::event::{About, Event, EventName};
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Why a job that ran the checks of a task counts as failed.
const CHECKS_FAILED: &str = "checks_failed";

/// The job a runner names, if that runner still holds its lease.
pub(crate) fn own<'w>(
    world: &'w World<'_>,
    id: JobId,
    tries: u32,
    now: Timestamp,
) -> Result<&'w Job, Refusal> {
    let mine = |job: &&Job| job.is_run_by(world.actor, tries, now);
    world.job.as_ref().filter(mine).ok_or(Refusal::JobLost { job: id })
}

/// Queues a job without a task, unless a job with its key is under way.
pub(crate) fn job_queue(
    world: &World<'_>,
    id: JobId,
    kind: JobKind,
    key: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if let Some(job) = &world.job {
        let (writes, events) = Default::default();
        return Ok(Change { writes, events, reply: Reply::Job(job.id), but: None });
    }
    let job = Job::queued(id, kind, key.to_owned(), None, now);
    let mut change = changed(world, EventName::JobQueued, job.clone());
    change.writes = vec![Write::JobInsert { job }];
    Ok(change)
}

pub(crate) fn job_take(
    world: &World<'_>,
    id: JobId,
    lease_s: u32,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let due = world.job.as_ref().filter(|job| job.is_due(now));
    let job = due.ok_or(Refusal::JobLost { job: id })?;
    let state = JobState::Running { runner: world.actor.clone(), until: now.plus_s(lease_s) };
    let job = Job { tries: job.tries + 1, state, ..job.clone() };
    Ok(changed(world, EventName::JobTaken, job))
}

pub(crate) fn job_keep(
    world: &World<'_>,
    id: JobId,
    tries: u32,
    lease_s: u32,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let job = own(world, id, tries, now)?;
    let state = JobState::Running { runner: world.actor.clone(), until: now.plus_s(lease_s) };
    Ok(changed(world, EventName::JobKept, Job { state, ..job.clone() }))
}

pub(crate) fn job_end(
    world: &World<'_>,
    id: JobId,
    tries: u32,
    end: &JobEnd,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let job = own(world, id, tries, now)?;
    let state = match end {
        JobEnd::Done => JobState::Done { at: now },
        JobEnd::Again { after_s } => JobState::Queued { due_at: now.plus_s(*after_s) },
        JobEnd::Failed { reason } => JobState::Failed { at: now, reason: reason.clone() },
        // The checks were requested again while they ran: the files may have changed since.
        JobEnd::Checked { asked_at, .. } if job.created_at != *asked_at => {
            JobState::Queued { due_at: now }
        }
        JobEnd::Checked { passed: true, .. } => JobState::Done { at: now },
        JobEnd::Checked { passed: false, .. } => {
            JobState::Failed { at: now, reason: CHECKS_FAILED.into() }
        }
    };
    Ok(changed(world, EventName::JobEnded, Job { state, ..job.clone() }))
}

/// Cancels a job of the server's own. A canceled message is not sent any more; a canceled verification or check
/// leaves its task as it is, and its runner hears that the job is lost. Vectors are made for every search, so the
/// job that makes them cannot be canceled.
pub(crate) fn job_cancel(world: &World<'_>, id: JobId, now: Timestamp) -> Result<Change, Refusal> {
    let job = world.job.as_ref().filter(|job| job.id == id).or_not_found(&id)?;
    match job.kind {
        JobKind::Verify | JobKind::Check | JobKind::Deliver => {}
        JobKind::Embed | JobKind::Run | JobKind::Work | JobKind::Crew | JobKind::Stop => {
            return Err(Refusal::NotCancelable { job: id, kind: job.kind });
        }
    }
    if job.is_over() {
        let (writes, events) = Default::default();
        return Ok(Change { writes, events, reply: Reply::Job(id), but: None });
    }
    let job = Job { state: JobState::Canceled { at: now }, ..job.clone() };
    Ok(changed(world, EventName::JobCanceled, job))
}

/// Ends a job that has nothing left to do.
pub(crate) fn over(world: &World<'_>, job: &Job, now: Timestamp) -> Change {
    let job = Job { state: JobState::Done { at: now }, ..job.clone() };
    changed(world, EventName::JobEnded, job)
}

/// The task whose history the job's events belong to. Only jobs that a caller asked for have one; what the server
/// does by itself is no part of that history.
fn about(world: &World<'_>, job: &Job) -> Option<About> {
    let task = match job.kind {
        JobKind::Stop => &world.subject.as_ref()?.task,
        JobKind::Verify
        | JobKind::Embed
        | JobKind::Run
        | JobKind::Work
        | JobKind::Crew
        | JobKind::Deliver
        | JobKind::Check => return None,
    };
    Some(About { project: task.project, task: task.id, attempt: None })
}

/// The event names of a stop job are those that its caller follows jobs by.
fn called(name: EventName, job: &Job) -> EventName {
    match (job.kind, name, &job.state) {
        (JobKind::Stop, EventName::JobTaken, _) => EventName::JobStarted,
        (JobKind::Stop, EventName::JobEnded, JobState::Done { .. }) => EventName::JobSucceeded,
        (JobKind::Stop, EventName::JobEnded, JobState::Failed { .. }) => EventName::JobFailed,
        (JobKind::Stop, EventName::JobEnded, _) => EventName::JobRequeued,
        _ => name,
    }
}

pub(crate) fn changed(world: &World<'_>, name: EventName, job: Job) -> Change {
    let data = json!({
        "job": job.id.to_string(),
        "kind": job.kind,
        "state": job.state.as_str(),
        "tries": job.tries,
    });
    let (name, about) = (called(name, &job), about(world, &job));
    Change {
        events: vec![Event { actor: world.actor.clone(), name, about, data }],
        reply: Reply::Job(job.id),
        writes: job_writes(world, Some(job), None),
        but: None,
    }
}
