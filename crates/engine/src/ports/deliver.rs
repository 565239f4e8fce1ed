//! Messages to whoever asked to be told.

use async_trait::async_trait;
use callboard_domain::delivery::Receipt;

/// One message, the same each time it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub url: String,
    /// Tells a repeat from another message.
    pub id: String,
    /// Unix seconds of this sending.
    pub sent_at: i64,
    pub body: String,
}

/// Sends letters. Nothing but the receiver's address decides where they go.
#[async_trait]
pub trait Courier: Send + Sync {
    /// What every letter is signed with, where somebody said so.
    fn secret(&self) -> Option<&str>;

    /// Another one, as it is kept and shown.
    fn new_secret(&self) -> Result<String, String>;

    /// Never fails otherwise than by saying so.
    async fn deliver(&self, letter: &Letter, secret: &str) -> Receipt;
}
