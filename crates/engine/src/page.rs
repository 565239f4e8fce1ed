//! Page sessions: what a browser that signed in shows the pages, and the codes that open them. A text is
//! seen once, by the browser or the terminal that it was made for; the store has its hash.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::actor::Actor;
use callboard_domain::page::{PageGrant, PageKey, PageKeyKind};
use callboard_domain::token::Token;
use callboard_store::{NewPageKey, PageHash, Store};

use crate::context::Principal;
use crate::issued::IssuedTokens;
use crate::token::{hash, random_text};
use crate::{Engine, EngineError};

/// How long a code opens a session.
pub const CODE_LIVES: Duration = Duration::from_secs(10 * 60);
/// How long an answer of the store about a session is believed: the delay of an end in another process.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long an id that is of no session is remembered.
const WRONG_KNOWN: Duration = Duration::from_secs(60);
/// Answers kept; a store with more sessions is asked more often.
const KEPT_MAX: usize = 10_000;

/// A code or the id of a page session: 256 random bits. Never printed by accident.
pub struct PageText(String);

impl PageText {
    fn new() -> Result<Self, EngineError> {
        random_text().map(Self)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PageText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Tells a page session apart without being able to open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageSessionId(PageHash);

impl PageSessionId {
    pub fn of(shown: &str) -> Self {
        Self(hash(shown))
    }
}

impl Engine {
    /// A code that opens one page session for this caller, with these rights.
    pub async fn page_code(&self, caller: &Principal) -> Result<PageText, EngineError> {
        let code = PageText::new()?;
        let key = NewPageKey {
            hash: hash(code.reveal()),
            kind: PageKeyKind::Code,
            org: caller.org.clone(),
            actor: caller.actor.clone(),
            grant: PageGrant::Terminal(caller.rights.clone()),
            lives: CODE_LIVES,
        };
        self.parts.store.page_key_add(key).await?;
        Ok(code)
    }
}

/// What a server knows of page sessions: the store's answers, each believed for a moment.
pub struct PageBook {
    store: Arc<dyn Store>,
    issued: Option<Arc<IssuedTokens>>,
    lives: Duration,
    /// Sessions of tokens of an external issuer. No store has such a token, so its sessions are of this process alone.
    of_issued: Mutex<HashMap<PageSessionId, PageKey>>,
    seen: Mutex<HashMap<PageSessionId, (Instant, PageKey)>>,
    wrong: Mutex<HashMap<PageSessionId, Instant>>,
}

impl PageBook {
    /// Sessions that begin here end after `lives`, used or not.
    pub fn new(engine: &Engine, lives: Duration) -> Self {
        let (store, issued) = (engine.parts.store.clone(), engine.issued.clone());
        let (of_issued, seen, wrong) = Default::default();
        Self { store, issued, lives, of_issued, seen, wrong }
    }

    pub fn lives(&self) -> Duration {
        self.lives
    }

    /// Begins the session that a code stands for; `None` when the code was used, is too old or does not exist.
    pub async fn open_by_code(&self, code: &str) -> Result<Option<PageText>, EngineError> {
        let Some(key) = self.store.page_code_take(hash(code)).await? else { return Ok(None) };
        self.open(key.org, key.actor, key.grant).await.map(Some)
    }

    /// Begins a session for the actor of a token.
    pub async fn open_by_token(&self, token: &Token) -> Result<PageText, EngineError> {
        if self.issued.as_ref().is_some_and(|issued| issued.get(token.id).is_some()) {
            return self.open_here(token);
        }
        self.open(token.org.clone(), token.actor.clone(), PageGrant::Token(token.id)).await
    }

    /// Begins a session that no other process knows and that ends with this one.
    fn open_here(&self, token: &Token) -> Result<PageText, EngineError> {
        let (text, now) = (PageText::new()?, self.store.now());
        let ms = i64::try_from(self.lives.as_millis()).unwrap_or(i64::MAX);
        let ends = now.plus_ms(ms);
        let key = PageKey {
            kind: PageKeyKind::Session,
            org: token.org.clone(),
            actor: token.actor.clone(),
            grant: PageGrant::Token(token.id),
            created_at: now,
            expires_at: token.expires_at.map_or(ends, |at| at.min(ends)),
        };
        let mut sessions = self.of_issued();
        if sessions.len() >= KEPT_MAX {
            sessions.retain(|_, key| key.is_live(now));
        }
        if sessions.len() >= KEPT_MAX {
            let words = "too many page sessions are open; sign in again later".to_owned();
            return Err(EngineError::Unavailable(words));
        }
        sessions.insert(PageSessionId::of(text.reveal()), key);
        Ok(text)
    }

    async fn open(
        &self,
        org: Arc<str>,
        actor: Actor,
        grant: PageGrant,
    ) -> Result<PageText, EngineError> {
        let text = PageText::new()?;
        let (hash, kind, lives) = (hash(text.reveal()), PageKeyKind::Session, self.lives);
        self.store.page_key_add(NewPageKey { hash, kind, org, actor, grant, lives }).await?;
        Ok(text)
    }

    /// Whether this id was looked up a moment ago and is of no session.
    pub fn is_known_wrong(&self, id: PageSessionId) -> bool {
        self.wrong().get(&id).is_some_and(|at| at.elapsed() < WRONG_KNOWN)
    }

    /// Whether this id was of a session in this process; the session may have ended since.
    pub fn opened_before(&self, id: PageSessionId) -> bool {
        self.seen().contains_key(&id) || self.of_issued().contains_key(&id)
    }

    /// The session with this id, while it lasts. Whether its token still lives is the caller's question.
    pub async fn session(&self, id: PageSessionId) -> Result<Option<PageKey>, EngineError> {
        let found = self.kept(id).await?.filter(|key| key.is_live(self.store.now()));
        if found.is_none() {
            self.seen().remove(&id);
            let mut wrong = self.wrong();
            if wrong.len() >= KEPT_MAX {
                wrong.retain(|_, at| at.elapsed() < WRONG_KNOWN);
            }
            if wrong.len() < KEPT_MAX {
                wrong.insert(id, Instant::now());
            }
        }
        Ok(found)
    }

    /// Ends a session, here at once and in other processes within a second.
    pub async fn end(&self, id: PageSessionId) -> Result<(), EngineError> {
        if self.of_issued().remove(&id).is_none() {
            self.store.page_session_end(id.0).await?;
        }
        self.seen().remove(&id);
        Ok(())
    }

    /// Returns when the session has ended. While the store is unavailable, the session counts as live.
    pub async fn until_it_ends(&self, id: PageSessionId) {
        loop {
            tokio::time::sleep(BELIEVED).await;
            match self.kept(id).await {
                Ok(Some(key)) if key.is_live(self.store.now()) => {}
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "cannot look up a page session"),
            }
        }
    }

    async fn kept(&self, id: PageSessionId) -> Result<Option<PageKey>, EngineError> {
        if let Some(key) = self.of_issued().get(&id) {
            return Ok(Some(key.clone()));
        }
        let fresh =
            |(at, kept): &(Instant, PageKey)| (at.elapsed() < BELIEVED).then(|| kept.clone());
        if let Some(kept) = self.seen().get(&id).and_then(fresh) {
            return Ok(Some(kept));
        }
        let Some(kept) = self.store.page_session(id.0).await? else { return Ok(None) };
        let mut seen = self.seen();
        if seen.len() >= KEPT_MAX {
            seen.retain(|_, (at, _)| at.elapsed() < BELIEVED);
        }
        seen.insert(id, (Instant::now(), kept.clone()));
        Ok(Some(kept))
    }

    fn of_issued(&self) -> MutexGuard<'_, HashMap<PageSessionId, PageKey>> {
        self.of_issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<PageSessionId, (Instant, PageKey)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> MutexGuard<'_, HashMap<PageSessionId, Instant>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
