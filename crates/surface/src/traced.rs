//! Spans of the surface for traces: one for each tool call, by OpenTelemetry's conventions for MCP, and one for each
//! request of a page. No argument, title, name of an actor or token is in them.

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use callboard_domain::actor::Actor;
use callboard_engine::trace::{SPANS, is_on};
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// The header, and the key in `_meta` of an MCP request, that name the span of the caller.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// How a tool call reached this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Stdio,
}

impl Transport {
    fn word(self) -> &'static str {
        match self {
            Self::Http => "tcp",
            Self::Stdio => "pipe",
        }
    }
}

/// The span of a tool call. `Front::ask` adds the tool and the code of the answer.
pub(crate) fn tool_call(transport: Transport, actor: &Actor, traceparent: Option<&str>) -> Span {
    let kind = actor.as_str().split(':').next().unwrap_or_default();
    tracing::trace_span!(
        target: SPANS,
        "tools/call",
        "otel.kind" = "server",
        traceparent,
        "mcp.method.name" = "tools/call",
        "gen_ai.operation.name" = "execute_tool",
        "network.transport" = transport.word(),
        "callboard.actor.kind" = kind,
        "otel.name" = Empty,
        "gen_ai.tool.name" = Empty,
        "callboard.toolset" = Empty,
        "callboard.code" = Empty,
        "error.type" = Empty,
    )
}

/// Names the tool in the span of its call. Only the name of a tool that exists comes here.
pub(crate) fn tool_found(toolset: &'static str, tool: &'static str) {
    if is_on() {
        let span = Span::current();
        span.record("otel.name", format!("tools/call {tool}"));
        span.record("gen_ai.tool.name", tool);
        span.record("callboard.toolset", toolset);
    }
}

/// Adds the code of the answer: `ok`, or the code of the refusal.
pub(crate) fn tool_answered(code: &'static str) {
    if is_on() {
        let span = Span::current();
        span.record("callboard.code", code);
        if code != "ok" {
            span.record("error.type", "tool_error");
        }
    }
}

/// The parent that the headers of a request name.
pub(crate) fn parent_in(headers: &HeaderMap) -> Option<&str> {
    headers.get(TRACEPARENT).and_then(|parent| parent.to_str().ok())
}

/// Answers a request of a page inside its span. Requests of MCP have spans of their calls instead.
pub(crate) async fn page(request: Request, next: Next) -> Response {
    // The pattern of the route: the path itself holds names, and its query may hold a secret.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(route) = route.filter(|route| !is_untraced(route)) else {
        return next.run(request).await;
    };
    let method = request.method().clone();
    let span = tracing::trace_span!(
        target: SPANS,
        "page",
        "otel.kind" = "server",
        "otel.name" = format!("{method} {route}"),
        traceparent = parent_in(request.headers()),
        "http.request.method" = method.as_str(),
        "http.route" = route,
        "http.response.status_code" = Empty,
        "error.type" = Empty,
    );
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("error.type", status.as_str());
    }
    response
}

/// Health checks and scrapes come all the time and say nothing; MCP has its own spans.
fn is_untraced(route: &str) -> bool {
    matches!(route, "/livez" | "/readyz" | "/metrics")
        || route == "/mcp"
        || route.starts_with("/mcp/")
}
