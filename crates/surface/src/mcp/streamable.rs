//! MCP over HTTP: one request in, one response out. Routes, hosts and tokens belong to `http.rs`.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::surrogate::whole_pairs;
use callboard_engine::context::Principal;
use futures_util::StreamExt;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::McpOptions;
use super::conformance::Fixtures;
use super::handler::Handler;
use super::identity::Caller;
use super::lines::id_of;
use super::sessions::{Full, Owner, SessionLimits, Sessions, SessionsFor, Streams};
use super::subscriptions::Hearing;
use crate::front::Front;
use crate::http::body::{Unread, whole};
use crate::http::refusal;
use crate::metrics::{Counted, SSE_STREAMS};
use crate::places::NoPlace;

const SESSION_ID: &str = "mcp-session-id";
/// When a client without a place may try again.
/// An estimate: a place becomes free when a session ends or was idle for too long.
const RETRY_AFTER_SECONDS: &str = "60";

/// Error codes of JSON-RPC.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The MCP endpoint of one server: its sessions, and the SDK's settings.
pub(crate) struct Streamable {
    options: Arc<McpOptions>,
    sessions: Arc<Sessions>,
    config: StreamableHttpServerConfig,
    fixtures: Option<Arc<Fixtures>>,
    /// Cancelled when a shutdown is requested.
    closing: CancellationToken,
}

/// One HTTP request with the findings of `http.rs`.
pub(crate) struct McpRequest {
    pub(crate) front: Arc<Front>,
    /// The toolsets as the path names them; part of a session's identity.
    pub(crate) toolsets: String,
    pub(crate) caller: Caller,
    pub(crate) request: Request,
}

impl Streamable {
    /// `closing` ends the streams that only wait, `cut` everything that is still open.
    pub(crate) fn new(
        options: McpOptions,
        limits: SessionLimits,
        body_max: usize,
        closing: CancellationToken,
        cut: CancellationToken,
    ) -> Self {
        // `http.rs` judges hosts and origins, for all routes.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(body_max)
            .with_cancellation_token(cut);
        Self {
            fixtures: options.fixtures(),
            options: Arc::new(options),
            sessions: Arc::new(Sessions::new(limits, closing.clone())),
            config,
            closing,
        }
    }

    /// One request. A session belongs to the caller and the toolsets that opened it; for any other caller it does not
    /// exist.
    pub(crate) async fn handle(&self, asked: McpRequest) -> Response {
        let McpRequest { front, toolsets, caller, request } = asked;
        let (mut request, body) = match self.read(request).await {
            Ok(read) => read,
            Err(refused) => return refused,
        };
        let owner = Owner { caller: caller.clone(), toolsets };
        let session = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        if session.is_some_and(|id| !self.sessions.may_use(id, &owner)) {
            return no_session();
        }
        let claims_json = claims_json(&request);
        let ends_session = request.method() == Method::DELETE;
        // The handler looks at the request first: only a request that names its caller carries a principal.
        match &caller {
            Caller::Named(principal) => drop(request.extensions_mut().insert(principal.clone())),
            // The gate put the local user there. An agent must not act as that person; the handler makes a name.
            Caller::Unnamed(_) => drop(request.extensions_mut().remove::<Principal>()),
        }
        let streams = Streams::default();
        let sessions = Arc::new(SessionsFor::new(self.sessions.clone(), owner, streams.clone()));
        let response = self.service(front, caller, sessions.clone(), streams).handle(request).await;
        if let Some(refused) = sessions.refused() {
            return no_place(refused);
        }
        // Such a request had the right type; its body was not a message.
        if claims_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return unreadable(&body);
        }
        let mut response = counted(response.map(Body::new));
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The SDK also accepts the end of an unknown session.
            if !sessions.ended_one() {
                return no_session();
            }
            // The Python SDK reads "accepted" as "not done".
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// The request with its whole body: the SDK would report a truncated one as its own fault. Returns the body's bytes, too.
    async fn read(&self, request: Request) -> Result<(Request, Bytes), Response> {
        if request.method() != Method::POST {
            return Ok((request, Bytes::new()));
        }
        let (parts, body) = request.into_parts();
        let bytes_max = self.config.max_request_body_bytes;
        match whole(&parts.headers, body, bytes_max).await {
            Ok(body) => {
                let whole = match whole_pairs(&body) {
                    Cow::Owned(whole) => Some(Bytes::from(whole)),
                    Cow::Borrowed(_) => None,
                };
                let body = whole.unwrap_or(body);
                Ok((Request::from_parts(parts, body.clone().into()), body))
            }
            Err(Unread::TooLarge) => {
                let words = format!("the body is larger than {bytes_max} bytes");
                Err(no_message(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &words))
            }
            Err(Unread::CutShort) => {
                Err(no_message(StatusCode::BAD_REQUEST, PARSE_ERROR, "the body was cut short"))
            }
            Err(Unread::TooSlow) => {
                let words = "the body took too long";
                Err(no_message(StatusCode::REQUEST_TIMEOUT, PARSE_ERROR, words))
            }
        }
    }

    /// The SDK's service is a handful of pointers, so each request gets its own, which knows the caller.
    fn service(
        &self,
        front: Arc<Front>,
        caller: Caller,
        sessions: Arc<SessionsFor>,
        streams: Streams,
    ) -> StreamableHttpService<Handler, SessionsFor> {
        let options = self.options.clone();
        let fixtures = self.fixtures.clone();
        let closing = self.closing.clone();
        let handler = move || {
            Ok(Handler::new(
                front.clone(),
                options.clone(),
                caller.clone().into(),
                fixtures.clone(),
                closing.clone(),
                None,
                Hearing::Session(streams.clone()),
            ))
        };
        StreamableHttpService::new(handler, sessions, self.config.clone())
    }
}

/// A stream is counted until its body is over or dropped.
fn counted(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| !kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    let open = Counted::one(SSE_STREAMS);
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _until_dropped = &open;
        }))
    })
}

/// Whether the request says that its body is JSON.
fn claims_json(request: &Request) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    content_type
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("application/json"))
}

/// The answer when no session can be opened: 503 where the server is full, 429 where only this token is.
fn no_place(refused: Full) -> Response {
    let (status, message) = match refused {
        Full::Server => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many sessions are open; close one or try again later".to_owned(),
        ),
        Full::Token(NoPlace { max }) => (
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "this token has {max} sessions open, the most it may have; end one with DELETE, \
                 or raise http.sessions_per_token"
            ),
        ),
    };
    let mut response = refusal(status, "TOO_MANY_SESSIONS", &message);
    let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// The answer for a session that does not exist, in the words of the SDK; clients open a new one on it.
fn no_session() -> Response {
    (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response()
}

/// The SDK would call an unparsable body an unsupported media type.
fn unreadable(body: &[u8]) -> Response {
    let words = "the body is not a JSON-RPC 2.0 message";
    refused_message(StatusCode::BAD_REQUEST, &id_of(body), PARSE_ERROR, words)
}

/// The answer to a body that is no message, and so has no id.
fn no_message(status: StatusCode, code: i32, message: &str) -> Response {
    refused_message(status, &Value::Null, code, message)
}

fn refused_message(status: StatusCode, id: &Value, code: i32, message: &str) -> Response {
    let body = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": { "code": code, "message": message },
    });
    (status, axum::Json(body)).into_response()
}
