//! The reason why a task is stuck, until it gets an answer.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::command::Command;
use crate::limits::REASON_CHARS_MAX;
use crate::time::Timestamp;

/// The reason on record when an agent names none.
pub const NO_REASON: &str = "no reason given";

/// The reason on record for a block that an agent or its runner explains in its own words: trimmed, and cut if it is
/// too long.
pub fn reason_of(words: &str) -> String {
    match words.trim() {
        "" => NO_REASON.to_owned(),
        words => words.chars().take(REASON_CHARS_MAX).collect(),
    }
}

/// The block of a task: given by a worker of the task, or because an agent did not start. A blocked task is not
/// offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    pub by: Actor,
    pub at: Timestamp,
    pub reason: String,
}

impl Command {
    /// Whether the command changes what is wanted, so that the blocked work may be possible now.
    pub fn is_edit(&self) -> bool {
        matches!(
            self,
            Command::TaskEdit(_)
                | Command::TaskUpdate(_)
                | Command::CardUpdate(_)
                | Command::DependencyAdd { .. }
                | Command::DependencyRemove { .. }
        )
    }

    /// Whether the command tells the workers of its task something. It answers a block when it comes from another
    /// actor than the blocked one.
    pub fn is_answer(&self) -> bool {
        matches!(
            self,
            Command::TaskNote { .. }
                | Command::TaskTell { .. }
                | Command::TaskTransition { .. }
                | Command::TaskReopen { .. }
                | Command::CommentAdd(_)
                | Command::CommentResolve { .. }
                | Command::ReviewDecide(_)
        )
    }
}
