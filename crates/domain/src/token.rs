//! Tokens, which admit a caller over HTTP. Only the holder knows the secret; a store keeps its hash, and nothing
//! here ever sees either.

use std::sync::Arc;

use crate::actor::Actor;
use crate::ids::id;
use crate::rights::Rights;
use crate::time::Timestamp;
use crate::words::words;

id!(TokenId, "tok_", "not a token id");

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

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TokenState {
        Live => "live",
        Expired => "expired",
        Revoked => "revoked",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

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
