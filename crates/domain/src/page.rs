//! What opens the pages for a browser: a page session, and the code that begins one. Both are random
//! texts that the browser holds; a store keeps their hashes, and nothing here ever sees either.

use std::sync::Arc;

use crate::actor::Actor;
use crate::rights::Rights;
use crate::time::Timestamp;
use crate::token::TokenId;

/// A code or a page session: who acts with it, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey {
    pub kind: PageKeyKind,
    pub org: Arc<str>,
    pub actor: Actor,
    pub grant: PageGrant,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKeyKind {
    /// Stands in an address, opens one session and is gone.
    Code,
    /// Stands in a cookie that only pages take.
    Session,
}

/// Where the rights of a page key come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageGrant {
    /// The token of the sign-in. The session has its rights while the token is live.
    Token(TokenId),
    /// The terminal of a user who may write to the store, with the rights of that terminal.
    Terminal(Rights),
}

impl PageKeyKind {
    pub const ALL: [Self; 2] = [Self::Code, Self::Session];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Session => "session",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl PageKey {
    /// A page key ends exactly at its expiry.
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}
