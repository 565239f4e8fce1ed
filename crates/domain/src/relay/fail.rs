//! How a run ends.

use serde::{Deserialize, Serialize};

/// Why a job is FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailReason {
    /// The agent's output could not be read.
    BadArtifacts,
    /// The patch does not apply at the baseline commit.
    Conflict,
    /// The patch touches files it must not touch.
    Policy,
    /// The agent could not be started, or ended with an error.
    ExecutorError,
    Timeout,
    /// The cause is outside the agent: git, the disk, the store, a lost worker.
    InternalError,
}

impl FailReason {
    pub const ALL: [FailReason; 6] = [
        FailReason::BadArtifacts,
        FailReason::Conflict,
        FailReason::Policy,
        FailReason::ExecutorError,
        FailReason::Timeout,
        FailReason::InternalError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            FailReason::BadArtifacts => "BAD_ARTIFACTS",
            FailReason::Conflict => "CONFLICT",
            FailReason::Policy => "POLICY",
            FailReason::ExecutorError => "EXECUTOR_ERROR",
            FailReason::Timeout => "TIMEOUT",
            FailReason::InternalError => "INTERNAL_ERROR",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
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
