//! Tokens, which admit a caller over HTTP. Only the holder knows the secret; a store keeps its hash, and nothing
//! here ever sees either.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::actor::Actor;
use crate::ids::{Id, IdError};
use crate::rights::Rights;
use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub Id);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub org: Arc<str>,
    pub actor: Actor,
    pub rights: Rights,
    pub created_at: Timestamp,
    pub created_by: Actor,
    /// `None`: valid until it is revoked.
    pub expires_at: Option<Timestamp>,
    pub revoked: Option<Revoked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    pub at: Timestamp,
    pub by: Actor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    Live,
    Expired,
    Revoked,
}

impl TokenState {
    pub fn as_str(self) -> &'static str {
        match self {
            TokenState::Live => "live",
            TokenState::Expired => "expired",
            TokenState::Revoked => "revoked",
        }
    }
}

impl Token {
    /// A token ends exactly at its expiry.
    pub fn state(&self, now: Timestamp) -> TokenState {
        if self.revoked.is_some() {
            TokenState::Revoked
        } else if self.expires_at.is_some_and(|at| now >= at) {
            TokenState::Expired
        } else {
            TokenState::Live
        }
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tok_{}", self.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TokenId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.strip_prefix("tok_").and_then(Id::parse);
        id.map(Self).ok_or(IdError::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_live_until_it_expires_or_is_revoked() {
        let actor: Actor = "agent:a".parse().expect("an actor");
        let token = Token {
            id: TokenId(Id(1)),
            org: "default".into(),
            actor: actor.clone(),
            rights: Rights::default(),
            created_at: Timestamp(0),
            created_by: actor.clone(),
            expires_at: Some(Timestamp(10)),
            revoked: None,
        };
        assert_eq!(token.state(Timestamp(9)), TokenState::Live);
        assert_eq!(token.state(Timestamp(10)), TokenState::Expired);
        let gone = Token { revoked: Some(Revoked { at: Timestamp(1), by: actor }), ..token };
        assert_eq!(gone.state(Timestamp(99)), TokenState::Revoked);
        assert_eq!(gone.id.to_string().parse(), Ok(gone.id));
    }
}
