//! Stop jobs: a request to end an agent's work. Queued unless there is nothing to stop, taken and logged like any
//! job (`job.rs`). The effect on the run and its task is `work_stop`.

use crate::board::card::Mode;
use crate::decide::runs::job::changed;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::runs::work::{judge_running, stop_key};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

pub(crate) fn stop_queue(
    world: &World<'_>,
    id: JobId,
    task: TaskId,
    open: Option<JobId>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let subject = world.subject.as_ref().or_not_found(&task)?;
    if subject.card.mode != Mode::Auto {
        return Err(Refusal::NotAuto { task });
    }
    if let Some(under_way) = &world.job {
        return Ok(unchanged(under_way));
    }
    judge_running(task, open.is_some())?;
    let priority = subject.task.priority;
    let job = Job { priority, ..Job::queued(id, JobKind::Stop, stop_key(task), Some(task), now) };
    let mut change = changed(world, EventName::JobSubmitted, job.clone());
    change.writes = vec![Write::JobInsert { job }];
    Ok(change)
}

/// Cancels a stop job. An agent that is being stopped already does not come back by this.
pub(crate) fn stop_cancel(world: &World<'_>, id: JobId, now: Timestamp) -> Result<Change, Refusal> {
    let job = world.job.as_ref().filter(|job| job.id == id && job.kind == JobKind::Stop);
    let job = job.or_not_found(&id)?;
    if job.is_over() {
        return Ok(unchanged(job));
    }
    let job = Job { state: JobState::Canceled { at: now }, ..job.clone() };
    Ok(changed(world, EventName::JobCanceled, job))
}

fn unchanged(job: &Job) -> Change {
    let (writes, events) = Default::default();
    Change { writes, events, reply: Reply::Job(job.id), but: None }
}
