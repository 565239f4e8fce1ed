//! The port to an external issuer of access tokens.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::issuer::{IssuerFault, IssuerTerms};
use serde_json::Value;

/// Tells the tokens of one issuer from forged ones.
#[async_trait]
pub trait TokenIssuer: Send + Sync {
    /// The claims of a token that the issuer signed. They are not judged: the token may have expired, or be meant for
    /// another server.
    async fn claims(&self, token: &str) -> Result<Value, IssuerFault>;
}

/// An issuer whose tokens this server accepts, and on which terms.
#[derive(Clone)]
pub struct Issuer {
    pub terms: IssuerTerms,
    pub tokens: Arc<dyn TokenIssuer>,
}
