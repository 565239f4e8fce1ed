//! `/metrics` of a real server: the format, exact values after known calls, and no client's text in a label.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http::{Server, agent, call};
use crate::peer::board;
use crate::tokens::token;

/// The content of a scrape: `name{labels}` as written, and its value.
struct Scrape {
    samples: BTreeMap<String, f64>,
    text: String,
}

impl Scrape {
    fn of(server: &Server) -> Self {
        let mut response = agent().get(format!("{}/metrics", server.url)).call().unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        let text = response.body_mut().read_to_string().unwrap();
        Self { samples: parse(&text), text }
    }

    fn value(&self, sample: &str) -> f64 {
        let known = || panic!("no {sample} in\n{}", self.text);
        *self.samples.get(sample).unwrap_or_else(known)
    }

    /// The samples of one name, in order.
    fn family(&self, name: &str) -> Vec<(&str, f64)> {
        let of_name = |sample: &&String| sample.split('{').next() == Some(name);
        let found = self.samples.keys().filter(of_name);
        found.map(|sample| (sample.as_str(), self.samples[sample])).collect()
    }
}

/// Reads the text format line by line and accepts nothing else.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let (mut family, mut kind) = (String::new(), String::new());
    let mut described: Vec<String> = Vec::new();
    assert!(text.ends_with('\n'), "the last line ends too");
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and words");
            assert!(!words.trim().is_empty(), "{line}");
            assert!(!described.iter().any(|known| known == name), "described twice: {line}");
            described.push(name.into());
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, is) = typed.split_once(' ').expect("a name and a type");
            assert_eq!(described.last().map(String::as_str), Some(name), "HELP comes before TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&is), "{line}");
            (family, kind) = (name.into(), is.into());
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a sample and a value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            let name = sample.split('{').next().unwrap();
            let parts: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            let fits = parts.iter().any(|part| name == format!("{family}{part}"));
            assert!(fits, "{line} stands under {family}, a {kind}");
            labels(sample).iter().for_each(|(name, value)| judge_label(name, value));
            assert_eq!(samples.insert(sample.to_owned(), value), None, "twice: {line}");
        }
    }
    samples
}

fn labels(sample: &str) -> Vec<(String, String)> {
    let Some((_, inside)) = sample.split_once('{') else { return Vec::new() };
    let inside = inside.strip_suffix('}').expect("braces close");
    let label = |text: &str| {
        let (name, value) = text.split_once('=').expect("name=value");
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).expect("quotes");
        (name.to_owned(), value.to_owned())
    };
    inside.split(',').map(label).collect()
}

/// Accepts only label values known beforehand.
fn judge_label(name: &str, value: &str) {
    let lower = |value: &str| value.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let known = match name {
        "state" => ["ready", "blocked", "working", "review", "done", "canceled"].contains(&value),
        "result" => ["pass", "fail"].contains(&value),
        "tool" => lower(value) && value.len() < 20,
        "code" => value == "ok" || value.chars().all(|c| c.is_ascii_uppercase() || c == '_'),
        "le" => value == "+Inf" || value.parse::<f64>().is_ok(),
        "version" => value == env!("CARGO_PKG_VERSION"),
        _ => false,
    };
    assert!(known, "a label {name}=\"{value}\"");
}

struct Caller<'a> {
    server: &'a Server,
    calls: Cell<u32>,
}

impl Caller<'_> {
    fn call(&self, who: &str, tool: &str, arguments: Value) -> Result<Value, Value> {
        self.calls.set(self.calls.get() + 1);
        let key = self.calls.get().to_string();
        call(&agent(), &self.server.url, who, tool, &arguments, &key).unwrap()
    }

    fn ok(&self, who: &str, tool: &str, arguments: Value) -> Value {
        self.call(who, tool, arguments).unwrap()
    }

    fn refused(&self, who: &str, tool: &str, arguments: Value) -> String {
        self.call(who, tool, arguments).unwrap_err()["code"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_scrape_says_exactly_what_happened() {
    let board = board();
    let server = Server::start(board.path());
    let caller = Caller { server: &server, calls: Cell::new(0) };
    let checks = json!([
        {"desc": "holds", "cmd": "true"}, {"desc": "does not", "cmd": "false"},
        {"desc": "looked at", "type": "manual"}]);
    let secret = "titles-stay-out-of-labels";
    let a = caller.ok("human:ana", "create", json!({"title": secret, "checks": checks}));
    let a = a["id"].as_str().unwrap();
    let b = caller.ok("human:ana", "create", json!({"title": "b", "deps": [a]}));
    let b = b["id"].as_str().unwrap();
    assert_eq!(caller.refused("human:ana", "create", json!({"title": " "})), "INVALID_INPUT");
    let unknown = caller.call("agent:x", "not_a_tool", json!({})).unwrap_err();
    assert_eq!(unknown["code"], -32602);

    // Two hours ago, so that the wait differs from zero.
    let database =
        rusqlite::Connection::open(board.path().join(".callboard/callboard.db")).unwrap();
    let earlier = "UPDATE tasks SET created_at = created_at - 7200000000";
    database.execute(earlier, []).unwrap();
    let begin = |actor: &str| json!({"id": a, "expected_actor": actor, "idempotency_key": "k"});
    caller.ok("agent:w1", "begin", begin("agent:w1"));
    assert_eq!(caller.refused("agent:w2", "begin", begin("agent:w2")), "ALREADY_CLAIMED");
    assert_eq!(caller.refused("agent:w2", "claim", json!({"id": a})), "ALREADY_CLAIMED");
    caller.ok("agent:w1", "run_checks", json!({"id": a}));
    caller.ok("human:ana", "attest", json!({"id": a, "index": 2}));

    // An expired lease ends when another actor claims the task.
    let lease = "UPDATE attempts SET kind = 'execution', lease_s = 60, lease_expires_at = 1";
    database.execute(lease, []).unwrap();
    caller.ok("agent:w2", "claim", json!({"id": a}));

    let seen = Scrape::of(&server);
    let state = |state: &str| seen.value(&format!("callboard_tasks{{state=\"{state}\"}}"));
    assert_eq!((state("ready"), state("blocked")), (1.0, 1.0));
    let others = ["working", "review", "done", "canceled"].map(state);
    assert_eq!(others, [0.0; 4], "the lease was over, so nobody works");
    assert_eq!(
        seen.family("callboard_mcp_calls_total"),
        [
            ("callboard_mcp_calls_total{tool=\"attest\",code=\"ok\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"begin\",code=\"ALREADY_CLAIMED\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"begin\",code=\"ok\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"claim\",code=\"ALREADY_CLAIMED\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"claim\",code=\"ok\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"create\",code=\"INVALID_INPUT\"}", 1.0),
            ("callboard_mcp_calls_total{tool=\"create\",code=\"ok\"}", 2.0),
            ("callboard_mcp_calls_total{tool=\"run_checks\",code=\"ok\"}", 1.0),
        ]
    );
    assert_eq!(seen.value("callboard_mcp_call_seconds_count{tool=\"create\"}"), 3.0);
    assert_eq!(seen.value("callboard_check_results_total{result=\"pass\"}"), 2.0);
    assert_eq!(seen.value("callboard_check_results_total{result=\"fail\"}"), 1.0);
    assert_eq!(seen.value("callboard_claim_conflicts_total"), 2.0);
    assert_eq!(seen.value("callboard_lease_expiries_total"), 1.0);
    assert_eq!(seen.value("callboard_queue_wait_seconds_count"), 2.0);
    for (le, waits) in [("1", 1.0), ("3600", 1.0), ("14400", 2.0), ("+Inf", 2.0)] {
        let bucket = format!("callboard_queue_wait_seconds_bucket{{le=\"{le}\"}}");
        assert_eq!(seen.value(&bucket), waits, "{bucket}");
    }
    // Two creates, a begin, a run of checks, an attestation and a claim wrote rows.
    assert_eq!(seen.value("callboard_store_commits_total"), 6.0);
    assert_eq!(seen.value("callboard_store_batch_size_sum"), 6.0);
    assert_eq!(seen.value("callboard_http_sessions"), 0.0);
    assert_eq!(seen.value("callboard_sse_streams"), 0.0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(seen.value(&format!("callboard_build_info{{version=\"{version}\"}}")), 1.0);
    for sent in [a, b, secret, "not_a_tool", "agent:", "human:", "ses_"] {
        assert!(!seen.text.contains(sent), "{sent} in\n{}", seen.text);
    }
}

#[test]
fn sessions_and_streams_are_counted_while_they_are_open() {
    let board = board();
    let server = Server::start(board.path());
    let url = format!("{}/mcp", server.url);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let both = "application/json, text/event-stream";
    let opened = agent().post(&url).header("Accept", both).send_json(&hello).unwrap();
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let stream = agent()
        .get(&url)
        .header("Accept", "text/event-stream")
        .header("Mcp-Session-Id", &session)
        .call()
        .unwrap();
    assert_eq!(stream.status().as_u16(), 200);
    let open = Scrape::of(&server);
    assert_eq!(open.value("callboard_http_sessions"), 1.0);
    assert_eq!(open.value("callboard_sse_streams"), 1.0);
    let ended = agent().delete(&url).header("Mcp-Session-Id", &session).call().unwrap();
    assert_eq!(ended.status().as_u16(), 204);
    assert_eq!(Scrape::of(&server).value("callboard_http_sessions"), 0.0);
    drop(stream);
    while Scrape::of(&server).value("callboard_sse_streams") > 0.0 {}
}

#[test]
fn strangers_read_no_metrics() {
    let board = board();
    let server = Server::start(board.path());
    let url = format!("{}/metrics", server.url);
    let status = |name: &str, value: &str| {
        agent().get(&url).header(name, value).call().unwrap().status().as_u16()
    };
    assert_eq!(status("Accept", "*/*"), 200);
    assert_eq!(status("Host", "evil.example"), 403);
    assert_eq!(status("Origin", "http://evil.example"), 403);
    assert_eq!(agent().post(&url).send_empty().unwrap().status().as_u16(), 405);
}

#[test]
fn once_there_are_tokens_a_scrape_needs_one_with_its_own_scope() {
    let board = board();
    let server = Server::start(board.path());
    let url = format!("{}/metrics", server.url);
    assert_eq!(agent().get(&url).call().unwrap().status(), 200);
    let (_, worker) = token(board.path(), &["--actor", "agent:worker"]);
    let admin = ["--actor", "agent:ops", "--org", "rivals", "--lane", "kagan_admin"];
    let (_, admin) = token(board.path(), &admin);
    let scope = ["--actor", "agent:prometheus", "--scopes", "metrics:read"];
    let (_, prometheus) = token(board.path(), &scope);
    let refused = agent().get(&url).call().unwrap();
    assert_eq!(refused.status(), 401);
    assert!(refused.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer "));
    let bearer = |token: &str| {
        let asked = agent().get(&url).header("Authorization", format!("Bearer {token}"));
        asked.call().unwrap().status().as_u16()
    };
    assert_eq!((bearer(&prometheus), bearer("nonsense")), (200, 401));
    // The counts cover every org.
    assert_eq!((bearer(&worker), bearer(&admin)), (403, 403));
    let page = agent().get(format!("{}/", server.url));
    let page = page.header("Authorization", format!("Bearer {prometheus}")).call().unwrap();
    assert_eq!(page.status(), 403, "its token opens nothing else");
}
