//! The columns of a job's state, in every database, and the SQL that lists jobs.

use callboard_domain::job::{JobKind, JobState};

use crate::JobQuery;

/// Queues a job again, unless it runs. A running job sees at its end that `created_at` moved.
pub(crate) const JOB_AGAIN: &str = "ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, \
     state = CASE WHEN jobs.state = 'running' THEN jobs.state ELSE excluded.state END, \
     due_at = CASE WHEN jobs.state = 'running' THEN jobs.due_at ELSE excluded.due_at END, \
     runner = CASE WHEN jobs.state = 'running' THEN jobs.runner ELSE excluded.runner END, \
     ended_at = CASE WHEN jobs.state = 'running' THEN jobs.ended_at ELSE excluded.ended_at END, \
     reason = CASE WHEN jobs.state = 'running' THEN jobs.reason ELSE excluded.reason END";

/// The columns `due_at, runner, ended_at, reason`.
pub(crate) fn columns(state: &JobState) -> (Option<i64>, Option<&str>, Option<i64>, Option<&str>) {
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

/// The end of a SELECT of jobs: the conditions and the order of a query. Kinds and states are our own constants, so
/// they stand in the text.
pub(crate) fn listed(query: &JobQuery, org: &str, limit: &str) -> String {
    let kinds: Vec<&str> = query.kinds.iter().copied().map(JobKind::as_str).collect();
    let state = query.state.map(|state| format!(" AND j.state = '{state}'")).unwrap_or_default();
    let (which, order) = match query.is_over {
        true => ("j.ended_at IS NOT NULL", "j.ended_at DESC, j.id DESC"),
        false => ("j.due_at IS NOT NULL", "j.created_at, j.id"),
    };
    format!(
        "WHERE j.org = {org} AND {which} AND j.kind IN ('{}'){state} ORDER BY {order} LIMIT {limit}",
        kinds.join("', '")
    )
}
