//! Who may come in: the local user as long as there are no tokens, from the first one on whoever
//! shows one; at the door of a process that starts agents, those agents alone. Says no in the words of RFC 6750, and where RFC 9728 wants to be looked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::actor::Actor;
use callboard_domain::rights::Scope;
use callboard_domain::token::{Token, TokenId};
use callboard_engine::context::Principal;
use callboard_engine::{Engine, EngineError, RunTokens, TokenBook, TokenFault};
use serde_json::{Value, json};

use super::connection::{Connection, Source};
use super::rate::RateLimit;
use super::refusal;
use crate::error::STORE_DAMAGED;
use crate::places::{NoPlace, Places, TakenPlace};
use crate::web;

/// What the page keeps a token in. Never looked at where agents ask: a page of another site could
/// make a browser send it.
pub(crate) const COOKIE: &str = "callboard_token";
const COOKIE_SECONDS: u32 = 30 * 24 * 3600;

/// Refusals of one address that are logged; of the rest nobody would read more.
const NOTED_A_MINUTE: u32 = 60;

/// JSON-RPC leaves these numbers to servers.
const STALE: i32 = -32001;

pub(super) const METADATA: &str = "/.well-known/oauth-protected-resource";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Requests per minute and token; 0 is no limit.
    pub rate_limit: u32,
    /// Different wrong tokens per minute and address; 0 is no limit.
    pub wrong_token_limit: u32,
    /// Open streams per token; 0 is no limit.
    pub streams_per_token: usize,
    /// Where clients find this server when a proxy stands before it.
    pub public_url: Option<String>,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self { rate_limit: 0, wrong_token_limit: 60, streams_per_token: 100, public_url: None }
    }
}

pub struct Gate {
    known: Known,
    limit: RateLimit<TokenId>,
    /// Wrong tokens by address.
    wrong: RateLimit<Source>,
    /// Lines of the log by address.
    noted: RateLimit<Source>,
    streams: Arc<Places>,
    public_url: Option<String>,
}

/// Whom a gate knows.
enum Known {
    /// Whoever shows a token of the store; while there is none, the local user.
    Board { tokens: TokenBook, local: Box<Principal> },
    /// The agents that this process started, each with the token of its run.
    Runs(Arc<RunTokens>),
}

/// A caller that may come in.
#[derive(Clone)]
pub(super) struct Admitted {
    pub principal: Principal,
    /// A token or the URL says who acts. Otherwise the principal is the user who started the server,
    /// which holds for pages; an MCP client is an agent of its own.
    pub is_named: bool,
}

#[derive(Debug)]
pub(super) enum Denied {
    NoToken,
    Token(TokenFault),
    TooMany {
        token: TokenId,
        wait: Duration,
    },
    /// Too many wrong tokens came from this address.
    TooManyWrong {
        wait: Duration,
    },
    TooManyStreams {
        token: TokenId,
        max: usize,
    },
    Actor(String),
    /// The store cannot be reached; the same request may succeed later.
    Away(String),
    /// The database is damaged; no repetition mends it.
    Damaged(String),
    Broken(String),
}

impl Gate {
    pub fn new(engine: &Engine, local: Principal, options: GateOptions) -> Self {
        let public_url = options.public_url.map(|url| url.trim_end_matches('/').to_owned());
        let known = Known::Board { tokens: TokenBook::new(engine), local: Box::new(local) };
        Self::of(known, GateOptions { public_url, ..options })
    }

    /// A gate for nobody but the agents that this process starts.
    pub fn for_runs(engine: &Engine) -> Self {
        Self::of(Known::Runs(engine.run_tokens().clone()), GateOptions::default())
    }

    fn of(known: Known, options: GateOptions) -> Self {
        Self {
            known,
            limit: RateLimit::per_minute(options.rate_limit),
            wrong: RateLimit::per_minute(options.wrong_token_limit),
            noted: RateLimit::per_minute(NOTED_A_MINUTE),
            streams: Places::new(options.streams_per_token),
            public_url: options.public_url,
        }
    }

    pub(super) fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    pub(super) async fn admit(&self, parts: &Parts) -> Result<Admitted, Denied> {
        let admitted = self.judged(parts).await?;
        if let Some(connection) = parts.extensions.get::<Arc<Connection>>() {
            connection.admitted();
        }
        Ok(admitted)
    }

    async fn judged(&self, parts: &Parts) -> Result<Admitted, Denied> {
        let (tokens, local) = match &self.known {
            Known::Board { tokens, local } => (tokens, local),
            Known::Runs(runs) => {
                let principal = runs.check(shown(parts).ok_or(Denied::NoToken)?);
                let principal = principal.map_err(Denied::Token)?;
                return Ok(Admitted { principal, is_named: true });
            }
        };
        if !tokens.are_needed().await? {
            let actor = actor_parameter(&parts.uri).map_err(Denied::Actor)?;
            let (is_named, local) = (actor.is_some(), Principal::clone(local));
            let principal = Principal { actor: actor.unwrap_or(local.actor.clone()), ..local };
            return Ok(Admitted { principal, is_named });
        }
        let shown = shown(parts).ok_or(Denied::NoToken)?;
        let token = self.token(tokens, shown, source(&parts.extensions)).await?;
        self.limit.count(token.id).map_err(|wait| Denied::TooMany { token: token.id, wait })?;
        let principal = Principal {
            org: token.org,
            rights: token.rights,
            token: Some(token.id),
            ..Principal::local(token.actor)
        };
        Ok(Admitted { principal, is_named: true })
    }

    /// The token that a text is. From an address with too many wrong ones only a text that is known
    /// already is judged: it costs the store nothing, and nobody is locked out by a neighbour.
    async fn token(
        &self,
        tokens: &TokenBook,
        shown: &str,
        source: Option<Source>,
    ) -> Result<Token, Denied> {
        if let Some(fault) = tokens.known_fault(shown) {
            return Err(Denied::Token(fault));
        }
        if let Some(source) = source.filter(|_| !tokens.opened_before(shown)) {
            self.wrong.judge(source).map_err(|wait| Denied::TooManyWrong { wait })?;
        }
        let checked = tokens.check(shown).await?;
        if let (Err(_), Some(source)) = (&checked, source) {
            // Judged above; one that came at the same moment may have been the last.
            let _ = self.wrong.count(source);
        }
        checked.map_err(Denied::Token)
    }

    /// Whether a text is a token that lives; what the page asks before it keeps one. Otherwise what to
    /// tell the person, and with which status.
    pub(crate) async fn opens(
        &self,
        shown: &str,
        connection: &Connection,
    ) -> Result<(), (StatusCode, &'static str)> {
        let wrong = (StatusCode::UNAUTHORIZED, "That token does not open this board.");
        let Known::Board { tokens, .. } = &self.known else { return Err(wrong) };
        match self.token(tokens, shown, Some(connection.source())).await {
            Ok(_) => Ok(()),
            Err(Denied::TooManyWrong { .. }) => {
                let words = "Too many wrong tokens came from your address. Wait a minute.";
                Err((StatusCode::TOO_MANY_REQUESTS, words))
            }
            Err(_) => Err(wrong),
        }
    }

    /// A place for the stream that a request asks for. The stream that answers a call is no such stream:
    /// the call is counted, and its answer must not be lost.
    pub(super) fn stream_place(
        &self,
        parts: &Parts,
        token: Option<TokenId>,
    ) -> Result<Option<TakenPlace>, Denied> {
        let listens =
            parts.headers.get("mcp-method").is_some_and(|it| it == "subscriptions/listen");
        let has_stream = parts.uri.path() == "/events" || asks_for_mcp(parts);
        let Some(token) = token.filter(|_| listens || (parts.method == Method::GET && has_stream))
        else {
            return Ok(None);
        };
        let place = self.streams.take(Some(token));
        place.map_err(|NoPlace { max }| Denied::TooManyStreams { token, max })
    }

    pub(super) async fn until_it_ends(&self, token: TokenId) {
        match &self.known {
            Known::Board { tokens, .. } => tokens.until_it_ends(token).await,
            Known::Runs(runs) => runs.until_it_ends(token).await,
        }
    }

    /// How the page keeps a token, or forgets it.
    pub(crate) fn cookie(&self, token: Option<&str>) -> HeaderValue {
        let secure = self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
        let secure = if secure { "; Secure" } else { "" };
        let (value, age) = token.map_or(("", 0), |token| (token, COOKIE_SECONDS));
        let cookie =
            format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        HeaderValue::try_from(cookie).expect("a token that opens is plain letters")
    }

    /// RFC 9728: what a client that was turned away may read.
    pub(super) fn metadata(&self, uri: &Uri, headers: &HeaderMap) -> Value {
        let path = uri.path().strip_prefix(METADATA).filter(|path| path.len() > 1);
        let scopes: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        json!({
            "resource": format!("{}{}", self.base(headers), path.unwrap_or("/mcp")),
            "resource_name": "Callboard",
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
        })
    }

    fn base(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match &self.public_url {
            Some(url) => url.clone(),
            None => format!("http://{}", host().unwrap_or("localhost")),
        }
    }

    pub(super) fn answer(&self, denied: &Denied, parts: &Parts) -> Response {
        // A flood of refusals must not fill the log as well.
        if source(&parts.extensions).is_none_or(|source| self.noted.count(source).is_ok()) {
            denied.log(parts.uri.path());
        }
        let (status, code, message) = denied.words();
        let page = wants_page(parts);
        let mut response = match denied {
            _ if page && status == StatusCode::UNAUTHORIZED => {
                web::login_page(status, denied.for_people(), parts.uri.path())
            }
            Denied::Token(TokenFault::Expired(_) | TokenFault::Revoked(_))
                if asks_for_mcp(parts) =>
            {
                stale(status, &message)
            }
            _ => refusal(status, code, &message),
        };
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            let path = if parts.uri.path().starts_with("/mcp") { parts.uri.path() } else { "/mcp" };
            let error = match denied {
                Denied::NoToken => String::new(),
                _ => format!("error=\"invalid_token\", error_description=\"{message}\", "),
            };
            let base = self.base(&parts.headers);
            let bearer = format!("Bearer {error}resource_metadata=\"{base}{METADATA}{path}\"");
            if let Ok(bearer) = HeaderValue::try_from(bearer) {
                headers.insert(header::WWW_AUTHENTICATE, bearer);
            }
        }
        if let Denied::TooMany { wait, .. } | Denied::TooManyWrong { wait } = denied {
            headers.insert(header::RETRY_AFTER, wait.as_secs().max(1).into());
        }
        response
    }
}

impl From<EngineError> for Denied {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unavailable(words) => Self::Away(words),
            EngineError::Damaged(words) => Self::Damaged(words),
            EngineError::Refused(_)
            | EngineError::Git(_)
            | EngineError::Internal(_)
            | EngineError::Canceled => Self::Broken(error.to_string()),
        }
    }
}

impl Denied {
    /// A token that ended while it was in use.
    pub(super) fn gone(token: TokenId) -> Self {
        Self::Token(TokenFault::Revoked(token))
    }

    fn words(&self) -> (StatusCode, &'static str, String) {
        let unauthenticated =
            |words: &str| (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", words.to_owned());
        match self {
            Denied::NoToken => unauthenticated(
                "this server needs a token: send the header Authorization: Bearer TOKEN; \
                 callboard token add makes one",
            ),
            Denied::Token(TokenFault::Unknown) => unauthenticated("the token is not known here"),
            Denied::Token(TokenFault::Expired(_)) => unauthenticated("the token has expired"),
            Denied::Token(TokenFault::Revoked(_)) => unauthenticated("the token was revoked"),
            Denied::TooMany { wait, .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "RATE_LIMITED",
                format!("too many requests with this token; wait {} s", wait.as_secs().max(1)),
            ),
            Denied::TooManyWrong { wait } => (
                StatusCode::TOO_MANY_REQUESTS,
                "RATE_LIMITED",
                format!(
                    "too many wrong tokens came from this address; wait {} s",
                    wait.as_secs().max(1)
                ),
            ),
            Denied::TooManyStreams { max, .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_STREAMS",
                format!(
                    "this token has {max} streams open, the most it may have; close one, or raise \
                     http.streams_per_token"
                ),
            ),
            Denied::Actor(words) => (StatusCode::BAD_REQUEST, "INVALID_INPUT", words.clone()),
            Denied::Away(words) => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", words.clone()),
            Denied::Damaged(words) => {
                (StatusCode::SERVICE_UNAVAILABLE, STORE_DAMAGED, words.clone())
            }
            Denied::Broken(words) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", words.clone())
            }
        }
    }

    /// What the page says above its form.
    fn for_people(&self) -> Option<&'static str> {
        match self {
            Denied::Token(TokenFault::Unknown) => Some("That token is not known here."),
            Denied::Token(TokenFault::Expired(_)) => Some("That token has expired."),
            Denied::Token(TokenFault::Revoked(_)) => Some("That token was revoked."),
            Denied::NoToken
            | Denied::TooMany { .. }
            | Denied::TooManyWrong { .. }
            | Denied::TooManyStreams { .. }
            | Denied::Actor(_)
            | Denied::Away(_)
            | Denied::Damaged(_)
            | Denied::Broken(_) => None,
        }
    }

    /// Which token it was, never the token.
    fn log(&self, path: &str) {
        let (status, _, message) = self.words();
        let token = match self {
            Denied::Token(TokenFault::Expired(id) | TokenFault::Revoked(id))
            | Denied::TooMany { token: id, .. }
            | Denied::TooManyStreams { token: id, .. } => id.to_string(),
            Denied::NoToken
            | Denied::TooManyWrong { .. }
            | Denied::Token(TokenFault::Unknown)
            | Denied::Actor(_)
            | Denied::Away(_)
            | Denied::Damaged(_)
            | Denied::Broken(_) => String::new(),
        };
        tracing::warn!(status = status.as_u16(), token, path, reason = message, "turned away");
    }
}

/// A client whose token was good once hears in its own protocol that it must connect anew.
fn stale(status: StatusCode, message: &str) -> Response {
    let data = json!({
        "code": "AUTH_STALE_TOKEN",
        "hint": "reconnect the MCP client with a token that is valid",
        "retryable": false,
    });
    let error = json!({"code": STALE, "message": message, "data": data});
    (status, Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response()
}

fn source(extensions: &Extensions) -> Option<Source> {
    extensions.get::<Arc<Connection>>().map(|connection| connection.source())
}

fn wants_page(parts: &Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    !asks_for_mcp(parts) && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn asks_for_mcp(parts: &Parts) -> bool {
    parts.uri.path().starts_with("/mcp")
}

fn shown(parts: &Parts) -> Option<&str> {
    let bearer = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(bearer) = bearer {
        let (scheme, token) = bearer.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then_some(token.trim());
    }
    if asks_for_mcp(parts) {
        return None;
    }
    let cookies = parts.headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
        .filter(|token| !token.is_empty())
}

fn actor_parameter(uri: &Uri) -> Result<Option<Actor>, String> {
    let Query(query) =
        Query::<HashMap<String, String>>::try_from_uri(uri).map_err(|error| error.body_text())?;
    let Some(actor) = query.get("actor") else { return Ok(None) };
    let parsed = actor.parse();
    parsed.map(Some).map_err(|error: callboard_domain::actor::ActorError| error.to_string())
}
