//! The port to the door through which the agents of this process reach the board.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::runs::work::Role;

use crate::Engine;

/// The door through which agents that this process started reach the board. No other caller gets in there, and these
/// agents get in nowhere else.
#[async_trait]
pub trait Door: Send + Sync {
    /// The address of the door, which is opened on the first call. The error says why it cannot be opened.
    async fn address(&self, engine: &Arc<Engine>) -> Result<String, String>;

    /// The toolset that an agent of this role speaks there.
    fn toolset(&self, role: Role) -> &'static str;
}

/// The address and the token with which one agent gets in.
#[derive(Clone, PartialEq, Eq)]
pub struct DoorKey {
    pub url: String,
    /// Valid while the run lasts.
    pub token: String,
}

impl fmt::Debug for DoorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorKey").field("url", &self.url).finish_non_exhaustive()
    }
}
