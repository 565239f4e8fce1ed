//! The port to a forge. A fault says whether it is worth asking again.

use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::forge::{ForgeKind, ForgeRef, ForgeState};

/// Reads, opens and merges pulls at GitHub and GitLab, and calls merges off.
#[async_trait]
pub trait Forge: Send + Sync {
    /// A pull as it is now. Parts that are not wanted are not requested and stay empty.
    async fn pull(
        &self,
        kind: ForgeKind,
        pull: &ForgeRef,
        wanted: &PullStateRequest,
    ) -> Result<ForgeState, ForgeFault>;

    /// Opens a pull for a branch that is there already; returns the open pull of that branch, if it has one.
    async fn open(&self, kind: ForgeKind, new: &NewPull) -> Result<OpenedPull, ForgeFault>;

    /// Merges a pull as one commit: at once if that is possible, else the forge is told to merge it as soon as it is.
    /// Looks at the pull first, so a repeated call returns the result of the first. With a `head`, merges only a pull
    /// that still ends with that commit.
    async fn merge(
        &self,
        kind: ForgeKind,
        pull: &ForgeRef,
        head: Option<&str>,
    ) -> Result<ForgeMerge, ForgeFault>;

    /// Withdraws the request to merge a pull as soon as possible. Looks at the pull first; without such a request the
    /// pull is left as it is.
    async fn call_off(&self, kind: ForgeKind, pull: &ForgeRef) -> Result<ForgeOff, ForgeFault>;

    /// Every issue of a repository, open and closed, as the JSON array that the forge lists.
    async fn issues(&self, kind: ForgeKind, project: &str) -> Result<String, ForgeFault>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPull {
    /// `owner/repo`, or `group/sub/project`.
    pub project: String,
    pub branch: String,
    pub base: String,
    pub title: String,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedPull {
    pub number: u64,
    /// The address of its page.
    pub url: String,
}

/// The state of a pull after a request to merge it. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeMerge {
    Merged {
        commit: Option<String>,
    },
    /// The forge will merge it by itself.
    Waiting,
    /// The forge does not know yet, or changed its answer: ask again.
    Unsettled {
        why: String,
    },
    Conflicts,
    Refused {
        why: String,
    },
}

/// The state of a pull after its merge was called off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeOff {
    Open,
    /// Too late: the pull was merged already.
    Merged {
        commit: Option<String>,
    },
    Closed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullStateRequest {
    pub checks: bool,
    pub files: bool,
}

/// Why a forge gave no answer. Words are for the caller and hold no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeFault {
    #[error("this server has no token for the forge")]
    Unconfigured,
    /// Forges also answer this for a pull that the token may not see.
    #[error("the forge does not know the repository or pull request, or the token may not see it")]
    NotFound,
    /// The token or the settings must change first.
    #[error("{0}")]
    Refused(String),
    /// A repeat of the request may succeed later.
    #[error("{words}")]
    Unavailable { words: String, retry_after: Option<Duration> },
}
