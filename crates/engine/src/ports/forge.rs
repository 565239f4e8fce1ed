//! What the engine asks of a forge. A fault says whether it is worth asking again.

use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::forge::{ForgeKind, PullRef, PullState};

/// Asks GitHub and GitLab; never writes there.
#[async_trait]
pub trait Forge: Send + Sync {
    /// A pull as it is now. What is not wanted stays empty and is not asked for.
    async fn pull(
        &self,
        kind: ForgeKind,
        pull: &PullRef,
        wanted: &Wanted,
    ) -> Result<PullState, ForgeFault>;
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
