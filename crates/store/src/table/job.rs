//! Jobs.

use callboard_domain::runs::job::{Job, JobId, JobKind, JobState};

use super::cell::table;
use super::{Cells, RowReader};
use crate::DueJob;

/// The columns of a job `j` with its task `t`.
pub(crate) const JOB: &str = "j.id, j.kind, j.key, j.task, t.prefix, j.priority, j.tries, \
     j.created_at, j.state, j.due_at, j.runner, j.ended_at, j.reason";
pub(crate) const JOB_FROM: &str = "jobs j LEFT JOIN tasks t ON t.id = j.task";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Job, R::Error> {
    Ok(Job {
        id: JobId(row.id()?),
        kind: row.word("kind", JobKind::parse)?,
        key: row.text()?,
        task: row.task_or_gone()?,
        priority: row.count()?,
        tries: row.count()?,
        created_at: row.time()?,
        state: state(row)?,
    })
}

/// `due_at` has two meanings: the earliest start of a queued job, and the end of the lease of one that is running or
/// stale. In both cases a runner looks at the job from that time on, so one index finds all due jobs.
fn state<R: Cells>(row: &mut RowReader<'_, R>) -> Result<JobState, R::Error> {
    let (word, due_at, runner) = (row.str()?, row.time_if()?, row.actor_if()?);
    let (ended_at, reason) = (row.time_if()?, row.text_if()?);
    let state = match word {
        "queued" => due_at.map(|due_at| JobState::Queued { due_at }),
        "running" => due_at.zip(runner).map(|(until, runner)| JobState::Running { runner, until }),
        "stale" => due_at.zip(runner).map(|(until, runner)| JobState::Stale { runner, until }),
        "canceled" => ended_at.map(|at| JobState::Canceled { at }),
        "expired" => ended_at.map(|at| JobState::Expired { at }),
        "done" => ended_at.map(|at| JobState::Done { at }),
        "failed" => ended_at.zip(reason).map(|(at, reason)| JobState::Failed { at, reason }),
        _ => None,
    };
    state.ok_or_else(|| row.damaged("state"))
}

/// Reads a job with the name of its org in the column behind it.
pub(crate) fn read_due<R: Cells>(row: &mut RowReader<'_, R>) -> Result<DueJob, R::Error> {
    Ok(DueJob { job: read(row)?, org: row.str()?.into() })
}

table! {
    JOBS = "jobs";
    fn values(org: i64, job: &'a Job) {
        id: job.id,
        org: org,
        kind: job.kind.as_str(),
        key: &job.key,
        task: job.task,
        tries: job.tries,
        created_at: job.created_at,
        state: job.state.as_str(),
        due_at: columns(&job.state).0,
        runner: columns(&job.state).1,
        ended_at: columns(&job.state).2,
        reason: columns(&job.state).3,
        priority: job.priority,
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 6] = ["tries", "state", "due_at", "runner", "ended_at", "reason"];

/// Queues a job again, unless it runs. A running job sees at its end that `created_at` moved.
/// `tries` stays as it is: it is the fencing token, and a counter that began anew would admit a report of an old try.
pub(crate) const AGAIN: &str = "ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, \
     state = CASE WHEN jobs.state = 'running' THEN jobs.state ELSE excluded.state END, \
     due_at = CASE WHEN jobs.state = 'running' THEN jobs.due_at ELSE excluded.due_at END, \
     runner = CASE WHEN jobs.state = 'running' THEN jobs.runner ELSE excluded.runner END, \
     ended_at = CASE WHEN jobs.state = 'running' THEN jobs.ended_at ELSE excluded.ended_at END, \
     reason = CASE WHEN jobs.state = 'running' THEN jobs.reason ELSE excluded.reason END";

/// The columns `due_at, runner, ended_at, reason`.
fn columns(state: &JobState) -> (Option<i64>, Option<&str>, Option<i64>, Option<&str>) {
    match state {
        JobState::Queued { due_at } => (Some(due_at.0), None, None, None),
        JobState::Running { runner, until } => (Some(until.0), Some(runner.as_str()), None, None),
        JobState::Stale { runner, until } => (Some(until.0), Some(runner.as_str()), None, None),
        JobState::Done { at } | JobState::Canceled { at } | JobState::Expired { at } => {
            (None, None, Some(at.0), None)
        }
        JobState::Failed { at, reason } => (None, None, Some(at.0), Some(reason)),
    }
}
