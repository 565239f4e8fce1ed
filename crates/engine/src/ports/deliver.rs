//! Delivery of messages to the addresses that asked for them.

use async_trait::async_trait;
use callboard_domain::runs::delivery::Receipt;

/// One message; its body is the same each time it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub url: String,
    /// The message's id: tells a repeat from another message.
    pub id: String,
    /// The time of this sending, in Unix seconds.
    pub sent_at: i64,
    pub body: String,
}

/// Sends letters. Only the receiver's address decides where they go.
#[async_trait]
pub trait Courier: Send + Sync {
    /// The configured secret that every letter is signed with, if there is one.
    fn secret(&self) -> Option<&str>;

    /// A new secret, in the form in which it is kept and shown.
    fn new_secret(&self) -> Result<String, String>;

    /// Sends one letter. A failure is part of the receipt.
    async fn deliver(&self, letter: &Letter, secret: &str) -> Receipt;
}
