//! The HTTP server: routes, which hosts and origins may ask, who asks, and an orderly end.
//!
//! Knows nothing of MCP's messages (`mcp/` does) and nothing of the store: whether the server is
//! ready and whose token a request carries are questions to the functions it is given.

mod hosts;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use callboard_domain::actor::Actor;
use callboard_engine::context::Principal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::front::Front;
use crate::mcp::{Asked, McpOptions, SessionLimits, Streamable};
use hosts::Hosts;

/// How long calls in flight may still run after shutdown was asked for.
pub const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Names beside the loopback ones, each with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins beside the server's own, `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    pub listener_is_loopback: bool,
    pub sessions_max: usize,
    pub session_idle: Duration,
    pub body_max: usize,
    /// The token that `serve_http` gets: streams end when it is cancelled.
    pub shutdown: CancellationToken,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            listener_is_loopback: true,
            sessions_max: 1000,
            session_idle: Duration::from_secs(3600),
            body_max: 4 * 1024 * 1024,
            shutdown: CancellationToken::new(),
        }
    }
}

/// The front for a list of toolset names; for `/mcp` the list is empty.
pub type FrontFor = Arc<dyn Fn(&str) -> Option<Arc<Front>> + Send + Sync>;
/// Who asks, or with which status and message to turn them away.
pub type PrincipalFor =
    Arc<dyn Fn(&Parts) -> Result<Principal, (StatusCode, String)> + Send + Sync>;
/// Whether the server can work now, or why not.
pub type ReadyProbe =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What the routes ask.
#[derive(Clone)]
pub struct HttpDoors {
    pub front_for: FrontFor,
    pub principal_for: PrincipalFor,
    pub ready: ReadyProbe,
}

/// All routes. `others` (the board, metrics) stand behind the same check of hosts and origins;
/// must be called inside the runtime.
pub fn router(options: HttpOptions, mcp: McpOptions, doors: HttpDoors, others: Router) -> Router {
    let cut = CancellationToken::new();
    tokio::spawn(cut_after_grace(options.shutdown.clone(), cut.clone()));
    let limits = SessionLimits { sessions_max: options.sessions_max, idle: options.session_idle };
    let closing = options.shutdown.clone();
    let streamable = Streamable::new(mcp, limits, options.body_max, closing, cut);
    let hosts = Arc::new(Hosts::new(&options));
    let ready = doors.ready.clone();
    let edge = Arc::new(Edge { streamable, doors });
    Router::new()
        .route("/mcp", any(default_toolsets))
        .route("/mcp/{toolsets}", any(named_toolsets))
        .with_state(edge)
        .merge(others)
        .layer(middleware::from_fn_with_state(hosts, judge_host))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(async move || readyz(ready().await)))
}

async fn cut_after_grace(shutdown: CancellationToken, cut: CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(GRACE).await;
    cut.cancel();
}

/// Serves until `shutdown` is cancelled; calls in flight then get `GRACE` to finish.
pub async fn serve_http(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    // With Nagle's algorithm a streamed answer waits 40 ms for an acknowledgement.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let out_of_time = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = serving.into_future() => ended,
        () = out_of_time => Ok(()),
    }
}

/// Who asks on a loopback listener without tokens: the query parameter `actor`, else `default`.
pub fn local_principal(default: Principal) -> PrincipalFor {
    Arc::new(move |parts| match actor_parameter(&parts.uri)? {
        Some(actor) => Ok(Principal { actor, ..default.clone() }),
        None => Ok(default.clone()),
    })
}

fn actor_parameter(uri: &Uri) -> Result<Option<Actor>, (StatusCode, String)> {
    let bad = |message: String| (StatusCode::BAD_REQUEST, message);
    let Query(query) = Query::<HashMap<String, String>>::try_from_uri(uri)
        .map_err(|error| bad(error.body_text()))?;
    let Some(actor) = query.get("actor") else { return Ok(None) };
    actor
        .parse()
        .map(Some)
        .map_err(|error: callboard_domain::actor::ActorError| bad(error.to_string()))
}

struct Edge {
    streamable: Streamable,
    doors: HttpDoors,
}

async fn default_toolsets(State(edge): State<Arc<Edge>>, request: Request) -> Response {
    edge.answer(String::new(), request).await
}

async fn named_toolsets(
    State(edge): State<Arc<Edge>>,
    Path(toolsets): Path<String>,
    request: Request,
) -> Response {
    edge.answer(toolsets, request).await
}

impl Edge {
    async fn answer(&self, toolsets: String, request: Request) -> Response {
        let Some(front) = (self.doors.front_for)(&toolsets) else {
            let message = format!("there is no toolset '{toolsets}'");
            return refusal(StatusCode::NOT_FOUND, "UNKNOWN_TOOLSET", &message);
        };
        let (parts, body) = request.into_parts();
        let principal = match (self.doors.principal_for)(&parts) {
            Ok(principal) => principal,
            Err((status, message)) => return refusal(status, code_for(status), &message),
        };
        let request = Request::from_parts(parts, body);
        self.streamable.handle(Asked { front, toolsets, principal, request }).await
    }
}

async fn judge_host(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    match hosts.judge(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(fault) => refusal(StatusCode::FORBIDDEN, fault.code(), &fault.to_string()),
    }
}

fn readyz(ready: Result<(), String>) -> Response {
    match ready {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => refusal(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", &reason),
    }
}

fn code_for(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "AUTHORIZATION_DENIED",
        StatusCode::TOO_MANY_REQUESTS => "RATE_LIMITED",
        status if status.is_server_error() => "UNAVAILABLE",
        _ => "INVALID_INPUT",
    }
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "error": {
        "code": code,
        "message": message,
        "retryable": status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS,
    }});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    }
    response
}
