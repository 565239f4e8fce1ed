//! Messages to whoever asked to be told.

use async_trait::async_trait;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has it.
    Taken,
    /// The receiver wants no more.
    Unwanted,
    /// Not now, or not there; why, in words for the log.
    Failed(String),
}

/// Sends letters. Nothing but the receiver's address decides where they go.
#[async_trait]
pub trait Courier: Send + Sync {
    /// Never fails otherwise than by saying so.
    async fn deliver(&self, letter: &Letter, secret: &str) -> Delivery;
}
