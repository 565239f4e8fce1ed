//! What must be shown before a task counts as done, beyond its checks: nothing, a human's approval, a merged pull
//! request, or checks that Callboard ran itself.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::forge::ForgeKind;
use crate::task::Check;
use crate::time::Timestamp;
use crate::words::words;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum VerificationKind {
        None => "none",
        Manual => "manual",
        GithubPr => "github_pr",
        GitlabMr => "gitlab_mr",
        Commands => "commands",
    }
}

impl VerificationKind {
    /// The forge that knows whether the contract is fulfilled.
    pub fn forge(self) -> Option<ForgeKind> {
        match self {
            VerificationKind::GithubPr => Some(ForgeKind::GitHub),
            VerificationKind::GitlabMr => Some(ForgeKind::GitLab),
            VerificationKind::None | VerificationKind::Manual | VerificationKind::Commands => None,
        }
    }

    /// Whether a contract of this kind keeps a task from done, in every toolset.
    pub fn gates_done(self) -> bool {
        match self {
            VerificationKind::Manual | VerificationKind::GithubPr | VerificationKind::GitlabMr => {
                true
            }
            VerificationKind::None | VerificationKind::Commands => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationContract {
    pub kind: VerificationKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<String>,
    /// Names of check runs that must be green.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_checks: Vec<String>,
    /// The branch that the pull request must be merged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Paths that the pull request must have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl VerificationContract {
    pub fn of(kind: VerificationKind) -> Self {
        Self {
            kind,
            external_ref: None,
            required_checks: Vec::new(),
            branch: None,
            files: Vec::new(),
        }
    }

    /// The contract of a task without an explicit one.
    pub fn derived(checks: &[Check], otherwise: VerificationKind) -> Self {
        Self::of(if checks.iter().any(Check::is_command) {
            VerificationKind::Commands
        } else if !checks.is_empty() {
            VerificationKind::Manual
        } else {
            otherwise
        })
    }
}

/// The state of a task's verification since its completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub status: VerificationStatus,
    /// Why the verification has not passed, like `verification.pr_not_merged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reference that the completion named; `None`: the contract's own is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<String>,
    /// Consecutive runs that could not tell yet.
    #[serde(default)]
    pub pendings: u32,
    pub by: Actor,
    pub at: Timestamp,
    /// The state of the task's files that a pass was given for; `None` where no files were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum VerificationStatus {
        Skipped => "skipped",
        AwaitingHuman => "awaiting_human",
        Pending => "pending",
        Passed => "passed",
        Failed => "failed",
    }
}
