//! Tokens of runs: each lets one agent act on its task for as long as its run lasts. They live in the
//! memory of the process that started the agent, as hashes, and never in the store, so that a board
//! without tokens stays one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::token::TokenId;
use callboard_store::TokenHash;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::context::Principal;
use crate::token::{TokenFault, TokenText, claimed, hash};
use crate::{Engine, EngineError};

/// The tokens of all runs of this process.
#[derive(Default)]
pub struct RunTokens {
    live: Mutex<HashMap<TokenId, RunToken>>,
}

struct RunToken {
    hash: TokenHash,
    principal: Principal,
    /// Cancelled when the run is over.
    over: CancellationToken,
}

/// A token that is valid until this is dropped.
pub(crate) struct RunPass {
    tokens: Arc<RunTokens>,
    id: TokenId,
    text: TokenText,
}

impl RunPass {
    pub(crate) fn text(&self) -> &TokenText {
        &self.text
    }
}

impl Drop for RunPass {
    fn drop(&mut self) {
        if let Some(token) = self.tokens.live().remove(&self.id) {
            token.over.cancel();
        }
    }
}

impl RunTokens {
    /// The caller of a token, while its run lasts.
    pub fn check(&self, shown: &str) -> Result<Principal, TokenFault> {
        let live = self.live();
        let known = claimed(shown).and_then(|id| live.get(&id)).ok_or(TokenFault::Unknown)?;
        match bool::from(known.hash.ct_eq(&hash(shown))) {
            true => Ok(known.principal.clone()),
            false => Err(TokenFault::Unknown),
        }
    }

    /// Returns when the run of the token is over.
    pub async fn until_it_ends(&self, id: TokenId) {
        let over = self.live().get(&id).map(|token| token.over.clone());
        if let Some(over) = over {
            over.cancelled().await;
        }
    }

    pub(crate) fn is_live(&self, id: TokenId) -> bool {
        self.live().contains_key(&id)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<TokenId, RunToken>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The tokens against which the door of this process checks callers.
    pub fn run_tokens(&self) -> &Arc<RunTokens> {
        &self.run_tokens
    }

    /// A token for one run, whose agent is this principal.
    pub(crate) fn run_pass(&self, principal: Principal) -> Result<RunPass, EngineError> {
        let id = TokenId(self.parts.ids.next_id());
        let text = TokenText::new(id)?;
        let principal = Principal { token: Some(id), ..principal };
        let token =
            RunToken { hash: hash(text.reveal()), principal, over: CancellationToken::new() };
        self.run_tokens.live().insert(id, token);
        Ok(RunPass { tokens: self.run_tokens.clone(), id, text })
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::ids::Id;

    use super::*;

    #[tokio::test]
    async fn a_token_opens_until_its_pass_is_dropped() {
        let tokens = Arc::new(RunTokens::default());
        let id = TokenId(Id(7));
        let text = TokenText::new(id).expect("randomness");
        let principal = Principal::local("agent:a".parse().expect("an actor"));
        let over = CancellationToken::new();
        let token = RunToken { hash: hash(text.reveal()), principal, over };
        tokens.live().insert(id, token);
        let pass = RunPass { tokens: tokens.clone(), id, text };
        let shown = pass.text().reveal().to_owned();
        assert_eq!(tokens.check(&shown).expect("it lives").actor.as_str(), "agent:a");
        let other = TokenText::new(id).expect("randomness");
        assert_eq!(tokens.check(other.reveal()), Err(TokenFault::Unknown));
        drop(pass);
        assert_eq!(tokens.check(&shown), Err(TokenFault::Unknown));
        tokens.until_it_ends(id).await;
    }
}
