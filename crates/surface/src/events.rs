//! `GET /events`: the events of an org as Server-Sent Events, with the caller's rights. One stream carries the commits
//! of every process, in the log's order; `Last-Event-ID` resumes a stream.
//!
//! The stream of a client that does not read is ended: its queue is bounded, and the client can resume.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::refusal::Refusal;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError, EventFollow, EventsWanted};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio_util::sync::CancellationToken;

use crate::args::nearest;
use crate::error::STORE_DAMAGED;
use crate::http::refusal;
use crate::metrics::{Counted, SSE_STREAMS};
use callboard_engine::time::rfc3339_ms;

/// How many events wait for a slow reader.
/// A full queue makes `say` wait for at most `EventsOptions::patience`; then the stream ends.
const QUEUED_MAX: usize = 64;
/// Larger data of an event is left out; the log has it.
/// 64 queued events of this size are 1 MiB for each slow reader.
const DATA_BYTES_MAX: usize = 16 * 1024;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies to pass a stream on at once.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// The times of all streams of a server.
#[derive(Clone, Debug)]
pub struct EventsOptions {
    /// How often an idle stream carries a heartbeat.
    pub heartbeat: Duration,
    /// How long a reader may leave sent events unread.
    pub patience: Duration,
    /// Cancelled: all streams end.
    pub closing: CancellationToken,
}

impl EventsOptions {
    pub fn until(closing: CancellationToken) -> Self {
        // nginx ends a proxied response after 60 idle seconds by default; 15 stay well below.
        Self { heartbeat: Duration::from_secs(15), patience: Duration::from_secs(30), closing }
    }
}

/// The state of the route.
struct Desk {
    engine: Arc<Engine>,
    options: EventsOptions,
}

/// The route, behind the gate, which names the reader.
pub fn routes(engine: Arc<Engine>, options: EventsOptions) -> Router {
    Router::new().route("/events", get(events)).with_state(Arc::new(Desk { engine, options }))
}

/// Begins a stream. Refusals come as plain answers before the stream begins.
async fn events(
    State(desk): State<Arc<Desk>>,
    Extension(reader): Extension<Principal>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let op = OpContext::new(reader, "events");
    let asked = match EventsRequest::read(&query, &headers) {
        Ok(asked) => asked,
        Err(words) => return refusal(StatusCode::BAD_REQUEST, "INVALID_INPUT", &words),
    };
    match desk.engine.event_follow(&op, asked.after, asked.wanted).await {
        Ok(follow) => (
            [UNBUFFERED],
            Sse::new(stream::unfold(told(follow, desk.options.clone()), |mut told| async {
                told.recv().await.map(|event| (Ok::<_, Infallible>(event), told))
            })),
        )
            .into_response(),
        Err(error) => failure(&error),
    }
}

/// Where a stream begins, and which events it carries.
struct EventsRequest {
    after: Option<u64>,
    wanted: EventsWanted,
}

impl EventsRequest {
    /// Reads the request. The header that a browser sends on reconnection is newer than the address.
    fn read(query: &HashMap<String, String>, headers: &HeaderMap) -> Result<Self, String> {
        let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default().trim());
        // An empty header is no position: the address decides then.
        let header = header.filter(|id| !id.is_empty()).map(|id| ("Last-Event-ID", id));
        let given = |name: &'static str| {
            let text = query.get(name).map(|text| text.trim());
            text.filter(|text| !text.is_empty()).map(|text| (name, text))
        };
        let number = |(name, text): (&str, &str)| {
            text.parse().map_err(|_| format!("{name}: '{text}' is not the number of an event"))
        };
        let names = given("names").map(|(_, names)| names.split(',').map(name).collect());
        let agent = given("agent").map(|(_, id)| {
            AgentId::parse(id).ok_or_else(|| format!("agent: '{id}' is not a valid agent id"))
        });
        Ok(Self {
            after: header.or(given("after")).map(number).transpose()?,
            wanted: EventsWanted { names: names.transpose()?, agent: agent.transpose()? },
        })
    }
}

/// The event of a name; an unknown one is refused with the nearest known.
fn name(text: &str) -> Result<EventName, String> {
    EventName::parse(text.trim()).ok_or_else(|| {
        let known = EventName::ALL.iter().map(|name| name.as_str());
        let shown: String = text.trim().chars().take(60).collect();
        let hint = nearest(&shown, known).map(|name| format!("; did you mean '{name}'?"));
        format!("names: there is no event '{shown}'{}", hint.unwrap_or_default())
    })
}

/// The stream for one reader, until the reader is gone, does not read, or the server ends.
pub fn told(follow: EventFollow, options: EventsOptions) -> mpsc::Receiver<Event> {
    let (tell, told) = mpsc::channel(QUEUED_MAX);
    tokio::spawn(async move {
        let _open = Counted::one(SSE_STREAMS);
        let said = say(follow, &tell, &options);
        // Without `closed`, a reader that left would be noticed only at the next event or heartbeat.
        tokio::select! {
            () = options.closing.cancelled() => {}
            () = tell.closed() => {}
            () = said => {}
        }
    });
    told
}

/// Passes events on. A heartbeat also carries the position, so that a reader resumes after it instead of reading
/// everything again.
async fn say(mut follow: EventFollow, tell: &mpsc::Sender<Event>, options: &EventsOptions) {
    // The first event carries the position, so that a reader without any event can resume too.
    let mut next = Ok(Event::default().id(follow.position().to_string()));
    loop {
        let event = match next {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "a stream of events ended");
                return;
            }
        };
        if let Err(unsent) = tell.send_timeout(event, options.patience).await {
            if matches!(unsent, SendTimeoutError::Timeout(_)) {
                tracing::info!("a client does not read its event stream; the stream ends");
            }
            return;
        }
        next = match tokio::time::timeout(options.heartbeat, follow.next()).await {
            Ok(event) => event.map(|event| shown(&event)),
            // The position moves also while filtered events pass, so a filtered stream resumes near the log's end.
            Err(_) => Ok(Event::default().comment("here").id(follow.position().to_string())),
        };
    }
}

/// An event as the stream carries it.
fn shown(event: &LoggedEvent) -> Event {
    let LoggedEvent { seq, at, actor, name, data, .. } = event;
    let bytes = data.to_string().len();
    let data = match bytes {
        // The size replaces the data; `callboard log --json` prints the event as a whole.
        0..=DATA_BYTES_MAX => data.clone(),
        _ => json!({ "truncatedBytes": bytes }),
    };
    let body: Value = json!({
        "seq": seq,
        "at": rfc3339_ms(*at),
        "actor": actor,
        "event": name.as_str(),
        "task": event.task(),
        "data": data,
    });
    Event::default().id(seq.to_string()).event(name.as_str()).data(body.to_string())
}

/// An event as a whole, as `callboard log --json` prints it.
pub fn document(event: &LoggedEvent) -> Value {
    json!({
        "seq": event.seq,
        "at": rfc3339_ms(event.at),
        "actor": event.actor,
        "event": event.name.as_str(),
        "task": event.task(),
        "attempt": event.about.and_then(|about| about.attempt),
        "data": event.data,
    })
}

/// The answer when a stream cannot begin.
fn failure(error: &EngineError) -> Response {
    match error {
        // A missing right does not come back by itself, so it is no 503, which programs retry.
        EngineError::Refused(no @ Refusal::AuthorizationDenied { .. }) => {
            refusal(StatusCode::FORBIDDEN, "AUTHORIZATION_DENIED", &no.message())
        }
        // The client missed events for good. It reads what stands now and follows from the place that the words name.
        EngineError::Refused(no @ Refusal::RemovedByRetention { .. }) => {
            refusal(StatusCode::GONE, no.code(), &no.message())
        }
        EngineError::Damaged(words) => {
            tracing::error!(cause = words, "the database is damaged");
            refusal(StatusCode::SERVICE_UNAVAILABLE, STORE_DAMAGED, words)
        }
        error => {
            tracing::warn!(%error, "cannot begin a stream of events");
            refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "the event log cannot be read now",
            )
        }
    }
}
