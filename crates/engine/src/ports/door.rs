//! What the engine asks of whoever lets its agents in.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Engine;

/// Where agents that this process started reach the board: nobody else gets in there, and they get in
/// nowhere else.
#[async_trait]
pub trait Door: Send + Sync {
    /// The address of the door, which is opened when it is first asked for. The error says why it
    /// cannot be.
    async fn address(&self, engine: &Arc<Engine>) -> Result<String, String>;
}

/// How one agent gets in.
#[derive(Clone, PartialEq, Eq)]
pub struct DoorKey {
    pub url: String,
    /// Works while the run lasts.
    pub token: String,
}

impl fmt::Debug for DoorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorKey").field("url", &self.url).finish_non_exhaustive()
    }
}
