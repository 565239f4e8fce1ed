//! Tokens: made, listed, revoked, and compared with what a request shows. A secret is shown once, to the caller that
//! asked for the token; the store has its hash, and no log has either.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::actor::Actor;
use callboard_domain::ids::Id;
use callboard_domain::issuer::IssuerFault;
use callboard_domain::rights::Rights;
use callboard_domain::token::{Token, TokenId, TokenState};
use callboard_store::{KeptToken, Store, TokenGrant, TokenHash};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::context::OpContext;
use crate::issued::{IssuedTokens, is_issued};
use crate::{Engine, EngineError};

/// How long the store's answer about a token is cached: the delay of a revocation.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long a refused text is cached. It cannot become valid later: a token's text is made with the token, and expiry
/// and revocation are final. Only a restored backup could change that.
const WRONG_KNOWN: Duration = Duration::from_secs(60);
/// The number of cached answers. A store with more live tokens is asked more often.
const KEPT_MAX: usize = 10_000;

const MARK: &str = "cb_";

/// A request for a token.
#[derive(Clone, Debug)]
pub struct TokenWish {
    pub org: String,
    pub actor: Actor,
    pub rights: Rights,
    /// `None`: the token lives until it is revoked.
    pub lives: Option<Duration>,
}

/// `cb_<id>_<256 random bits>`: the text that the holder sends. `Debug` hides it, so it is never printed by accident.
pub struct TokenText(String);

impl TokenText {
    pub(crate) fn new(id: TokenId) -> Result<Self, EngineError> {
        Ok(Self(format!("{MARK}{}_{}", id.0, random_text()?)))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// 256 random bits as plain letters and digits.
pub(crate) fn random_text() -> Result<String, EngineError> {
    let mut bits = [0u8; 32];
    getrandom::fill(&mut bits).map_err(|error| {
        EngineError::Internal(format!("the system gave no random bytes: {error}"))
    })?;
    let half = |n: usize| {
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&bits[n * 16..(n + 1) * 16]);
        Id::from_bytes(bytes)
    };
    Ok(format!("{}{}", half(0), half(1)))
}

pub(crate) fn hash(text: &str) -> TokenHash {
    Sha256::digest(text.as_bytes()).into()
}

/// The id of the token that a text claims to be; the claim proves nothing before the hashes are compared.
pub(crate) fn claimed(text: &str) -> Option<TokenId> {
    let (id, _) = text.strip_prefix(MARK)?.split_once('_')?;
    Id::parse(id).map(TokenId)
}

impl Engine {
    pub async fn token_add(
        &self,
        by: &Actor,
        wish: TokenWish,
    ) -> Result<(Token, TokenText), EngineError> {
        let id = TokenId(self.parts.ids.next_id());
        let text = TokenText::new(id)?;
        let grant = TokenGrant {
            id,
            hash: hash(text.reveal()),
            org: wish.org,
            actor: wish.actor,
            rights: wish.rights,
            lives: wish.lives,
            by: by.clone(),
        };
        Ok((self.parts.store.token_add(grant).await?, text))
    }

    /// Whether callers over HTTP need a token: an issuer is set, or a token was ever added.
    pub async fn needs_tokens(&self) -> Result<bool, EngineError> {
        Ok(self.issued.is_some() || self.parts.store.has_tokens().await?)
    }

    pub async fn token_list(&self) -> Result<Vec<Token>, EngineError> {
        Ok(self.parts.store.tokens().await?)
    }

    /// The tokens of the reader's org, newest first.
    pub async fn token_list_in(&self, op: &OpContext) -> Result<Vec<Token>, EngineError> {
        let all = self.token_list().await?;
        Ok(all.into_iter().filter(|token| token.org == op.principal.org).collect())
    }

    pub async fn token_revoke(
        &self,
        by: &Actor,
        id: TokenId,
    ) -> Result<Option<Token>, EngineError> {
        Ok(self.parts.store.token_revoke(id, by.clone()).await?)
    }
}

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// No token at all, or not one of this server.
    Unknown,
    Expired(TokenId),
    Revoked(TokenId),
    /// A token of the external issuer, or one that should be.
    Issuer(IssuerFault),
}

impl TokenFault {
    /// Whether the same text may be accepted later.
    fn may_pass(self) -> bool {
        matches!(self, Self::Issuer(fault) if fault.may_pass())
    }
}

/// Why a token was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenCheckFault {
    #[error("the token is not valid")]
    Token(TokenFault),
    /// The store cannot say.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<TokenFault> for TokenCheckFault {
    fn from(fault: TokenFault) -> Self {
        Self::Token(fault)
    }
}

/// A server's cache of tokens: the store's answers, each believed for a moment.
pub struct TokenBook {
    store: Arc<dyn Store>,
    issued: Option<Arc<IssuedTokens>>,
    seen: Mutex<HashMap<TokenId, (Instant, KeptToken)>>,
    wrong: Mutex<HashMap<TokenHash, (Instant, TokenFault)>>,
    needed: AtomicBool,
}

impl TokenBook {
    pub fn new(engine: &Engine) -> Self {
        Self {
            store: engine.parts.store.clone(),
            issued: engine.issued.clone(),
            seen: Mutex::default(),
            wrong: Mutex::default(),
            // With an issuer the server is closed from the start, whatever the store has.
            needed: AtomicBool::new(engine.issued.is_some()),
        }
    }

    /// The issuer whose tokens are accepted beside Callboard's own.
    pub fn issuer(&self) -> Option<&str> {
        self.issued.as_deref().map(IssuedTokens::issuer)
    }

    /// Whether a token was ever added, or an issuer is set. A "no" is not cached: the first token closes the server at
    /// once. A "yes" is cached for ever.
    pub async fn are_needed(&self) -> Result<bool, EngineError> {
        if self.are_known_needed() {
            return Ok(true);
        }
        let found = self.store.has_tokens().await?;
        self.needed.store(found, Ordering::Relaxed);
        Ok(found)
    }

    /// Whether this process knows already that tokens are needed.
    pub fn are_known_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed)
    }

    /// Why a text that was checked a moment ago was refused.
    pub fn known_fault(&self, shown: &str) -> Option<TokenFault> {
        let wrong = self.wrong();
        let found = wrong.get(&hash(shown)).filter(|(at, _)| at.elapsed() < WRONG_KNOWN);
        found.map(|(_, fault)| *fault)
    }

    /// Whether this process accepted this text before; its token may have ended since.
    pub fn opened_before(&self, shown: &str) -> bool {
        if let Some(issued) = self.issued_for(shown) {
            return issued.opened_before(shown);
        }
        let Some(id) = claimed(shown) else { return false };
        let kept = self.seen().get(&id).map(|(_, kept)| kept.hash);
        kept.is_some_and(|kept| bool::from(kept.ct_eq(&hash(shown))))
    }

    /// The token with this text, if it lives.
    pub async fn check(&self, shown: &str) -> Result<Token, TokenCheckFault> {
        let checked = self.look_up(shown).await;
        if let Err(TokenCheckFault::Token(fault)) = checked
            && !fault.may_pass()
        {
            let mut wrong = self.wrong();
            if wrong.len() >= KEPT_MAX {
                wrong.retain(|_, (at, _)| at.elapsed() < WRONG_KNOWN);
            }
            if wrong.len() < KEPT_MAX {
                wrong.insert(hash(shown), (Instant::now(), fault));
            }
        }
        checked
    }

    async fn look_up(&self, shown: &str) -> Result<Token, TokenCheckFault> {
        if let Some(issued) = self.issued_for(shown) {
            return Ok(issued.check(shown, self.store.now()).await?);
        }
        let id = claimed(shown).ok_or(TokenFault::Unknown)?;
        let kept = self.kept(id).await?.ok_or(TokenFault::Unknown)?;
        if !bool::from(kept.hash.ct_eq(&hash(shown))) {
            return Err(TokenFault::Unknown.into());
        }
        match kept.token.state(self.store.now()) {
            TokenState::Live => Ok(kept.token),
            TokenState::Expired => Err(TokenFault::Expired(id).into()),
            TokenState::Revoked => Err(TokenFault::Revoked(id).into()),
        }
    }

    /// The token with this id, while it lives.
    pub async fn live(&self, id: TokenId) -> Result<Option<Token>, EngineError> {
        let now = self.store.now();
        Ok(self.token(id).await?.filter(|token| token.state(now) == TokenState::Live))
    }

    /// Returns when the token is no longer valid, and why; while the store is unavailable, it counts as valid.
    pub async fn until_it_ends(&self, id: TokenId) -> TokenFault {
        loop {
            tokio::time::sleep(BELIEVED).await;
            match self.token(id).await {
                Ok(Some(token)) => match token.state(self.store.now()) {
                    TokenState::Live => {}
                    TokenState::Expired => return TokenFault::Expired(id),
                    TokenState::Revoked => return TokenFault::Revoked(id),
                },
                Ok(None) => return TokenFault::Revoked(id),
                Err(error) => tracing::debug!(%error, "cannot look up a token"),
            }
        }
    }

    /// The tokens of the issuer, if a text is one of its business.
    fn issued_for(&self, shown: &str) -> Option<&IssuedTokens> {
        self.issued.as_deref().filter(|_| is_issued(shown))
    }

    /// The token with this id, of the board or of the issuer; it may have ended.
    async fn token(&self, id: TokenId) -> Result<Option<Token>, EngineError> {
        match self.issued.as_ref().and_then(|issued| issued.get(id)) {
            Some(token) => Ok(Some(token)),
            None => Ok(self.kept(id).await?.map(|kept| kept.token)),
        }
    }

    async fn kept(&self, id: TokenId) -> Result<Option<KeptToken>, EngineError> {
        let fresh =
            |(at, kept): &(Instant, KeptToken)| (at.elapsed() < BELIEVED).then(|| kept.clone());
        if let Some(kept) = self.seen().get(&id).and_then(fresh) {
            return Ok(Some(kept));
        }
        let Some(kept) = self.store.token(id).await? else { return Ok(None) };
        let mut seen = self.seen();
        if seen.len() >= KEPT_MAX {
            seen.retain(|_, (at, _)| at.elapsed() < BELIEVED);
        }
        seen.insert(id, (Instant::now(), kept.clone()));
        Ok(Some(kept))
    }

    fn wrong(&self) -> MutexGuard<'_, HashMap<TokenHash, (Instant, TokenFault)>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<TokenId, (Instant, KeptToken)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_itself_and_hides_the_rest() {
        let id = TokenId(Id(7));
        let text = TokenText::new(id).expect("randomness");
        assert_eq!(claimed(text.reveal()), Some(id));
        assert_eq!(text.reveal().len(), 3 + 26 + 1 + 52);
        assert_eq!(format!("{text:?}"), "(secret)");
        assert_ne!(text.reveal(), TokenText::new(id).expect("randomness").reveal());
        for other in ["", "cb_", "cb_x_y", "Bearer", "cb_00000000000000000000000007"] {
            assert_eq!(claimed(other), None, "{other}");
        }
    }
}
