//! The HTTP server: routes, allowed hosts and origins, admission, and an orderly end.
//!
//! Knows nothing of MCP's messages (`mcp/` does) and nothing of the store: a given function says whether the server is
//! ready, and the gate says who the caller is.

pub(crate) mod body;
mod connection;
pub(crate) mod gate;
pub(crate) mod hosts;
mod pages;
mod peer;
mod rate;
mod ready;
mod serve;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};
use axum::{Extension, Json, Router};
use callboard_domain::rights::Rights;
use callboard_engine::trace;
use futures_util::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::error::STORE_DAMAGED;
use crate::front::Front;
use crate::mcp::{Caller, McpOptions, McpRequest, SessionLimits, Streamable};
use crate::places::TakenPlace;
use crate::web;
use crate::{toolsets, traced};
pub(crate) use connection::Connection;
use gate::{Admitted, METADATA, Pass};
pub use gate::{Gate, GateOptions};
use hosts::Hosts;
pub(crate) use pages::SignIn;
use ready::Readiness;
pub use serve::{ConnectionLimits, GRACE, serve_http};

/// The limits and names of one listener.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Names besides the loopback ones and that of the public address, each with or without a port.
    pub allowed_hosts: Vec<String>,
    /// A name for pages alone, with or without a port; agents then use the other names.
    pub page_host: Option<String>,
    /// Origins besides the server's own, `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// On a loopback listener the allowed names are always checked: without a token, DNS rebinding is the way in.
    pub listener_is_loopback: bool,
    /// Sessions of the legacy era in all; a new one beyond it is refused with 503.
    pub sessions_max: usize,
    /// Sessions per token; 0 is no limit.
    pub sessions_per_token: usize,
    /// Most clients never end their session, so an idle one is closed after this time.
    pub session_idle: Duration,
    /// Bytes of a request's body; larger bodies are refused with 413.
    pub body_max: usize,
    /// How long a client may take for the body of a request.
    pub body_within: Duration,
    /// The token that `serve_http` gets: streams end when it is cancelled.
    pub shutdown: CancellationToken,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            page_host: None,
            allowed_origins: Vec::new(),
            listener_is_loopback: true,
            sessions_max: 1000,
            sessions_per_token: 200,
            session_idle: Duration::from_secs(3600),
            body_max: 4 * 1024 * 1024,
            body_within: Duration::from_secs(60),
            shutdown: CancellationToken::new(),
        }
    }
}

/// The front for a list of toolset names; for `/mcp` the list is empty.
pub type FrontFor = Arc<dyn Fn(&str) -> Option<Arc<Front>> + Send + Sync>;
/// Whether the server can work now, or why not.
pub type ReadyProbe =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The dependencies of the routes.
#[derive(Clone)]
pub struct HttpDoors {
    pub front_for: FrontFor,
    pub gate: Arc<Gate>,
    pub ready: ReadyProbe,
}

/// The checks before a toolset's own routes, which word their refusals themselves, and the fronts behind them.
#[derive(Clone)]
pub struct WayIn {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) front_for: FrontFor,
}

/// All routes. `others` (the board, metrics) stand behind this gate and the check of hosts and origins, and find a
/// `Principal` in the request; must be called inside the runtime.
pub fn router(options: HttpOptions, mcp: McpOptions, doors: HttpDoors, others: Router) -> Router {
    let hosts = Arc::new(Hosts::new(&options, doors.gate.public_url()));
    let ready = Arc::new(Readiness::new(doors.ready.clone()));
    let gate = doors.gate.clone();
    let way_in =
        WayIn { hosts: hosts.clone(), gate: gate.clone(), front_for: doors.front_for.clone() };
    let routes = toolsets::ALL.iter().filter_map(|toolset| toolset.hooks.routes);
    let own = routes.fold(Router::new(), |all, routes| all.merge(routes(way_in.clone())));
    let metadata = get(protected_resource).with_state(gate.clone());
    // Sign-in and the metadata of RFC 9728 are for callers without a token. They still refuse other users of the
    // machine while there are no tokens.
    let before_sign_in = web::login_routes(gate.clone())
        .route(METADATA, metadata.clone())
        .route(&format!("{METADATA}/{{*path}}"), metadata)
        .layer(middleware::from_fn_with_state(gate.clone(), judge_user));
    // A layer covers only the routes above it. Thus health checks and routes of toolsets stand outside the gate and
    // the check of hosts, and every route has the deadline for bodies.
    let routes = mcp_routes(&options, mcp, doors.front_for)
        .merge(others)
        .layer(middleware::from_fn_with_state(gate, admit))
        .merge(before_sign_in)
        .layer(middleware::from_fn_with_state(hosts, judge_host))
        .merge(own)
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(async move || ready.answer().await))
        .layer(middleware::from_fn_with_state(body::Within(options.body_within), body::read_on));
    match trace::is_on() {
        true => routes.layer(middleware::from_fn(traced::page)),
        false => routes,
    }
}

/// A router with MCP alone, for the agents that this process started; must be called inside the runtime.
pub fn agents_router(
    options: HttpOptions,
    mcp: McpOptions,
    front_for: FrontFor,
    gate: Arc<Gate>,
) -> Router {
    let hosts = Arc::new(Hosts::new(&options, None));
    mcp_routes(&options, mcp, front_for)
        .layer(middleware::from_fn_with_state(gate, admit))
        .layer(middleware::from_fn_with_state(hosts, judge_host))
        .layer(middleware::from_fn_with_state(body::Within(options.body_within), body::read_on))
}

/// `/mcp` with the default toolsets, `/mcp/NAMES` with named ones.
fn mcp_routes(options: &HttpOptions, mcp: McpOptions, front_for: FrontFor) -> Router {
    let cut = CancellationToken::new();
    tokio::spawn(cut_after_grace(options.shutdown.clone(), cut.clone()));
    let limits = SessionLimits {
        sessions_max: options.sessions_max,
        per_token: options.sessions_per_token,
        idle: options.session_idle,
    };
    let closing = options.shutdown.clone();
    let streamable = Streamable::new(mcp, limits, options.body_max, closing, cut);
    Router::new()
        .route("/mcp", any(default_toolsets))
        .route("/mcp/{toolsets}", any(named_toolsets))
        .with_state(Arc::new(Edge { streamable, front_for }))
}

/// A shutdown ends idle streams at once; calls in flight get `GRACE` before they are cut.
async fn cut_after_grace(shutdown: CancellationToken, cut: CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(GRACE).await;
    cut.cancel();
}

/// The state of the MCP routes.
struct Edge {
    streamable: Streamable,
    front_for: FrontFor,
}

async fn default_toolsets(
    State(edge): State<Arc<Edge>>,
    Extension(admitted): Extension<Admitted>,
    request: Request,
) -> Response {
    edge.answer(String::new(), admitted, request).await
}

async fn named_toolsets(
    State(edge): State<Arc<Edge>>,
    Path(toolsets): Path<String>,
    Extension(admitted): Extension<Admitted>,
    request: Request,
) -> Response {
    edge.answer(toolsets, admitted, request).await
}

impl Edge {
    /// Passes a request on to MCP, with the toolsets that both the path and the token allow.
    async fn answer(&self, asked: String, admitted: Admitted, request: Request) -> Response {
        let Admitted { principal, is_named, .. } = admitted;
        let toolsets = match toolsets_for(&principal.rights, asked) {
            Ok(toolsets) => toolsets,
            Err(toolset) => {
                let message = format!("this token may not use the toolset '{toolset}'");
                return refusal(StatusCode::FORBIDDEN, "AUTHORIZATION_DENIED", &message);
            }
        };
        let Some(front) = (self.front_for)(&toolsets) else {
            let message = format!("there is no toolset '{toolsets}'");
            return refusal(StatusCode::NOT_FOUND, "UNKNOWN_TOOLSET", &message);
        };
        let caller = match is_named {
            true => Caller::Named(principal),
            false => Caller::Unnamed(principal),
        };
        self.streamable.handle(McpRequest { front, toolsets, caller, request }).await
    }
}

/// The toolsets of a request. A token that names toolsets uses those when the path names none, or all; the error is a
/// toolset that the token may not use.
fn toolsets_for(rights: &Rights, asked: String) -> Result<String, String> {
    let Some(own) = &rights.toolsets else { return Ok(asked) };
    if asked.is_empty() || asked == "all" {
        return Ok(own.join(","));
    }
    match asked.split(',').map(str::trim).find(|name| !rights.may_speak(name)) {
        Some(name) => Err(name.to_owned()),
        None => Ok(asked),
    }
}

/// Refuses other users of the machine on routes that need no token.
async fn judge_user(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match gate.judge_user(&parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(denied) => gate.answer(&denied, &parts),
    }
}

/// Admits a request with its principal. The end of a token or page session ends its requests: a running call is
/// refused, a running stream is cut.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = match gate.admit(&parts).await {
        Ok(admitted) => admitted,
        Err(denied) => return gate.answer(&denied, &parts),
    };
    // The place is taken before the handler runs, so that a refused stream has begun no work.
    let token = admitted.principal.token;
    let place = match gate.stream_place(&parts, token) {
        Ok(place) => place,
        Err(denied) => return gate.answer(&denied, &parts),
    };
    let pass = admitted.pass();
    parts.extensions.insert(admitted.principal.clone());
    parts.extensions.insert(admitted.sign_in);
    parts.extensions.insert(admitted);
    let Some(pass) = pass else { return next.run(Request::from_parts(parts, body)).await };
    // The request moves into the handler; its parts word the refusal when the token ends meanwhile.
    let kept = parts.clone();
    tokio::select! {
        response = next.run(Request::from_parts(parts, body)) => {
            cut_with(response, gate.clone(), pass, place)
        }
        denied = gate.until_it_ends(pass) => gate.answer(&denied, &kept),
    }
}

/// A plain answer passes as it is. A stream is cut when its token or page session ends.
fn cut_with(
    response: Response,
    gate: Arc<Gate>,
    pass: Pass,
    place: Option<TakenPlace>,
) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return response;
    }
    let end = async move {
        // The place is held for as long as the stream is open.
        let _place = place;
        gate.until_it_ends(pass).await;
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(end))))
}

/// The metadata of RFC 9728, also below a path: a client asks for `METADATA/mcp/graph`.
async fn protected_resource(
    State(gate): State<Arc<Gate>>,
    uri: Uri,
    headers: HeaderMap,
) -> Json<serde_json::Value> {
    Json(gate.metadata(&uri, &headers))
}

/// Refuses foreign hosts and origins. A page under another name than `web.host` is redirected there.
async fn judge_host(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    match hosts.judge(request.uri(), request.headers()) {
        Ok(()) => match hosts.elsewhere(request.uri(), request.headers()) {
            None => next.run(request).await,
            Some(address) if request.method() == Method::GET => {
                Redirect::temporary(&address).into_response()
            }
            // A browser keeps the session's cookie for the name of the pages, so a form under another name has none.
            Some(address) => {
                let words = format!("pages have their own host name; send this form to {address}");
                refusal(StatusCode::FORBIDDEN, "HOST_NOT_ALLOWED", &words)
            }
        },
        Err(fault) => refusal(StatusCode::FORBIDDEN, fault.code(), &fault.to_string()),
    }
}

/// A refusal of the HTTP server, in the keys that refusals of tools have.
pub(crate) fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "error": {
        "code": code,
        "message": message,
        // A damaged database answers 503 too, but no retry mends it.
        "retryable": (status.is_server_error() && code != STORE_DAMAGED)
            || status == StatusCode::TOO_MANY_REQUESTS,
    }});
    (status, Json(body)).into_response()
}
