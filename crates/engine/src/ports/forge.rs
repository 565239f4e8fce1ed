//! What the engine asks of a forge. A fault says whether it is worth asking again.

use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::forge::{ForgeKind, PullRef, PullState};

/// Asks GitHub and GitLab, opens pulls there, merges them and calls merges off.
#[async_trait]
pub trait Forge: Send + Sync {
    /// A pull as it is now. What is not wanted stays empty and is not asked for.
    async fn pull(
        &self,
        kind: ForgeKind,
        pull: &PullRef,
        wanted: &Wanted,
    ) -> Result<PullState, ForgeFault>;

    /// Opens a pull for a branch that is there already; the open one of that branch, if it has one.
    async fn open(&self, kind: ForgeKind, new: &NewPull) -> Result<OpenedPull, ForgeFault>;

    /// Merges a pull as one commit: at once when it may be, else the forge is told to do so once it
    /// may. Looks first, so that whoever asks again hears what came of it. With a `head` only a
    /// pull that still ends with that commit.
    async fn merge(
        &self,
        kind: ForgeKind,
        pull: &PullRef,
        head: Option<&str>,
    ) -> Result<ForgeMerge, ForgeFault>;

    /// Takes back the wish that a pull be merged once it may. Looks first; one that never was to be
    /// merged is left as it is.
    async fn call_off(&self, kind: ForgeKind, pull: &PullRef) -> Result<ForgeOff, ForgeFault>;
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
    /// Its page.
    pub url: String,
}

/// How a pull stands after somebody wanted it merged. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeMerge {
    Merged {
        commit: Option<String>,
    },
    /// The forge does it by itself.
    Waiting,
    /// The forge does not know yet, or changed its mind: ask again.
    Unsettled {
        why: String,
    },
    Conflicts,
    Refused {
        why: String,
    },
}

/// How a pull stands after nobody wanted it merged any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeOff {
    Open,
    /// It was too late.
    Merged {
        commit: Option<String>,
    },
    Closed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub checks: bool,
    pub files: bool,
}

/// Words are for the caller and hold no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeFault {
    #[error("there is no token for this forge")]
    Unconfigured,
    /// Forges say this also of what the token may not see.
    #[error("the forge does not know it, or the token may not see it")]
    NotFound,
    /// The token or the settings must change first.
    #[error("{0}")]
    Refused(String),
    /// The same question may be answered later.
    #[error("{words}")]
    Unavailable { words: String, retry_after: Option<Duration> },
}
