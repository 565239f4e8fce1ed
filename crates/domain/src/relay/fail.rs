//! How a run ends.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// Why a job is FAILED.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    pub enum FailReason {
        /// The agent's output could not be read.
        BadArtifacts => "BAD_ARTIFACTS",
        /// The patch does not apply at the baseline commit.
        Conflict => "CONFLICT",
        /// The patch touches files it must not touch.
        Policy => "POLICY",
        /// The agent could not be started, or ended with an error.
        ExecutorError => "EXECUTOR_ERROR",
        Timeout => "TIMEOUT",
        /// The cause is outside the agent: git, the disk, the store, a lost worker.
        InternalError => "INTERNAL_ERROR",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunVerdict {
    Succeeded,
    Failed(FailReason),
    /// The run was ended from outside: canceled, expired, or its worker goes away. The caller that stopped it knows
    /// why.
    Stopped,
}
