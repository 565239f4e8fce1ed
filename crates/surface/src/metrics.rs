//! `/metrics`: the server's counts in Prometheus' text format. A label is a state, a result, a tool or a code, all of
//! them known beforehand: never an id, an actor or a client's text.
//!
//! Events are counted where they happen; this file has the counts of calls, sessions and streams, and the page that
//! shows all counts. The counts cover every org, so a token needs the scope `metrics:read`, which no token has by
//! default. An exporter sends the text of that page. Without page and exporter nothing is collected and counting is free.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ::metrics::{
    counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    set_global_recorder,
};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use callboard_domain::board::stats::SPAN_BOUNDS_S;
use callboard_engine::context::{Principal, Scope};
use callboard_engine::counts::QUEUE_WAIT;
use callboard_engine::store::tally::BATCH_SIZE;
use callboard_engine::{Engine, counts};
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::error::{CANCELED, INTERNAL_ERROR};
use crate::http::refusal;
use crate::traced;

const TASKS: &str = "callboard_tasks";
const CALLS: &str = "callboard_mcp_calls_total";
const CALL_SECONDS: &str = "callboard_mcp_call_seconds";
pub(crate) const HTTP_SESSIONS: &str = "callboard_http_sessions";
pub(crate) const SSE_STREAMS: &str = "callboard_sse_streams";
const BUILD_INFO: &str = "callboard_build_info";

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often observations are sorted into buckets when no scrape does it.
const UPKEEP: Duration = Duration::from_secs(5);

/// From half a millisecond to a wait of five minutes.
const CALL_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// The one recorder of the process, installed on first use.
static COLLECTED: OnceLock<PrometheusHandle> = OnceLock::new();

/// The route `/metrics`. It counts calls of this process, but tasks of the whole store; must be called inside the
/// runtime.
pub fn routes(engine: Arc<Engine>) -> Router {
    let collected = collected();
    let metrics = async move |Extension(reader): Extension<Principal>| {
        // Without tokens the reader is the local user.
        match reader.token.map_or(Ok(()), |_| reader.judge("metrics", Scope::MetricsRead)) {
            Ok(()) => {
                let text = shown(&engine, collected).await;
                ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response()
            }
            Err(no) => refusal(StatusCode::FORBIDDEN, "AUTHORIZATION_DENIED", &no.message()),
        }
    };
    Router::new().route("/metrics", get(metrics))
}

/// The text of `/metrics` for an exporter; must be called inside the runtime. Without its engine, when the command is over,
/// the counts of tasks and waits are those of the last export.
pub fn text(engine: &Arc<Engine>) -> impl Fn() -> BoxFuture<'static, String> + Send + Sync + use<> {
    let (collected, engine) = (collected(), Arc::downgrade(engine));
    move || {
        let engine = engine.upgrade();
        Box::pin(async move {
            match engine {
                Some(engine) => shown(&engine, collected).await,
                None => collected.render(),
            }
        })
    }
}

/// The recorder, with its upkeep: the observations of a server that is not scraped would pile up.
fn collected() -> &'static PrometheusHandle {
    let collected = COLLECTED.get_or_init(collect);
    tokio::spawn(async {
        let mut tick = tokio::time::interval(UPKEEP);
        loop {
            tick.tick().await;
            collected.run_upkeep();
        }
    });
    collected
}

/// Installs the recorder and describes every metric of this file.
fn collect() -> PrometheusHandle {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in
        [(CALL_SECONDS, CALL_BUCKETS), (QUEUE_WAIT, &SPAN_BOUNDS_S), (BATCH_SIZE, BATCH_BUCKETS)]
    {
        builder = builder
            .set_buckets_for_metric(Matcher::Full(name.into()), buckets)
            .expect("there are buckets");
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    set_global_recorder(recorder).expect("nobody else sets one");
    describe_gauge!(TASKS, "Tasks of the whole store by state; plans are not counted");
    describe_counter!(CALLS, "Tool calls by tool and by code: ok, or the code of the refusal");
    describe_histogram!(CALL_SECONDS, "How long tool calls took, waits included");
    describe_gauge!(HTTP_SESSIONS, "Open sessions of the legacy protocol era");
    describe_gauge!(SSE_STREAMS, "Open event streams, to MCP clients and of /events");
    describe_gauge!(BUILD_INFO, "Always 1; the label says which version runs");
    // A gauge that nothing touched is not shown; a dashboard needs the zero.
    gauge!(HTTP_SESSIONS).set(0.0);
    gauge!(SSE_STREAMS).set(0.0);
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    counts::collect();
    handle
}

/// All counts. Tasks and waits are counted at the moment of a scrape, everything else where it happens.
async fn shown(engine: &Engine, collected: &PrometheusHandle) -> String {
    engine.count_waits();
    count_tasks(engine).await;
    collected.render()
}

/// Counts tasks. While the store cannot be read, the number is NaN.
async fn count_tasks(engine: &Engine) {
    let known = engine.tasks_by_state().await;
    if let Err(error) = &known {
        tracing::warn!(%error, "cannot count tasks");
    }
    let known = known.ok();
    let set = |state: &'static str, count: Option<u64>| {
        gauge!(TASKS, "state" => state).set(count.map_or(f64::NAN, |count| count as f64));
    };
    set("ready", known.map(|tasks| tasks.ready));
    set("blocked", known.map(|tasks| tasks.blocked));
    set("working", known.map(|tasks| tasks.working));
    set("review", known.map(|tasks| tasks.review));
    set("done", known.map(|tasks| tasks.done));
    set("canceled", known.map(|tasks| tasks.canceled));
}

/// One tool call, counted once, however it ends.
/// Counts in `drop`, because a cancelled call is dropped in the middle and reaches no later line.
pub(crate) struct Measured {
    tool: &'static str,
    started: Instant,
    code: Option<&'static str>,
}

impl Measured {
    pub(crate) fn start(toolset: &'static str, tool: &'static str) -> Self {
        traced::tool_found(toolset, tool);
        Self { tool, started: Instant::now(), code: None }
    }

    pub(crate) fn end(mut self, code: &'static str) {
        self.code = Some(code);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        // A call without a recorded end was dropped, by a client that went away or by a bug.
        let code = self
            .code
            .unwrap_or_else(|| if std::thread::panicking() { INTERNAL_ERROR } else { CANCELED });
        traced::tool_answered(code);
        counter!(CALLS, "tool" => self.tool, "code" => code).increment(1);
        histogram!(CALL_SECONDS, "tool" => self.tool).record(self.started.elapsed().as_secs_f64());
    }
}

/// Counts one more of something while it is held.
pub(crate) struct Counted(&'static str);

impl Counted {
    pub(crate) fn one(name: &'static str) -> Self {
        gauge!(name).increment(1.0);
        Self(name)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        gauge!(self.0).decrement(1.0);
    }
}
