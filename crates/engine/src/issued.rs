//! Tokens of an external issuer that this process accepted. They are in no store: each is kept here until it expires, so
//! that limits, streams, page sessions and long calls know it by an id, as they know Callboard's own tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::ids::Id;
use callboard_domain::issuer::{Issued, IssuerFault};
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId, TokenState};

use crate::Engine;
use crate::ports::Issuer;
use crate::token::{TokenFault, hash};

/// How long a signature is believed. A key that the issuer withdraws counts until then, and until the issuer's keys are
/// fetched again.
const BELIEVED: Duration = Duration::from_secs(60);
/// The number of tokens that are kept; beyond that the one that expires first makes room.
const KEPT_MAX: usize = 10_000;

/// The accepted tokens of one issuer.
pub(crate) struct IssuedTokens {
    issuer: Issuer,
    /// The org of this process; a token cannot name another one.
    org: Arc<str>,
    kept: Mutex<HashMap<TokenId, VerifiedToken>>,
}

struct VerifiedToken {
    token: Token,
    at: Instant,
}

/// Whether a text has the form of a JWT: three parts. No token of Callboard has a dot.
pub(crate) fn is_issued(shown: &str) -> bool {
    shown.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The id of a token by its text.
fn id_of(shown: &str) -> TokenId {
    let mut half = [0; 16];
    half.copy_from_slice(&hash(shown)[..16]);
    TokenId(Id::from_bytes(half))
}

impl IssuedTokens {
    pub(crate) fn new(issuer: Issuer, org: Arc<str>) -> Self {
        Self { issuer, org, kept: Mutex::default() }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer.terms.issuer
    }

    /// The token with this text, if the issuer signed it, its claims are accepted and it lives.
    pub(crate) async fn check(&self, shown: &str, now: Timestamp) -> Result<Token, TokenFault> {
        let id = id_of(shown);
        let believed = |kept: &VerifiedToken| {
            let is_live = kept.token.state(now) == TokenState::Live;
            (is_live && kept.at.elapsed() < BELIEVED).then(|| kept.token.clone())
        };
        if let Some(token) = self.kept().get(&id).and_then(believed) {
            return Ok(token);
        }
        let claims = self.issuer.tokens.claims(shown).await;
        match claims.and_then(|claims| self.issuer.terms.judge(&claims, now)) {
            Ok(issued) => Ok(self.keep(id, issued, now)),
            Err(IssuerFault::Expired) => Err(TokenFault::Expired(id)),
            // Nothing new is known about the token.
            Err(IssuerFault::Unreachable) => Err(TokenFault::Issuer(IssuerFault::Unreachable)),
            Err(fault) => {
                // After a withdrawal of the key, streams and long calls of the token end as well.
                self.kept().remove(&id);
                Err(TokenFault::Issuer(fault))
            }
        }
    }

    fn keep(&self, id: TokenId, issued: Issued, now: Timestamp) -> Token {
        let Issued { actor, rights, expires_at } = issued;
        let token = Token {
            id,
            org: self.org.clone(),
            created_by: actor.clone(),
            actor,
            rights,
            created_at: now,
            expires_at: Some(expires_at),
            revoked: None,
        };
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, kept| kept.token.state(now) == TokenState::Live);
        }
        if kept.len() >= KEPT_MAX && !kept.contains_key(&id) {
            let first = kept.iter().min_by_key(|(_, kept)| kept.token.expires_at);
            if let Some(first) = first.map(|(id, _)| *id) {
                kept.remove(&first);
            }
        }
        kept.insert(id, VerifiedToken { token: token.clone(), at: Instant::now() });
        token
    }

    /// A token that was accepted here. It may have expired since.
    pub(crate) fn get(&self, id: TokenId) -> Option<Token> {
        self.kept().get(&id).map(|kept| kept.token.clone())
    }

    pub(crate) fn opened_before(&self, shown: &str) -> bool {
        self.kept().contains_key(&id_of(shown))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<TokenId, VerifiedToken>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The issuer whose tokens this server accepts beside its own.
    pub fn token_issuer(&self) -> Option<&str> {
        self.issued.as_deref().map(IssuedTokens::issuer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use callboard_domain::issuer::IssuerTerms;
    use serde_json::{Value, json};

    use super::*;
    use crate::ports::TokenIssuer;

    /// An issuer that signed every text whose middle part is its expiry.
    #[derive(Default)]
    struct Signs {
        asked: AtomicUsize,
        is_away: AtomicBool,
    }

    #[async_trait]
    impl TokenIssuer for Signs {
        async fn claims(&self, token: &str) -> Result<Value, IssuerFault> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.is_away.load(Ordering::SeqCst) {
                return Err(IssuerFault::Unreachable);
            }
            let expiry: i64 = token.split('.').nth(1).and_then(|s| s.parse().ok()).expect("a time");
            Ok(json!({"iss": "i", "aud": "a", "sub": "x", "exp": expiry, "scope": "tasks:read"}))
        }
    }

    fn tokens(signs: &Arc<Signs>) -> IssuedTokens {
        let terms = IssuerTerms {
            issuer: "i".into(),
            audience: "a".into(),
            actor_claim: "sub".into(),
            grants: Vec::new(),
        };
        IssuedTokens::new(Issuer { terms, tokens: signs.clone() }, "default".into())
    }

    #[tokio::test]
    async fn an_accepted_token_is_verified_once_and_ends_at_its_expiry() {
        let signs = Arc::new(Signs::default());
        let tokens = tokens(&signs);
        let early = Timestamp(0);
        let token = tokens.check("a.10.c", early).await.expect("accepted");
        assert_eq!(tokens.check("a.10.c", early).await, Ok(token.clone()));
        assert_eq!(signs.asked.load(Ordering::SeqCst), 1);
        assert_eq!(tokens.get(token.id), Some(token.clone()));
        assert!(tokens.opened_before("a.10.c") && !tokens.opened_before("a.10.d"));
        let other = tokens.check("a.10.d", early).await.expect("accepted");
        assert_ne!(other.id, token.id);
        let late = Timestamp(10_000_000);
        assert_eq!(tokens.check("a.10.c", late).await, Err(TokenFault::Expired(token.id)));
        signs.is_away.store(true, Ordering::SeqCst);
        let away = TokenFault::Issuer(IssuerFault::Unreachable);
        assert_eq!(tokens.check("a.20.e", early).await, Err(away));
    }

    #[tokio::test]
    async fn a_full_cache_loses_what_expires_first() {
        let tokens = tokens(&Arc::new(Signs::default()));
        let first = tokens.check("a.100.first", Timestamp(0)).await.expect("accepted");
        for n in 0..KEPT_MAX {
            tokens.check(&format!("a.{}.n", 200 + n), Timestamp(0)).await.expect("accepted");
        }
        assert_eq!(tokens.kept().len(), KEPT_MAX);
        assert_eq!(tokens.get(first.id), None);
    }
}
