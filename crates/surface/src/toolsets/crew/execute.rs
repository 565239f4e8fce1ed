//! `POST /mcp/execute`: a crew's tools for clients without MCP. One call per request, and an envelope for every answer;
//! a call goes through the toolset's own pipeline.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use callboard_domain::crew::AgentId;
use callboard_domain::rights::{Lane, Rights};
use callboard_domain::surrogate::whole_pairs;
use callboard_engine::CrewRule;
use callboard_engine::context::{OpContext, Principal};
use serde_json::{Map, Value};

use super::envelope::{self, Said};
use super::permission::broken_call;
use super::pipeline::{unknown_agent, unknown_tool};
use super::{NAME, tool_named};
use crate::error::STORE_DAMAGED;
use crate::front::{Front, Unknown};
use crate::http::WayIn;
use crate::http::body::{Unread, whole};
use crate::http::gate::{Denied, Gate};
use crate::mcp::caught;

/// The route, which refuses in envelopes and therefore asks hosts and gate itself.
pub(super) fn routes(way_in: WayIn) -> Router {
    let door = Arc::new(Door { way_in, unreported: Mutex::default() });
    Router::new().route("/mcp/execute", any(execute).with_state(door))
}

/// The way in, and the calls whose failure could not be reported yet.
struct Door {
    way_in: WayIn,
    unreported: Mutex<HashSet<CallKey>>,
}

/// The agent, the tool and the token of a call.
type CallKey = (String, &'static str, Option<HeaderValue>);

/// How many failures wait until the store can identify the caller. One per key.
/// Callers are unknown at that point, so the number must be bounded against a flood.
const UNREPORTED_MAX: usize = 1000;
/// How often the store is asked about the caller of such a call.
const ASKS_AGAIN: Duration = Duration::from_secs(1);

/// A refusal before it is an envelope: its words and its status.
struct No(StatusCode, Said);

impl No {
    fn input(message: &str) -> Self {
        Self(StatusCode::BAD_REQUEST, Said::new(envelope::INVALID_INPUT, message))
    }

    /// A caller that may not do this.
    fn denied(message: impl Into<String>) -> Self {
        Self(StatusCode::FORBIDDEN, Said::new(envelope::PERMISSION_DENIED, message))
    }
}

/// One request. The order is: host, method, caller, media type, size, form, rights, call. Nothing of the body is read
/// before the caller is admitted, unless the store is away.
async fn execute(State(door): State<Arc<Door>>, request: Request) -> Response {
    let Some(front) = (door.way_in.front_for)(NAME) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (parts, body) = request.into_parts();
    let no = |No(status, said): No| {
        let said = envelope::no(&said, front.engine().now());
        (status, Json(said)).into_response()
    };
    if let Err(fault) = door.way_in.hosts.judge(&parts.uri, &parts.headers) {
        return no(No::denied(fault.to_string()));
    }
    if parts.method != Method::POST {
        let said = Said::new(envelope::INVALID_INPUT, "Use POST");
        let mut response = no(No(StatusCode::METHOD_NOT_ALLOWED, said));
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let principal = match door.admit(&parts, front.engine().crew()).await {
        Ok(principal) => principal,
        Err((denied, tries)) => {
            if let Denied::Away(words) = &denied
                && let Ok(body) =
                    whole(&parts.headers, body, front.engine().crew().body_bytes_max).await
                // The body is read although the caller is unknown: the report has to name the tool and the agent.
                && let Ok(asked) = ExecuteRequest::read(&body)
            {
                door.report_later(front.clone(), parts.clone(), asked, words.clone());
            }
            return turned_away(&door.way_in.gate, &denied, tries, &parts, no);
        }
    };
    if !is_json(&parts) {
        let said = Said::new(envelope::INVALID_INPUT, "Content-Type must be application/json");
        return no(No(StatusCode::UNSUPPORTED_MEDIA_TYPE, said));
    }
    let bytes_max = front.engine().crew().body_bytes_max;
    let body = match whole(&parts.headers, body, bytes_max).await {
        Ok(body) => body,
        Err(Unread::TooLarge) => {
            let words = format!("Request body is larger than {bytes_max} bytes");
            let said = Said::new(envelope::INVALID_INPUT, words);
            return no(No(StatusCode::PAYLOAD_TOO_LARGE, said));
        }
        Err(Unread::CutShort) => return no(No::input("Request body was cut short")),
        Err(Unread::TooSlow) => {
            let said = Said::new(envelope::INVALID_INPUT, "Request body took too long");
            return no(No(StatusCode::REQUEST_TIMEOUT, said));
        }
    };
    let asked = match ExecuteRequest::read(&body).and_then(|asked| asked.judged(principal)) {
        Ok(asked) => asked,
        Err(refused) => return no(refused),
    };
    match caught(asked.answer(&front)).await {
        Ok(answer) => (status(&answer), Json(answer)).into_response(),
        Err(trace_id) => {
            let words =
                format!("an internal error occurred; the server's log has it as {trace_id}");
            let said = Said::new(envelope::INTERNAL_ERROR, words);
            no(No(StatusCode::INTERNAL_SERVER_ERROR, said))
        }
    }
}

impl Door {
    /// The keys that wait for their report.
    fn unreported(&self) -> MutexGuard<'_, HashSet<CallKey>> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a call that did not reach the pipeline, because the store was away and could not say whether this caller
    /// may speak for the agent. The question is repeated until there is an answer; only the call of an authorised
    /// caller is reported.
    fn report_later(
        self: &Arc<Self>,
        front: Arc<Front>,
        parts: Parts,
        asked: ExecuteRequest,
        words: String,
    ) {
        // A call of an unknown tool fails with or without the store, and needs no report.
        let Some(tool) = tool_named(&asked.tool) else { return };
        // Part of the key, so that a stranger's failing calls do not hide those of the agent.
        let token = parts.headers.get(header::AUTHORIZATION).cloned();
        let key = (asked.agent.clone(), tool, token);
        {
            let mut unreported = self.unreported();
            if unreported.len() >= UNREPORTED_MAX || !unreported.insert(key.clone()) {
                return;
            }
        }
        let agent = &asked.agent;
        tracing::error!(
            error = words,
            tool,
            agent,
            "the mail about a failure waits until the store is back"
        );
        let (door, at) = (self.clone(), front.engine().now());
        tokio::spawn(async move {
            let admitted = loop {
                tokio::time::sleep(ASKS_AGAIN).await;
                match door.way_in.gate.admit(&parts).await {
                    Err(Denied::Away(_)) => {}
                    admitted => break admitted,
                }
            };
            if let Ok(caller) = admitted
                && let Ok(AuthorizedRequest { principal, .. }) = asked.judged(caller.principal)
            {
                let said = Said::new(envelope::TRANSIENT_ERROR, words.clone());
                let broken = broken_call(tool, &said, words, at);
                front.engine().call_report(&OpContext::new(principal, tool), None, broken).await;
            }
            door.unreported().remove(&key);
        });
    }

    /// Admits a request. A store that is away is asked again as in the pipeline; a denial comes with the number of
    /// tries.
    async fn admit(&self, parts: &Parts, rule: &CrewRule) -> Result<Principal, (Denied, u32)> {
        let mut tries = 1;
        loop {
            match self.way_in.gate.admit(parts).await {
                Err(Denied::Away(_)) if tries <= rule.retry_max => {
                    tokio::time::sleep(rule.retry_delay).await;
                    tries += 1;
                }
                Err(denied) => return Err((denied, tries)),
                Ok(admitted) => return Ok(admitted.principal),
            }
        }
    }
}

/// The answer to a denied request: a header of the gate stays a header, its body becomes an envelope.
fn turned_away(
    gate: &Gate,
    denied: &Denied,
    tries: u32,
    parts: &Parts,
    no: impl FnOnce(No) -> Response,
) -> Response {
    // The gate words the refusal for its log and its headers; only the body is replaced.
    let plain = gate.answer(denied, parts);
    let said = match denied {
        Denied::NoToken | Denied::SessionOver | Denied::Token(_) => {
            Said::new(envelope::PERMISSION_DENIED, "Missing or invalid token")
        }
        Denied::OtherUser => {
            let words = "This server has no tokens, so it answers only to the user who started it; \
                 callboard token add makes a token";
            Said::new(envelope::PERMISSION_DENIED, words)
        }
        Denied::TooMany { .. } => Said::new(envelope::TRANSIENT_ERROR, "Too many requests"),
        Denied::TooManyWrong { .. } => {
            let words = "Too many wrong tokens came from this address";
            Said::new(envelope::TRANSIENT_ERROR, words)
        }
        Denied::TooManyStreams { .. } => {
            Said::new(envelope::TRANSIENT_ERROR, "Too many streams of this token are open")
        }
        Denied::Actor(words) => Said::new(envelope::INVALID_INPUT, words.clone()),
        Denied::Away(words) => envelope::transient(words.clone(), tries),
        Denied::Damaged(words) => Said::new(STORE_DAMAGED, words.clone()),
        Denied::Broken(words) => Said::new(envelope::INTERNAL_ERROR, words.clone()),
    };
    let status = match denied {
        // The status of every other failed call.
        Denied::Away(_) => StatusCode::BAD_REQUEST,
        Denied::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => plain.status(),
    };
    let mut response = no(No(status, said));
    for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
        if let Some(value) = plain.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Whether the body says that it is JSON. A form of a foreign page cannot send this media type.
fn is_json(parts: &Parts) -> bool {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

/// The HTTP status of an answer. A tool's own failure is a normal answer; only a fault before any tool ran is the
/// server's.
fn status(answer: &Value) -> StatusCode {
    let error = &answer["error"];
    match answer["success"].as_bool() {
        Some(true) => StatusCode::OK,
        _ if (error["code"] == envelope::INTERNAL_ERROR || error["code"] == STORE_DAMAGED)
            && error["details"]["attempts"].is_null() =>
        {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        _ => StatusCode::BAD_REQUEST,
    }
}

/// A call as it was sent: `agentId`, `toolName` and `input`.
struct ExecuteRequest {
    agent: String,
    tool: String,
    input: Map<String, Value>,
}

/// A call whose caller may speak for the agent.
struct AuthorizedRequest {
    asked: ExecuteRequest,
    principal: Principal,
}

impl ExecuteRequest {
    /// Reads the body. Unknown fields are ignored.
    fn read(body: &Bytes) -> Result<Self, No> {
        let Ok(Value::Object(mut body)) = serde_json::from_slice(&whole_pairs(body)) else {
            return Err(No::input("Request body must be a JSON object"));
        };
        let mut text = |name: &str| match body.remove(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            _ => Err(No::input(&format!("Missing required field: {name}"))),
        };
        let (agent, tool) = (text("agentId")?, text("toolName")?);
        let input = match body.remove("input") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(input)) => input,
            Some(_) => return Err(No::input("Field 'input' must be an object")),
        };
        Ok(Self { agent, tool, input })
    }

    /// A token speaks for its own agent; an administrator's token for any. No agent is registered here.
    fn judged(self, caller: Principal) -> Result<AuthorizedRequest, No> {
        let agent = AgentId::parse(&self.agent);
        // Without a token the caller is the local user, who may speak for every agent.
        if caller.token.is_some() {
            let own = agent.as_ref() == Some(&AgentId::of(&caller.actor));
            if !own && caller.rights.lane != Lane::KaganAdmin {
                let words = format!("Token does not belong to agent '{}'", self.agent);
                return Err(No::denied(words));
            }
            if !caller.rights.may_speak(NAME) {
                return Err(No::denied("Token may not use the toolset 'crew'"));
            }
        }
        let Some(agent) = agent else {
            return Err(No(StatusCode::BAD_REQUEST, unknown_agent(&self.agent)));
        };
        // The type on the caller's token is not the agent's; the pipeline takes the one on record.
        let rights = Rights { agent_type: None, ..caller.rights };
        let principal = Principal { actor: agent.actor(), rights, ..caller };
        Ok(AuthorizedRequest { asked: self, principal })
    }
}

impl AuthorizedRequest {
    /// Makes the call, as the agent. Only tools of this toolset are found here, whichever toolsets the server has.
    async fn answer(self, front: &Front) -> Value {
        let Self { asked: ExecuteRequest { tool, input, .. }, principal } = self;
        let context = |name| OpContext::new(principal.clone(), name);
        let now = || front.engine().now();
        let asked = match tool_named(&tool) {
            // Other toolsets are not reachable here: their answers have no envelope.
            Some(_) => front.ask(&tool, Value::Object(input), context).await,
            None => Err(Unknown(tool.clone())),
        };
        match asked {
            Ok((Ok(answer), _)) => answer,
            Ok((Err(error), _)) => {
                let said = Said::new(envelope::INTERNAL_ERROR, error.to_string());
                envelope::no(&said, now())
            }
            Err(Unknown(_)) => {
                let op = context("mcp/execute");
                envelope::no(&unknown_tool(front.engine(), &op, &tool).await, now())
            }
        }
    }
}
