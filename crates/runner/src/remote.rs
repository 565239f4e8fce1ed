//! A client of a board that another process serves over HTTP: one MCP message per POST, the answer as JSON or as a
//! stream of events. Messages are forwarded, not interpreted: this file reads only their method, era and session, which
//! HTTP needs.

mod events;
mod forward;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};

use crate::wire::{self, Wire, cause};
use events::Events;
pub use forward::forward;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// The first version without sessions: each request carries its context in `_meta`.
const MODERN: &str = "2026-07-28";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// A refusal is a sentence; an answer may be as large as the server makes it.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const HUNG_UP: &str = "it closed the connection before it answered";

/// Why a message got no answer of the board itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFault {
    /// No server listens there, or the connection broke.
    #[error("cannot reach the server at {url}: {cause}")]
    Away { url: String, cause: String },
    /// The token is missing, wrong, expired or revoked.
    #[error("the server at {url} refused the token: {words}")]
    Token { url: String, words: String },
    /// The server no longer knows the session, as after its restart.
    #[error("the session at {url} has ended: connect again")]
    Session { url: String },
    /// The server refused, in its own words.
    #[error("{words}")]
    Refused { code: String, words: String, retryable: bool },
}

impl RemoteFault {
    pub fn code(&self) -> &str {
        match self {
            Self::Away { .. } => "UNAVAILABLE",
            Self::Token { .. } => "UNAUTHENTICATED",
            Self::Session { .. } => "SESSION_ENDED",
            Self::Refused { code, .. } => code,
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Self::Away { .. } => true,
            Self::Token { .. } | Self::Session { .. } => false,
            Self::Refused { retryable, .. } => *retryable,
        }
    }

    /// Whether no later message gets an answer either.
    fn is_final(&self) -> bool {
        matches!(self, Self::Token { .. } | Self::Session { .. })
    }

    /// The error response for the client of a forwarder.
    fn answer(&self, id: &Value) -> Value {
        let data = json!({"code": self.code(), "retryable": self.is_retryable()});
        let error = json!({"code": SERVER_ERROR, "message": self.to_string(), "data": data});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// JSON-RPC leaves this number to servers.
const SERVER_ERROR: i32 = -32000;

/// The address of a board and the caller's credentials.
pub struct RemoteBoard {
    wire: Wire,
    uri: Uri,
    token: Option<HeaderValue>,
    /// Set by the answer to `initialize`, and sent with every later message.
    session: Mutex<Session>,
}

/// The result of an `initialize`; the modern era has none.
#[derive(Clone, Debug, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

impl RemoteBoard {
    /// `url` names a server or a path of it; a server alone stands for its `/mcp`, with `toolsets` in the query. The
    /// error is worded for the person who typed the address.
    pub async fn new(
        url: &str,
        toolsets: Option<&str>,
        actor: Option<&str>,
        token: Option<&str>,
    ) -> Result<Self, String> {
        let uri = address(url, toolsets, actor)?;
        let is_tls = uri.scheme_str() == Some("https");
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let mut token =
            token.transpose().map_err(|_| "the token has characters that no token has")?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let wire = wire::wire(is_tls).await.map_err(|error| error.to_string())?;
        Ok(Self { wire, uri, token, session: Mutex::default() })
    }

    /// Calls one tool; the result is the protocol's answer, with `result` or `error`.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, RemoteFault> {
        let meta = json!({
            META_VERSION: MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo":
                {"name": "callboard", "version": env!("CARGO_PKG_VERSION")},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.answer(&call).await
    }

    /// Begins a session and ends it: what a client does first. The result is the protocol's answer.
    pub async fn greet(&self) -> Result<Value, RemoteFault> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "callboard", "version": env!("CARGO_PKG_VERSION")},
        }});
        let answer = self.answer(&hello).await;
        self.close().await;
        answer
    }

    /// The answer to a request; notifications before it are passed over.
    async fn answer(&self, request: &Value) -> Result<Value, RemoteFault> {
        let mut replies = self.ask(request).await?;
        loop {
            match replies.next().await? {
                Some(message) if replies.is_over => return Ok(message),
                Some(_) => {}
                None => return Err(self.away(HUNG_UP)),
            }
        }
    }

    /// Sends a request.
    async fn ask(&self, message: &Value) -> Result<Replies<'_>, RemoteFault> {
        let response = self.send(message).await?;
        let begins = message["method"] == "initialize";
        if begins {
            // From the head of the answer: messages that are sent before its body ends need the id already.
            self.session().id = response.headers().get(SESSION).cloned();
        }
        let (id, events) = (message["id"].clone(), Events::of(response));
        Ok(Replies { board: self, id, begins, events, is_over: false })
    }

    /// Sends any message; an answer without a success status is a fault.
    async fn send(&self, message: &Value) -> Result<Response<Incoming>, RemoteFault> {
        let body = Full::from(message.to_string());
        let request = self.request(Method::POST).header(CONTENT_TYPE, "application/json");
        let response = self.exchange(self.described(request, message), body).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => self.refused(response, message).await,
        }
    }

    /// The stream of unsolicited messages, as long as the session lasts; `None` when the server offers none.
    async fn listen(&self) -> Option<Events> {
        let request = self.in_session(self.request(Method::GET));
        let response = self.exchange(request, Full::default()).await.ok()?;
        (response.status() == StatusCode::OK).then(|| Events::of(response))
    }

    /// Ends the session, if there is one.
    async fn close(&self) {
        if self.session().id.is_some() {
            let request = self.in_session(self.request(Method::DELETE));
            // A server that is gone has forgotten the session already.
            let _ = self.exchange(request, Full::default()).await;
        }
    }

    fn request(&self, method: Method) -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(self.uri.clone())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    fn in_session(&self, request: Builder) -> Builder {
        let Session { id, version } = self.session().clone();
        let request = id.into_iter().fold(request, |request, id| request.header(SESSION, id));
        version.into_iter().fold(request, |request, version| request.header(VERSION, version))
    }

    /// The headers that servers and proxies read.
    fn described(&self, request: Builder, message: &Value) -> Builder {
        let Some(version) = modern_version(message) else {
            return match message["method"] == "initialize" {
                true => request,
                false => self.in_session(request),
            };
        };
        let method = message["method"].as_str().unwrap_or_default();
        let request = request.header(VERSION, version).header("mcp-method", method);
        let name = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return request,
        };
        match message["params"][name].as_str() {
            Some(name) => request.header("mcp-name", as_header(name)),
            None => request,
        }
    }

    async fn exchange(
        &self,
        request: Builder,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, RemoteFault> {
        let request = request.body(body).map_err(|error| self.away(error.to_string()))?;
        self.wire.request(request).await.map_err(|error| self.away(cause(&error)))
    }

    /// The meaning of a failure status. A protocol answer in its body still counts as an answer.
    async fn refused(
        &self,
        response: Response<Incoming>,
        message: &Value,
    ) -> Result<Response<Incoming>, RemoteFault> {
        let (status, has_session) = (response.status(), self.session().id.is_some());
        let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = || String::from_utf8_lossy(&body).trim().chars().take(500).collect::<String>();
        let words = match said["error"]["message"].as_str() {
            Some(words) => words.to_owned(),
            None if body.is_empty() => format!("the server answered {status}"),
            None => format!("the server answered {status}: {}", text()),
        };
        let is_in_session = has_session && modern_version(message).is_none();
        Err(match status {
            StatusCode::UNAUTHORIZED => RemoteFault::Token { url: self.url(), words },
            // A 404 with words is an answer of the board itself, such as one about an unknown path.
            StatusCode::NOT_FOUND if is_in_session && said.is_null() => {
                RemoteFault::Session { url: self.url() }
            }
            _ => {
                let codes = [&said["error"]["code"], &said["error"]["data"]["code"]];
                let code = codes.into_iter().find_map(Value::as_str).unwrap_or("REFUSED");
                let retryable = status.is_server_error() || said["error"]["retryable"] == true;
                RemoteFault::Refused { code: code.to_owned(), words, retryable }
            }
        })
    }

    fn away(&self, cause: impl fmt::Display) -> RemoteFault {
        RemoteFault::Away { url: self.url(), cause: cause.to_string() }
    }

    /// The server's address for messages, without further parts of the typed one.
    fn url(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or("http");
        format!("{scheme}://{}", self.uri.authority().map(|of| of.as_str()).unwrap_or_default())
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages for one request: notifications, and the answer as the last.
struct Replies<'a> {
    board: &'a RemoteBoard,
    id: Value,
    /// Whether the request is an `initialize`.
    begins: bool,
    events: Events,
    /// Whether the answer came.
    is_over: bool,
}

impl Replies<'_> {
    /// The next message; `None` after the answer. A connection that ends earlier is a fault.
    async fn next(&mut self) -> Result<Option<Value>, RemoteFault> {
        if self.is_over {
            return Ok(None);
        }
        let said = self.events.next().await.map_err(|words| self.board.away(words))?;
        let said = said.ok_or_else(|| self.board.away(HUNG_UP))?;
        self.is_over = said.get("method").is_none() && said["id"] == self.id;
        if self.is_over && self.begins {
            let version = said["result"]["protocolVersion"].as_str();
            self.board.session().version = version.and_then(|text| text.parse().ok());
        }
        Ok(Some(said))
    }
}

/// The version that a request of the modern era names.
fn modern_version(message: &Value) -> Option<&str> {
    let version = message["params"]["_meta"][META_VERSION].as_str()?;
    message.get("method").filter(|_| version >= MODERN).map(|_| version)
}

fn address(url: &str, toolsets: Option<&str>, actor: Option<&str>) -> Result<Uri, String> {
    let bad = |words: &str| format!("'{url}' is not the address of a server: {words}");
    let uri: Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| bad("write http://HOST:PORT"))?;
    if authority.as_str().contains('@') {
        return Err("an address with a user name or a password is not accepted: use a token".into());
    }
    let scheme = match uri.scheme_str() {
        Some(scheme @ ("http" | "https")) => scheme,
        _ => return Err(bad("it must begin with http:// or https://")),
    };
    let path = match (uri.path(), toolsets) {
        ("" | "/", None) => "/mcp".to_owned(),
        ("" | "/" | "/mcp", Some(toolsets)) => format!("/mcp/{toolsets}"),
        (_, Some(_)) => return Err(bad("its path already names the toolsets")),
        (path, None) => path.to_owned(),
    };
    let actor = actor.map(|actor| format!("actor={actor}"));
    let query: Vec<&str> = uri.query().into_iter().chain(actor.as_deref()).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{scheme}://{authority}{path}{query}").parse().map_err(|_| bad("it is not a URL"))
}

/// A name as a header may carry it: text that is not plain ASCII becomes base64.
fn as_header(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && name.trim() == name
        && !name.starts_with("=?base64?");
    match is_plain {
        true => name.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_or_a_path_of_it() {
        let of = |url, toolsets| address(url, toolsets, None).map(|uri| uri.to_string());
        assert_eq!(of("http://h:1", None).as_deref(), Ok("http://h:1/mcp"));
        assert_eq!(of("https://h/", Some("board")).as_deref(), Ok("https://h/mcp/board"));
        assert_eq!(of("http://h/x/mcp?a=b", None).as_deref(), Ok("http://h/x/mcp?a=b"));
        let as_ana = address("http://h", None, Some("human:ana")).expect("an address");
        assert_eq!(as_ana.to_string(), "http://h/mcp?actor=human:ana");
        for bad in ["h:1", "ftp://h", "http://u:p@h", "http://"] {
            assert!(of(bad, None).is_err(), "{bad}");
        }
        assert!(of("http://h/mcp/graph", Some("board")).is_err());
    }

    #[test]
    fn names_in_headers_are_plain() {
        assert_eq!(as_header("tasks_get"), "tasks_get");
        assert_eq!(as_header("ä"), "=?base64?w6Q=?=");
        assert_eq!(as_header(" x"), "=?base64?IHg=?=");
    }
}
