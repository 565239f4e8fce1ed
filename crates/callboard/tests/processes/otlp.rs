//! Traces and metrics of real servers at a collector: what arrives there, whose trace it belongs to, and that a collector
//! which is down costs neither calls nor the end of a process.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::{FREE, Shop, make, submit};
use crate::http::{Server, agent, answer_of, modern};
use crate::peer::{Peer, board, command, reply};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT_SPAN: &str = "00f067aa0ba902b7";
const OTHER: &str = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01";
/// Far above the two seconds that the last export may take, and far below the patience with a collector.
const END_MAX: Duration = Duration::from_secs(8);

/// A request to the collector.
struct Export {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A collector on loopback that answers every request with one status.
struct Collector {
    url: String,
    exports: Receiver<Export>,
}

impl Collector {
    fn start(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (got, exports) = channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve(listener, status, got));
        });
        Self { url, exports }
    }

    /// Everything that arrived so far, read by its content type.
    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for Export { path, headers, body } in self.exports.try_iter() {
            let is_json = match headers["content-type"].to_str().unwrap() {
                "application/json" => true,
                "application/x-protobuf" => false,
                other => panic!("sent as {other}"),
            };
            seen.raw.extend_from_slice(&body);
            seen.headers = headers;
            if path == "/v1/traces" {
                let request: ExportTraceServiceRequest = match is_json {
                    true => serde_json::from_slice(&body).unwrap(),
                    false => Message::decode(body).unwrap(),
                };
                for resource in request.resource_spans {
                    seen.resource = attributes(&resource.resource.unwrap().attributes);
                    seen.spans.extend(resource.scope_spans.into_iter().flat_map(|one| one.spans));
                }
            } else {
                assert_eq!(path, "/v1/metrics");
                seen.metrics = match is_json {
                    true => serde_json::from_slice(&body).unwrap(),
                    false => Message::decode(body).unwrap(),
                };
            }
        }
        seen
    }
}

async fn serve(listener: TcpListener, status: StatusCode, got: Sender<Export>) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let take = async move |uri: Uri, headers: HeaderMap, body: Bytes| {
        // The test may be over.
        let _ = got.send(Export { path: uri.path().to_owned(), headers, body });
        status
    };
    axum::serve(listener, Router::new().fallback(take)).await.unwrap();
}

#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    resource: BTreeMap<String, String>,
    /// The last ones.
    metrics: ExportMetricsServiceRequest,
    headers: HeaderMap,
    raw: Vec<u8>,
}

impl Seen {
    /// The spans of one name, in the order of their starts.
    fn named(&self, name: &str) -> Vec<&Span> {
        let mut spans: Vec<&Span> = self.spans.iter().filter(|span| span.name == name).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    fn has(&self, text: &str) -> bool {
        self.raw.windows(text.len()).any(|part| part == text.as_bytes())
    }

    /// The samples of the metrics in the form of a scrape; of histograms the count and the sum of the buckets.
    fn samples(&self) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let scopes = self.metrics.resource_metrics.iter().flat_map(|one| &one.scope_metrics);
        for metric in scopes.flat_map(|scope| &scope.metrics) {
            let points = match metric.data.as_ref().unwrap() {
                metric::Data::Gauge(gauge) => &gauge.data_points,
                metric::Data::Sum(sum) => {
                    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
                    &sum.data_points
                }
                metric::Data::Histogram(histogram) => {
                    for point in &histogram.data_points {
                        let counted: u64 = point.bucket_counts.iter().sum();
                        assert_eq!(counted, point.count);
                        assert_eq!(point.explicit_bounds.len() + 1, point.bucket_counts.len());
                        let name = sample(&format!("{}_count", metric.name), &point.attributes);
                        samples.insert(name, point.count as f64);
                    }
                    continue;
                }
                other => panic!("{other:?}"),
            };
            for point in points {
                assert!(point.start_time_unix_nano <= point.time_unix_nano);
                let Some(number_data_point::Value::AsDouble(value)) = point.value else {
                    panic!("{point:?}")
                };
                samples.insert(sample(&metric.name, &point.attributes), value);
            }
        }
        samples
    }
}

/// `name{key="value"}`, as a scrape writes it.
fn sample(name: &str, labels: &[KeyValue]) -> String {
    let labels: Vec<String> =
        labels.iter().map(|label| format!("{}=\"{}\"", label.key, text(label))).collect();
    match labels.is_empty() {
        true => name.to_owned(),
        false => format!("{name}{{{}}}", labels.join(",")),
    }
}

fn text(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => text.clone(),
        Some(AnyValue::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    list.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace of a span and its parent.
fn place(span: &Span) -> (String, String) {
    (hex(&span.trace_id), hex(&span.parent_span_id))
}

fn serve_with(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut serve = command(folder);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
    serve.envs(variables.iter().copied());
    serve
}

/// A call with a parent in the header, in `_meta`, in both, or in none.
fn call(
    server: &Server,
    tool: &str,
    arguments: Value,
    header: Option<&str>,
    meta_parent: Option<&str>,
) -> Result<Value, Value> {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    if let Some(parent) = meta_parent {
        meta["traceparent"] = parent.into();
    }
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let url = format!("{}/mcp?actor=agent:hidden-name", server.url);
    let mut asked = modern(&agent(), &url, "tools/call").header("Mcp-Name", tool);
    if let Some(parent) = header {
        asked = asked.header("traceparent", parent);
    }
    let mut response = asked.send_json(&body).unwrap();
    reply(&answer_of(&mut response).unwrap())
}

/// Ends a process in order, and says how long that took.
fn end(child: &mut Child) -> Duration {
    let asked = Instant::now();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    asked.elapsed()
}

#[test]
fn a_server_exports_its_calls_pages_checks_and_metrics() {
    let (board, collector) = (board(), Collector::start(StatusCode::OK));
    let serve = serve_with(
        board.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key"),
            ("OTEL_SERVICE_NAME", "lab"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ],
    );
    let mut server = Server::over(serve);
    let title = "titles-stay-here";
    let new = json!({"title": title, "checks": [{"desc": "holds", "cmd": "true"}]});
    let task = call(&server, "create", new, Some(PARENT), None).unwrap();
    let task = json!({"id": task["id"]});
    call(&server, "claim", task.clone(), Some(OTHER), Some(PARENT)).unwrap();
    call(&server, "get", task.clone(), Some("00-nonsense-01"), None).unwrap();
    let unknown = json!({"id": "P-99"});
    let refused = call(&server, "get", unknown, None, Some(&PARENT.to_uppercase())).unwrap_err();
    call(&server, "run_checks", task.clone(), None, Some(PARENT)).unwrap();
    call(&server, "not_a_tool", json!({}), None, Some(PARENT)).unwrap_err();
    let page = format!("{}/?q=queries-stay-here", server.url);
    let page = agent().get(page).header("traceparent", PARENT).call().unwrap();
    assert_eq!(page.status(), 200);
    let mut scrape = agent().get(format!("{}/metrics", server.url)).call().unwrap();
    let scrape = scrape.body_mut().read_to_string().unwrap();
    assert!(end(&mut server.child) < END_MAX);

    let seen = collector.seen();
    assert_eq!(seen.headers["authorization"], "Bearer key");
    assert_eq!(seen.resource["service.name"], "lab");
    assert_eq!(seen.resource["deployment.environment.name"], "test");
    assert_eq!(seen.resource["service.version"], env!("CARGO_PKG_VERSION"));
    let theirs = (TRACE.to_owned(), PARENT_SPAN.to_owned());
    let create = seen.named("tools/call create")[0];
    assert_eq!(place(create), theirs);
    assert_eq!(create.kind, 2, "a server's span");
    assert!(create.start_time_unix_nano < create.end_time_unix_nano);
    assert_eq!(
        serde_json::to_value(attributes(&create.attributes)).unwrap(),
        json!({
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "create",
            "network.transport": "tcp",
            "callboard.actor.kind": "agent",
            "callboard.toolset": "graph",
            "callboard.code": "ok",
        })
    );
    assert_eq!(place(seen.named("tools/call claim")[0]), theirs, "the call's own parent wins");
    // An invalid parent is ignored: both calls begin a trace of their own.
    let gets = seen.named("tools/call get");
    assert_eq!(gets.len(), 2);
    assert!(gets.iter().all(|get| get.parent_span_id.is_empty() && hex(&get.trace_id) != TRACE));
    assert_ne!(gets[0].trace_id, gets[1].trace_id);
    let failed = attributes(&gets[1].attributes);
    assert_eq!(failed["callboard.code"], refused["code"].as_str().unwrap());
    assert_eq!(failed["error.type"], "tool_error");
    assert_eq!(gets[1].status.as_ref().unwrap().code, 2);
    assert!(gets[0].status.is_none());
    let checks = seen.named("check");
    let run = seen.named("tools/call run_checks")[0];
    assert_eq!(place(checks[0]), (TRACE.to_owned(), hex(&run.span_id)));
    assert_eq!(attributes(&checks[0].attributes)["callboard.check.result"], "pass");
    // A tool that does not exist has no name.
    assert_eq!(seen.named("tools/call").len(), 1);
    let page = seen.named("GET /")[0];
    assert_eq!(place(page), theirs);
    let facts = attributes(&page.attributes);
    assert_eq!(
        (facts["http.route"].as_str(), facts["http.response.status_code"].as_str()),
        ("/", "200")
    );
    assert!(seen.named("GET /metrics").is_empty());
    for hidden in [title, "hidden-name", "queries-stay-here", "not_a_tool", "Bearer"] {
        assert!(!seen.has(hidden), "{hidden} was sent");
    }

    let samples = seen.samples();
    let steady =
        ["callboard_mcp_call", "callboard_check_results", "callboard_build", "callboard_tasks"];
    let mut compared = 0;
    for line in scrape.lines().filter(|line| steady.iter().any(|name| line.starts_with(name))) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        if name.contains("_bucket") || name.contains("_sum") {
            continue;
        }
        assert_eq!(samples.get(name), Some(&value.parse().unwrap()), "{name}");
        compared += 1;
    }
    assert!(compared >= 18, "{scrape}");
}

#[test]
fn a_client_over_stdio_is_exported_as_json() {
    let (board, collector) = (board(), Collector::start(StatusCode::OK));
    let mut mcp = command(board.path());
    mcp.args(["mcp", "--actor", "human:hidden-name"]);
    mcp.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/", collector.url));
    mcp.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    let mut peer = Peer::over(mcp);
    peer.hello();
    peer.call("create", json!({"title": "titles-stay-here"})).unwrap();
    let meta = json!({"traceparent": PARENT});
    let list = json!({"name": "list", "arguments": {}, "_meta": meta});
    reply(&peer.request("tools/call", list)).unwrap();
    let closed = Instant::now();
    peer.close_input();
    assert!(peer.child.wait().unwrap().success());
    assert!(closed.elapsed() < END_MAX);
    let seen = collector.seen();
    let list = seen.named("tools/call list")[0];
    assert_eq!(place(list), (TRACE.to_owned(), PARENT_SPAN.to_owned()));
    let create = seen.named("tools/call create")[0];
    assert!(create.parent_span_id.is_empty() && hex(&create.trace_id) != TRACE);
    let facts = attributes(&create.attributes);
    assert_eq!(facts["network.transport"], "pipe");
    assert_eq!(facts["callboard.actor.kind"], "human");
    let samples = seen.samples();
    assert_eq!(samples["callboard_mcp_calls_total{tool=\"create\",code=\"ok\"}"], 1.0);
    assert_eq!(samples["callboard_mcp_call_seconds_count{tool=\"list\"}"], 1.0);
    assert!(!seen.has("titles-stay-here") && !seen.has("hidden-name"));
}

#[test]
fn an_agent_gets_the_span_of_its_run_and_no_key_of_the_collector() {
    let collector = Collector::start(StatusCode::OK);
    let shop = Shop::open(None, "");
    let script =
        format!("cat > /dev/null\ntest $CALLBOARD_ATTEMPT != 1 || env > {:?}\n", shop.at("begun"));
    std::fs::write(shop.at("agent.sh"), script).unwrap();
    let mut boss = shop.server(&[
        FREE,
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=key"),
    ]);
    let task = make(&mut boss);
    submit(&mut boss, &task, "start_agent");
    let variables = std::fs::read_to_string(shop.at("begun")).unwrap();
    boss.close_input();
    assert!(boss.child.wait().unwrap().success());
    let seen = collector.seen();
    let run = seen.named("invoke_agent mine")[0];
    let facts = attributes(&run.attributes);
    assert_eq!(facts["callboard.run.kind"], "work");
    let parent = format!("TRACEPARENT=00-{}-{}-01", hex(&run.trace_id), hex(&run.span_id));
    assert!(variables.lines().any(|line| line == parent), "{parent} in {variables}");
    assert!(!variables.contains("OTEL_"), "{variables}");
}

#[test]
fn without_an_endpoint_no_collector_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let quiet: [&[(&str, &str)]; 3] = [
        &[("OTEL_SERVICE_NAME", "lab"), ("OTEL_TRACES_SAMPLER", "always_on")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("OTEL_SDK_DISABLED", "true")],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ];
    let board = board();
    for variables in quiet {
        let mut server = Server::over(serve_with(board.path(), variables));
        call(&server, "create", json!({"title": "quiet"}), Some(PARENT), Some(PARENT)).unwrap();
        end(&mut server.child);
        let reached = listener.accept().map(|(_, peer): (TcpStream, _)| peer);
        assert_eq!(reached.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{variables:?}");
    }
}

/// Traces that are not sampled are not sent; the caller's choice counts.
#[test]
fn the_sampler_decides_which_traces_are_sent() {
    let (board, collector) = (board(), Collector::start(StatusCode::OK));
    let serve = serve_with(
        board.path(),
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/v1/traces", collector.url)),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ],
    );
    let mut server = Server::over(serve);
    for parent in [None, Some(PARENT), Some(&PARENT.replace("-01", "-00"))] {
        call(&server, "list", json!({}), None, parent.map(|x| x as &str)).unwrap();
    }
    end(&mut server.child);
    let seen = collector.seen();
    assert_eq!(
        seen.spans.iter().map(place).collect::<Vec<_>>(),
        [(TRACE.to_owned(), PARENT_SPAN.to_owned())]
    );
    assert!(seen.metrics.resource_metrics.is_empty(), "metrics have no endpoint");
}

/// A collector that refuses is named once for each signal. One that is silent delays neither calls nor the end.
#[test]
fn a_collector_that_is_down_costs_nothing_but_its_spans() {
    let refusing = Collector::start(StatusCode::SERVICE_UNAVAILABLE);
    // Connections are made by the kernel; no request is ever answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for url in [&refusing.url, &silent_url] {
        let board = board();
        let log = board.path().join("log");
        let mut serve = serve_with(
            board.path(),
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
                ("OTEL_BSP_SCHEDULE_DELAY", "1"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
                ("OTEL_METRIC_EXPORT_INTERVAL", "20"),
            ],
        );
        serve.stderr(std::fs::File::create(&log).unwrap());
        let mut server = Server::over(serve);
        let began = Instant::now();
        // A batch of 10 waits for the collector, 10 more wait in the queue; the rest is dropped and counted.
        for _ in 0..100 {
            call(&server, "list", json!({}), None, None).unwrap();
        }
        // One wait for an answer of the collector would take ten seconds.
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
        let mut scrape = agent().get(format!("{}/metrics", server.url)).call().unwrap();
        let scrape = scrape.body_mut().read_to_string().unwrap();
        let dropped = scrape
            .lines()
            .find_map(|line| line.strip_prefix("callboard_otlp_spans_dropped_total "))
            .expect("dropped spans are counted");
        assert!(dropped.parse::<u32>().unwrap() >= 70, "{dropped}");
        let took = end(&mut server.child);
        assert!(took < END_MAX, "{took:?}");
        let log = std::fs::read_to_string(&log).unwrap();
        let said = log.lines().filter(|line| line.contains("cannot export")).count();
        let wanted = if url == &refusing.url { 2 } else { 0 };
        assert_eq!(said, wanted, "{log}");
    }
}
