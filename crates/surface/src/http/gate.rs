//! Admission: while there are no tokens, the user this server runs as; from the first token on, or with an issuer, bearers
//! of tokens; at the door of a process that starts agents, those agents alone. Browsers show page sessions (`pages.rs`).
//! Refusals follow RFC 6750, and the metadata RFC 9728.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::actor::Actor;
use callboard_domain::issuer::IssuerFault;
use callboard_domain::rights::Scope;
use callboard_domain::token::{Token, TokenId};
use callboard_engine::context::Principal;
use callboard_engine::{
    Engine, EngineError, PageBook, PageSessionId, RunTokens, TokenBook, TokenCheckFault, TokenFault,
};
use serde_json::{Value, json};

use super::connection::{Connection, Source};
use super::pages::SignIn;
use super::rate::RateLimit;
use super::refusal;
use crate::error::STORE_DAMAGED;
use crate::places::{NoPlace, Places, TakenPlace};
use crate::web;

/// How many refusals of one address are logged per minute; more would not be read.
const NOTED_A_MINUTE: u32 = 60;

/// JSON-RPC leaves these numbers to servers.
/// -32001 tells an MCP client that its token is over; JSON-RPC's own numbers have no such case.
const STALE: i32 = -32001;

/// No fault of the caller, so the token is not counted as a wrong one.
pub(super) const ISSUER_AWAY: TokenFault = TokenFault::Issuer(IssuerFault::Unreachable);

/// The path that RFC 9728 fixes for the metadata.
pub(super) const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The limits of admission, and the address by which clients know this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Requests per minute and token; 0 is no limit.
    pub rate_limit: u32,
    /// Different wrong tokens per minute and address; 0 is no limit.
    pub wrong_token_limit: u32,
    /// Open streams per token; 0 is no limit.
    pub streams_per_token: usize,
    /// The address of this server for clients when a proxy stands before it.
    pub public_url: Option<String>,
    /// The port of this server, which tells its cookie from those of others on the machine.
    pub port: u16,
    /// How long a page session lasts.
    pub session_lives: Duration,
    /// Whether every user of the machine is let in while there are no tokens.
    pub any_local_user: bool,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            rate_limit: 0,
            wrong_token_limit: 60,
            streams_per_token: 100,
            public_url: None,
            port: 0,
            session_lives: Duration::from_secs(12 * 3600),
            any_local_user: false,
        }
    }
}

/// Decides who a request comes from, before any handler sees it.
pub struct Gate {
    pub(super) known: Known,
    /// Counts requests by token.
    limit: RateLimit<TokenId>,
    /// Counts wrong tokens, codes and page sessions by address.
    pub(super) wrong: RateLimit<Source>,
    /// Counts lines of the log by address.
    noted: RateLimit<Source>,
    /// Places for streams that stay open: `/events`, the GET stream of a session, `subscriptions/listen`.
    streams: Arc<Places>,
    pub(super) public_url: Option<String>,
    pub(super) cookie_name: String,
    /// `http.any_local_user`: other users of the machine count as the local user.
    pub(super) is_for_anybody: bool,
}

/// The callers that a gate knows.
pub(super) enum Known {
    /// Bearers of a token of the store; while there is none, the local user.
    Board(Box<Board>),
    /// The agents that this process started, each with the token of its run.
    Runs(Arc<RunTokens>),
}

/// The parts of a gate in front of a board.
pub(super) struct Board {
    pub tokens: TokenBook,
    pub pages: PageBook,
    /// The user who started the server.
    pub local: Principal,
}

/// An admitted caller.
#[derive(Clone)]
pub(crate) struct Admitted {
    pub principal: Principal,
    /// Whether a token or the URL names the actor. Otherwise the principal is the user who started the server, which
    /// holds for pages; an MCP client is an agent of its own.
    pub is_named: bool,
    pub sign_in: SignIn,
    /// The page session that the caller showed.
    pub session: Option<PageSessionId>,
}

/// Why a request was turned away. Each variant has its status and its code in `words`.
#[derive(Debug)]
pub(crate) enum Denied {
    NoToken,
    /// A request of another user of this machine, while there are no tokens.
    OtherUser,
    /// A page session that has ended or never existed.
    SessionOver,
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
    /// The URL names an actor that is not well formed.
    Actor(String),
    /// The store cannot be reached; a retry may succeed later.
    Away(String),
    /// The database is damaged; a retry does not help.
    Damaged(String),
    /// A fault of the server itself.
    Broken(String),
}

impl Gate {
    pub fn new(engine: &Engine, local: Principal, options: GateOptions) -> Self {
        let public_url = options.public_url.map(|url| url.trim_end_matches('/').to_owned());
        let pages = PageBook::new(engine, options.session_lives);
        let board = Board { tokens: TokenBook::new(engine), pages, local };
        Self::of(Known::Board(Box::new(board)), GateOptions { public_url, ..options })
    }

    /// A gate that admits only the agents that this process starts.
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
            cookie_name: format!("callboard_session_{}", options.port),
            is_for_anybody: options.any_local_user,
        }
    }

    pub(super) fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Admits a request, and with it its connection, which then is no stranger's any more.
    pub(crate) async fn admit(&self, parts: &Parts) -> Result<Admitted, Denied> {
        let admitted = self.judged(parts).await?;
        if let Some(connection) = parts.extensions.get::<Arc<Connection>>() {
            connection.admitted();
        }
        Ok(admitted)
    }

    /// The caller of a request. A token goes before a page session, and a page session before the local user.
    async fn judged(&self, parts: &Parts) -> Result<Admitted, Denied> {
        let by_token = |principal| Admitted {
            principal,
            is_named: true,
            sign_in: SignIn::Token,
            session: None,
        };
        let board = match &self.known {
            Known::Board(board) => board,
            // A run's door knows no local user and no page session: an agent without its token gets nothing.
            Known::Runs(runs) => {
                let principal = runs.check(shown(parts).ok_or(Denied::NoToken)?);
                return Ok(by_token(principal.map_err(Denied::Token)?));
            }
        };
        if !board.tokens.are_known_needed() {
            // Asked before the store: the kernel no longer knows a client that hangs up meanwhile. The connection
            // caches the answer.
            let _ = self.judge_owner(parts);
        }
        let are_needed = board.tokens.are_needed().await?;
        if !are_needed {
            self.judge_owner(parts)?;
        }
        // While there are no tokens, a sent one is ignored: this board has made none.
        if let Some(shown) = shown(parts).filter(|_| are_needed) {
            let token = self.token(&board.tokens, shown, source(&parts.extensions)).await?;
            return Ok(by_token(self.principal_of(token)?));
        }
        match self.by_session(board, parts, are_needed).await? {
            Some(admitted) => Ok(admitted),
            None if are_needed => Err(Denied::NoToken),
            None => {
                // `?actor=` is taken only while there are no tokens. A token names its actor, and no URL overrides it.
                let actor = actor_parameter(&parts.uri).map_err(Denied::Actor)?;
                let (is_named, local) = (actor.is_some(), board.local.clone());
                let principal = Principal { actor: actor.unwrap_or(local.actor.clone()), ..local };
                Ok(Admitted { principal, is_named, sign_in: SignIn::Local, session: None })
            }
        }
    }

    /// The caller that a live token stands for; each of its requests is counted.
    pub(super) fn principal_of(&self, token: Token) -> Result<Principal, Denied> {
        self.limit.count(token.id).map_err(|wait| Denied::TooMany { token: token.id, wait })?;
        Ok(Principal {
            org: token.org,
            rights: token.rights,
            token: Some(token.id),
            ..Principal::local(token.actor)
        })
    }

    /// The token that a text is. From an address with too many wrong ones only a text that is known already is judged:
    /// it costs the store nothing, and a neighbour's wrong tokens lock no caller out.
    pub(super) async fn token(
        &self,
        tokens: &TokenBook,
        shown: &str,
        source: Option<Source>,
    ) -> Result<Token, Denied> {
        // A client that repeats one wrong token costs neither the store a read nor its address a try.
        if let Some(fault) = tokens.known_fault(shown) {
            return Err(Denied::Token(fault));
        }
        if let Some(source) = source.filter(|_| !tokens.opened_before(shown)) {
            self.wrong.judge(source).map_err(|wait| Denied::TooManyWrong { wait })?;
        }
        let checked = match tokens.check(shown).await {
            Ok(token) => Ok(token),
            Err(TokenCheckFault::Token(fault)) => Err(fault),
            Err(TokenCheckFault::Engine(error)) => return Err(error.into()),
        };
        let is_wrong = checked.as_ref().is_err_and(|fault| *fault != ISSUER_AWAY);
        if let Some(source) = source.filter(|_| is_wrong) {
            // Judged above; a concurrent one may have been the last.
            let _ = self.wrong.count(source);
        }
        checked.map_err(Denied::Token)
    }

    /// A place for the stream that a request opens. The stream that answers a call needs none: the call is counted, and
    /// its answer must not be lost.
    pub(super) fn stream_place(
        &self,
        parts: &Parts,
        token: Option<TokenId>,
    ) -> Result<Option<TakenPlace>, Denied> {
        // The modern era requires the header `mcp-method`, so a listen request is known before its body is read.
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

    /// Returns when the caller's token or page session has ended, with the reason.
    pub(super) async fn until_it_ends(&self, pass: Pass) -> Denied {
        // Both books look once a second, so a revoked token loses its streams within about a second.
        let token_ends = async {
            match (pass.token, &self.known) {
                (None, _) => std::future::pending().await,
                (Some(token), Known::Board(board)) => board.tokens.until_it_ends(token).await,
                (Some(token), Known::Runs(runs)) => {
                    runs.until_it_ends(token).await;
                    TokenFault::Revoked(token)
                }
            }
        };
        let session_ends = async {
            match (pass.session, &self.known) {
                (Some(session), Known::Board(board)) => board.pages.until_it_ends(session).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            fault = token_ends => Denied::Token(fault),
            () = session_ends => Denied::SessionOver,
        }
    }

    /// RFC 9728: the metadata for a client that was refused.
    pub(super) fn metadata(&self, uri: &Uri, headers: &HeaderMap) -> Value {
        let path = uri.path().strip_prefix(METADATA).filter(|path| path.len() > 1);
        let scopes: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        let mut metadata = json!({
            "resource": format!("{}{}", self.base(headers), path.unwrap_or("/mcp")),
            "resource_name": "Callboard",
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
        });
        // Without an issuer no authorization server is named: tokens are made by `callboard token add`.
        if let Known::Board(board) = &self.known
            && let Some(issuer) = board.tokens.issuer()
        {
            metadata["authorization_servers"] = json!([issuer]);
        }
        metadata
    }

    /// The address of this server: the configured one, else the name that the client used.
    fn base(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match &self.public_url {
            Some(url) => url.clone(),
            None => format!("http://{}", host().unwrap_or("localhost")),
        }
    }

    /// The answer to a denied request: a page for browsers, a message of the protocol for MCP clients, else JSON.
    pub(crate) fn answer(&self, denied: &Denied, parts: &Parts) -> Response {
        // A flood of refusals must not fill the log as well.
        if source(&parts.extensions).is_none_or(|source| self.noted.count(source).is_ok()) {
            denied.log(parts.uri.path());
        }
        let (status, code, message) = denied.words();
        // A browser gets the sign-in form, a program JSON.
        let page = wants_page(parts);
        let mut response = match denied {
            _ if page && status == StatusCode::UNAUTHORIZED => {
                web::login_page(status, denied.for_people(), parts.uri.path())
            }
            Denied::OtherUser if page => web::refused_page(status, &message),
            Denied::Token(TokenFault::Expired(_) | TokenFault::Revoked(_))
                if asks_for_mcp(parts) =>
            {
                stale(status, &message)
            }
            _ => refusal(status, code, &message),
        };
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            // RFC 9728 puts the path of the resource behind the well-known path.
            let path = if parts.uri.path().starts_with("/mcp") { parts.uri.path() } else { "/mcp" };
            let error = match denied {
                // RFC 6750: a request without credentials gets no error code, only the challenge.
                Denied::NoToken | Denied::SessionOver => String::new(),
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

/// A caller's credentials that can end while a request or a stream goes on.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub token: Option<TokenId>,
    pub session: Option<PageSessionId>,
}

impl Admitted {
    /// `None` for the local user, whose admission cannot end.
    pub(super) fn pass(&self) -> Option<Pass> {
        let (token, session) = (self.principal.token, self.session);
        (token.is_some() || session.is_some()).then_some(Pass { token, session })
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
    /// The status, the code and the message.
    fn words(&self) -> (StatusCode, &'static str, String) {
        let unauthenticated =
            |words: &str| (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", words.to_owned());
        match self {
            Denied::NoToken => unauthenticated(
                "this server needs a token: send the header Authorization: Bearer TOKEN; \
                 callboard token add makes one",
            ),
            Denied::OtherUser => (
                StatusCode::FORBIDDEN,
                "OTHER_USER",
                "this server has no tokens, so it answers only to the user who started it; callboard \
                 token add makes a token, and http.any_local_user = true lets every user of this \
                 machine in"
                    .to_owned(),
            ),
            Denied::SessionOver => {
                unauthenticated("the page session has ended; sign in on the page again")
            }
            Denied::Token(TokenFault::Unknown) => unauthenticated("the token is not known here"),
            Denied::Token(TokenFault::Expired(_)) => unauthenticated("the token has expired"),
            Denied::Token(TokenFault::Revoked(_)) => unauthenticated("the token was revoked"),
            Denied::Token(TokenFault::Issuer(fault @ IssuerFault::Unreachable)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", fault.words().to_owned())
            }
            Denied::Token(TokenFault::Issuer(fault)) => unauthenticated(fault.words()),
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

    /// Logs the id of a token, never the token.
    fn log(&self, path: &str) {
        let (status, _, message) = self.words();
        let token = match self {
            Denied::Token(TokenFault::Expired(id) | TokenFault::Revoked(id))
            | Denied::TooMany { token: id, .. }
            | Denied::TooManyStreams { token: id, .. } => id.to_string(),
            Denied::NoToken
            | Denied::OtherUser
            | Denied::SessionOver
            | Denied::TooManyWrong { .. }
            | Denied::Token(TokenFault::Unknown | TokenFault::Issuer(_))
            | Denied::Actor(_)
            | Denied::Away(_)
            | Denied::Damaged(_)
            | Denied::Broken(_) => String::new(),
        };
        tracing::warn!(status = status.as_u16(), token, path, reason = message, "turned away");
    }
}

/// The answer to a client whose token was valid once: in its own protocol, it must reconnect.
fn stale(status: StatusCode, message: &str) -> Response {
    let data = json!({
        "code": "AUTH_STALE_TOKEN",
        "hint": "reconnect the MCP client with a token that is valid",
        "retryable": false,
    });
    let error = json!({"code": STALE, "message": message, "data": data});
    (status, Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response()
}

/// The address that a request came from; `None` for a router that is called without `serve_http`.
pub(super) fn source(extensions: &Extensions) -> Option<Source> {
    extensions.get::<Arc<Connection>>().map(|connection| connection.source())
}

/// Whether a browser asks: it names HTML as an answer it takes.
fn wants_page(parts: &Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    !asks_for_mcp(parts) && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn asks_for_mcp(parts: &Parts) -> bool {
    parts.uri.path().starts_with("/mcp")
}

/// The text of the bearer token, not judged yet. RFC 7235: the scheme's case does not matter.
fn shown(parts: &Parts) -> Option<&str> {
    let bearer = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = bearer?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The actor that `?actor=` names.
fn actor_parameter(uri: &Uri) -> Result<Option<Actor>, String> {
    let Query(query) =
        Query::<HashMap<String, String>>::try_from_uri(uri).map_err(|error| error.body_text())?;
    let Some(actor) = query.get("actor") else { return Ok(None) };
    let parsed = actor.parse();
    parsed.map(Some).map_err(|error: callboard_domain::actor::ActorError| error.to_string())
}
