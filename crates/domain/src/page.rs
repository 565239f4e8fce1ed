//! What opens the pages for a browser: a page session, and the code that begins one. Both are random
//! texts that the browser holds; a store keeps their hashes, and nothing here ever sees either.

use std::sync::Arc;

use crate::actor::Actor;
use crate::rights::Rights;
use crate::time::Timestamp;
use crate::token::TokenId;
use crate::words::words;

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

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PageKeyKind {
        /// Stands in an address, opens one session and is gone.
        Code => "code",
        /// Stands in a cookie that only pages take.
        Session => "session",
    }
}

/// Where the rights of a page key come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageGrant {
    /// The token of the sign-in. The session has its rights while the token is live.
    Token(TokenId),
    /// The terminal of a user who may write to the store, with the rights of that terminal.
    Terminal(Rights),
}

impl PageKey {
    /// A page key ends exactly at its expiry.
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}
