//! Where a task stands right now, as facts that a toolset puts into its own words.

use serde::{Deserialize, Serialize};

use crate::policy::{Phase, Policy};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::task::{Dep, Task, TaskRecord, TaskRow};
use crate::time::Timestamp;

/// The phase of a task after a lease on it ended without a result. Work that was handed over before stays in its
/// phase.
pub fn phase_after_lease(phase: Phase) -> Phase {
    match phase {
        Phase::Initial | Phase::Working => Phase::Initial,
        Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => phase,
    }
}

/// Turns stored rows into the task and its newest attempt as they stand at `now`. A lease that is over ended at its
/// expiry, whether or not a sweep has written that: the task has no holder and is back at the start. Every reader
/// of a task sees it through here.
pub fn settle(task: &mut Task, newest: Option<&mut Attempt>, policy: &Policy, now: Timestamp) {
    let Some(attempt) = newest else { return };
    let Some(at) = attempt.settle(now) else { return };
    task.assignee = None;
    let phase = phase_after_lease(task.phase);
    if phase == Phase::Initial {
        task.label = policy.initial().name.clone();
    }
    if phase != task.phase {
        (task.phase, task.phase_at) = (phase, at);
    }
}

/// Settles the deps of a task in the way that `settle` does the task.
pub fn settle_deps(deps: &mut [Dep], policy: &Policy, now: Timestamp) {
    let over = |dep: &&mut Dep| dep.lease_expires_at.is_some_and(|at| now >= at);
    for dep in deps.iter_mut().filter(over) {
        dep.phase = phase_after_lease(dep.phase);
        if dep.phase == Phase::Initial {
            dep.label = policy.initial().name.clone();
        }
    }
}

impl TaskRecord {
    /// The record as it stands at `now`.
    pub fn as_of(mut self, policy: &Policy, now: Timestamp) -> Self {
        settle(&mut self.task, self.newest.as_mut(), policy, now);
        settle_deps(&mut self.deps, policy, now);
        self
    }
}

impl TaskRow {
    /// The row as it stands at `now`.
    pub fn as_of(mut self, policy: &Policy, now: Timestamp) -> Self {
        settle(&mut self.task, self.newest.as_mut(), policy, now);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub phase: Phase,
    pub deps_open: bool,
    /// The task has a block, and no answer came yet.
    #[serde(default)]
    pub blocked: bool,
    /// The task has an assignee or a live attempt.
    pub held: bool,
    /// The last attempt ended without a result, or with one that was sent back, so the work is free again.
    pub given_up: bool,
}

impl Standing {
    /// The standing at `now`. A lease that is over counts as ended, written or not.
    pub fn of(task: &Task, newest: Option<&Attempt>, now: Timestamp) -> Self {
        let (deps_open, blocked) = (task.open_deps > 0, task.blocked.is_some());
        match newest {
            Some(attempt) if attempt.lease_is_over(now) => {
                let phase = phase_after_lease(task.phase);
                Self { phase, deps_open, blocked, held: false, given_up: true }
            }
            newest => {
                let live = newest.is_some_and(|attempt| attempt.is_live(now));
                let given_up = newest.is_some_and(|attempt| match &attempt.state {
                    AttemptState::Live { .. } => false,
                    AttemptState::Ended { end, .. } => match end {
                        AttemptEnd::Canceled { .. }
                        | AttemptEnd::Expired
                        | AttemptEnd::Released => true,
                        AttemptEnd::Finished { .. } => task.phase == Phase::Working,
                    },
                });
                let held = live || task.assignee.is_some();
                Self { phase: task.phase, deps_open, blocked, held, given_up }
            }
        }
    }

    /// Whether an actor could start the task: it has no holder, no open dep and no block.
    pub fn is_free(&self) -> bool {
        let startable = match self.phase {
            Phase::Initial => true,
            Phase::Working => self.given_up,
            Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => false,
        };
        startable && !self.deps_open && !self.blocked && !self.held
    }
}
