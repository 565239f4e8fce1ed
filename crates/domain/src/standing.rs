//! Where a task stands right now, as facts that a toolset puts into its own words.

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::policy::Phase;
use crate::task::Task;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub phase: Phase,
    pub deps_open: bool,
    /// An assignee or a live attempt.
    pub held: bool,
    /// The last attempt ended without a result, or with one that was sent back, so the work is free
    /// again.
    pub given_up: bool,
}

impl Standing {
    /// A lease that is over at `now` is as good as written down.
    pub fn of(task: &Task, newest: Option<&Attempt>, now: Timestamp) -> Self {
        let deps_open = task.open_deps > 0;
        match newest {
            Some(attempt) if attempt.lease_is_over(now) => {
                let phase = match task.phase {
                    Phase::Initial | Phase::Working => Phase::Initial,
                    Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => task.phase,
                };
                Self { phase, deps_open, held: false, given_up: true }
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
                Self { phase: task.phase, deps_open, held, given_up }
            }
        }
    }

    /// Whether somebody could start it: nobody holds it and nothing it waits for is open.
    pub fn is_free(&self) -> bool {
        let startable = match self.phase {
            Phase::Initial => true,
            Phase::Working => self.given_up,
            Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => false,
        };
        startable && !self.deps_open && !self.held
    }
}
