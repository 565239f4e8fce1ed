//! When a worker's agent has to be started, and when its runs are given up. Derived from its task, its last run and
//! its mail alone: no other state is kept, so none can be lost.

use super::state::TaskState;
use crate::policy::Phase;
use crate::runs::job::JobState;
use crate::runs::run::RunRecord;
use crate::runs::work::WorkFault;
use crate::time::Timestamp;

/// How long processes of an ended run are assumed to live, unless their end is on record.
const GONE_WITHIN_S: u32 = 20;

/// Whether a busy worker has been silent for so long that it should be reported. Nothing else follows from it.
pub fn is_silent(heard_at: Timestamp, after_s: u32, now: Timestamp) -> bool {
    now >= heard_at.plus_s(after_s)
}

/// Whether a worker is looked at, because its agent may have to be started. `phase` is that of its task. A task in
/// review rests until its worker gets mail.
pub fn may_start(phase: Phase, has_run: bool, has_mail: bool) -> bool {
    !has_run && (phase != Phase::Review || has_mail)
}

/// Whether a worker is reported, because it should be at work and says nothing.
pub fn is_overdue(phase: Phase, heard_at: Timestamp, after_s: u32, now: Timestamp) -> bool {
    phase != Phase::Review && is_silent(heard_at, after_s, now)
}

/// A worker and the task it has.
#[derive(Clone, Copy, Debug)]
pub struct Shift<'a> {
    pub state: TaskState,
    /// Since when the task is the worker's.
    pub since: Timestamp,
    /// Since when the task is in its phase.
    pub phase_at: Timestamp,
    /// The newest run on the task, of any worker.
    pub last: Option<&'a RunRecord>,
    /// When the newest unread mail of the worker came.
    pub mail_at: Option<Timestamp>,
}

/// What to do about a worker.
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
        // The run was told of all mail that came before it was requested.
        let told_at = self.last.map_or(self.since, |last| last.job.created_at).max(self.since);
        let is_woken = waits && self.mail_at.is_some_and(|at| at > told_at);
        if is_woken && !self.is_something_left(now) { Next::Start } else { Next::Rest }
    }

    /// Why the last run failed for good, if the task is still as that run left it.
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

    /// Whether processes of the last run may be left. Two agents never share a worktree.
    fn is_something_left(&self, now: Timestamp) -> bool {
        self.last.is_some_and(|last| {
            let is_unknown = last.run.runs_on.is_some() && last.run.gone_at.is_none();
            is_unknown && last.finished_at().is_some_and(|at| now < at.plus_s(GONE_WITHIN_S))
        })
    }
}
