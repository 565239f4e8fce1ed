//! How a job's state lies in its columns, in every database.

use callboard_domain::job::JobState;

/// `due_at, runner, ended_at, reason`.
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
