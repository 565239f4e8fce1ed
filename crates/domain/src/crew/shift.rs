//! When the agent of a worker has to be started, and when nobody tries any more. Told by how its task
//! stands, its last run and its mail alone: nothing has to be remembered, so nothing can be forgotten.

use super::state::TaskState;
use crate::job::JobState;
use crate::run::RunRecord;
use crate::time::Timestamp;
use crate::work::WorkFault;

/// How long something may be left of a run of which nobody says that it is gone.
const GONE_WITHIN_S: u32 = 20;

/// Whether somebody should hear that a busy worker says nothing. Nothing else follows from it.
pub fn is_silent(heard_at: Timestamp, after_s: u32, now: Timestamp) -> bool {
    now >= heard_at.plus_s(after_s)
}

/// A worker and the task it has.
#[derive(Clone, Copy, Debug)]
pub struct Shift<'a> {
    pub state: TaskState,
    /// Since when the task is the worker's.
    pub since: Timestamp,
    /// Since when the task is in its phase.
    pub phase_at: Timestamp,
    /// The newest run on the task, whoever's it was.
    pub last: Option<&'a RunRecord>,
    /// When the newest mail came that the worker has not read.
    pub mail_at: Option<Timestamp>,
}

/// What is to be done about a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Rest,
    Start,
    /// Its runs came to nothing.
    GiveUp {
        reason: String,
    },
}

impl Shift<'_> {
    pub fn next(&self, now: Timestamp) -> Next {
        if self.last.is_some_and(|last| !last.job.is_over()) {
            return Next::Rest;
        }
        if self.state.is_at_work() {
            return match self.lost() {
                Some(reason) => Next::GiveUp { reason },
                None if self.is_something_left(now) => Next::Rest,
                None => Next::Start,
            };
        }
        let waits = matches!(self.state, TaskState::Review | TaskState::Blocked);
        // What came before the run was asked for is what it was told of.
        let told_at = self.last.map_or(self.since, |last| last.job.created_at).max(self.since);
        let is_woken = waits && self.mail_at.is_some_and(|at| at > told_at);
        if is_woken && !self.is_something_left(now) { Next::Start } else { Next::Rest }
    }

    /// Why its last round of runs was the last, if the task is still as that left it.
    fn lost(&self) -> Option<String> {
        let last = self.last?;
        let at = match &last.job.state {
            JobState::Failed { at, reason } if *reason == WorkFault::Lost.as_str() => at,
            JobState::Expired { at } => at,
            _ => return None,
        };
        let is_about_it = *at >= self.since && *at >= self.phase_at;
        let reason = last.run.summary.clone().unwrap_or_else(|| "Worker lost".into());
        is_about_it.then_some(reason)
    }

    /// Two agents never share a worktree.
    fn is_something_left(&self, now: Timestamp) -> bool {
        self.last.is_some_and(|last| {
            let is_unknown = last.run.runs_on.is_some() && last.run.gone_at.is_none();
            is_unknown && last.finished_at().is_some_and(|at| now < at.plus_s(GONE_WITHIN_S))
        })
    }
}
