//! Limits of one caller on a real server: incomplete requests, slow bodies, wrong tokens, and the calls, streams and
//! sessions of one token.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Body;
use ureq::http::Response;

use crate::http::{Server, agent, answer_of, modern};
use crate::peer::{board, command, reply};
use crate::tokens::token;

/// Far longer than any deadline that a test sets.
const PATIENCE: Duration = Duration::from_secs(20);

fn serve(folder: &Path, settings: &[(&str, &str)]) -> Server {
    let mut serve = command(folder);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).envs(settings.iter().copied());
    serve.stderr(Stdio::null());
    Server::over(serve)
}

fn connect(server: &Server, sends: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sends.as_bytes()).unwrap();
    stream
}

/// The server's output before it closes the connection.
fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("still open after {PATIENCE:?}: {error}"),
        Ok(_) => {}
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn half_requests_are_closed_and_others_are_served_meanwhile() {
    let folder = board();
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_HEAD_TIMEOUT_SEC", "2")]);
    let start = Instant::now();
    let half: Vec<TcpStream> =
        (0..300).map(|_| connect(&server, "GET / HTTP/1.1\r\nHost: lo")).collect();
    let alive = agent().get(format!("{}/livez", server.url)).call().unwrap();
    assert_eq!(alive.status(), 200);
    for stream in half {
        assert_eq!(until_closed(stream), "");
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn a_body_that_never_ends_is_answered_and_closed() {
    let folder = board();
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_BODY_TIMEOUT_SEC", "1")]);
    for path in ["/mcp", "/mcp/execute", "/login"] {
        let kind = match path {
            "/login" => "application/x-www-form-urlencoded",
            _ => "application/json",
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{{"
        );
        let said = until_closed(connect(&server, &head));
        let status = said.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, if path == "/login" { "400" } else { "408" }, "{path}: {said}");
    }
}

#[test]
fn the_oldest_stranger_of_an_address_makes_room() {
    let folder = board();
    token(folder.path(), &["--actor", "human:ana"]);
    let settings = [("CALLBOARD_HTTP_UNAUTHENTICATED_MAX", "3")];
    let server = serve(folder.path(), &settings);
    let strangers: Vec<TcpStream> = (0..4).map(|_| connect(&server, "GET /livez HT")).collect();
    let start = Instant::now();
    let mut strangers = strangers.into_iter();
    assert_eq!(until_closed(strangers.next().unwrap()), "");
    assert!(start.elapsed() < Duration::from_secs(8), "no deadline closed it");
    let mut newest = strangers.next_back().unwrap();
    newest.write_all(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert!(until_closed(newest).starts_with("HTTP/1.1 200"));
}

#[test]
fn an_address_with_many_wrong_tokens_waits_and_good_tokens_do_not() {
    let folder = board();
    let (_, good) = token(folder.path(), &["--actor", "agent:good"]);
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_WRONG_TOKEN_LIMIT", "3")]);
    let ask = |token: &str| {
        let request = agent().get(format!("{}/events?after=x", server.url));
        request.header("Authorization", format!("Bearer {token}")).call().unwrap()
    };
    // The stream's own refusal: the request passed the gate.
    assert_eq!(ask(&good).status(), 400);
    let wrong = |n: usize| format!("{}{n:02}", &good[..good.len() - 2]);
    for _ in 0..5 {
        assert_eq!(ask(&wrong(0)).status(), 401, "one mistake, however often it is repeated");
    }
    assert_eq!([1, 2].map(|n| ask(&wrong(n)).status().as_u16()), [401, 401]);
    let refused = ask(&wrong(3));
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    let form = agent().post(format!("{}/login", server.url));
    assert_eq!(form.send_form([("token", wrong(4))]).unwrap().status(), 429);
    assert_eq!(ask(&good).status(), 400, "a token that opened before opens on");
}

struct Door<'a> {
    server: &'a Server,
    token: &'a str,
}

impl Door<'_> {
    fn send(&self, path: &str, method: &str, mut params: Value) -> Response<Body> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let mut request = modern(&agent(), &format!("{}{path}", self.server.url), method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("Mcp-Name", name);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let bearer = format!("Bearer {}", self.token);
        request.header("Authorization", bearer).send_json(&body).unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        answer_of(&mut self.send("/mcp/graph,board", "tools/call", params)).unwrap()
    }
}

#[test]
fn a_token_has_so_many_long_calls_and_another_token_its_own() {
    let folder = board();
    let (_, one) = token(folder.path(), &["--actor", "agent:one"]);
    let (_, two) = token(folder.path(), &["--actor", "agent:two"]);
    let server = serve(folder.path(), &[("CALLBOARD_MCP_LONG_CALLS_PER_TOKEN", "5")]);
    let [one, two] = [&one, &two].map(|token| Door { server: &server, token });
    let task = reply(&one.call("create", json!({"title": "awaited"}))).unwrap()["id"].clone();
    let wait = json!({"task_id": task, "timeout_seconds": 600});
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let waits: Vec<_> =
            (0..20).map(|_| scope.spawn(|| one.call("tasks_wait", wait.clone()))).collect();
        waits.into_iter().map(|wait| wait.join().unwrap()).collect()
    });
    let (handles, refused): (Vec<&Value>, Vec<&Value>) =
        answers.iter().partition(|answer| answer["result"]["resultType"] == "task");
    assert_eq!((handles.len(), refused.len()), (5, 15), "{answers:?}");
    for answer in refused {
        let said = answer["result"]["structuredContent"].to_string();
        assert!(said.contains("RATE_LIMIT") && said.contains("long_calls_per_token"), "{said}");
    }
    assert_eq!(two.call("tasks_wait", wait.clone())["result"]["resultType"], "task");
    // Short calls are not counted, and an ended call frees its place.
    reply(&one.call("get", json!({"id": task}))).unwrap();
    reply(&two.call("transition", json!({"id": task, "to": "in_progress"}))).unwrap();
    let start = Instant::now();
    while one.call("tasks_wait", wait.clone())["result"]["resultType"] != "task" {
        assert!(start.elapsed() < PATIENCE, "the waits that ended still count");
    }
}

#[test]
fn a_token_has_so_many_streams_and_another_token_its_own() {
    let folder = board();
    let (_, one) = token(folder.path(), &["--actor", "agent:one"]);
    let (_, two) = token(folder.path(), &["--actor", "agent:two"]);
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_STREAMS_PER_TOKEN", "2")]);
    let events = |token: &str| {
        let request = agent().get(format!("{}/events", server.url));
        request.header("Authorization", format!("Bearer {token}")).call().unwrap()
    };
    let listen = || {
        let filter = json!({"notifications": {"toolsListChanged": true}});
        Door { server: &server, token: &one }.send("/mcp", "subscriptions/listen", filter)
    };
    let (first, second) = (events(&one), listen());
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    for mut refused in [events(&one), listen()] {
        assert_eq!(refused.status(), 429);
        let said: Value = refused.body_mut().read_json().unwrap();
        assert_eq!(said["error"]["code"], "TOO_MANY_STREAMS", "{said}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains("http.streams_per_token"), "{message}");
    }
    assert_eq!(events(&two).status(), 200);
    drop(first);
    let start = Instant::now();
    while events(&one).status() != 200 {
        assert!(start.elapsed() < PATIENCE, "the stream that ended still counts");
    }
}

#[test]
fn a_token_has_so_many_sessions_and_another_token_its_own() {
    let folder = board();
    let (_, one) = token(folder.path(), &["--actor", "agent:one"]);
    let (_, two) = token(folder.path(), &["--actor", "agent:two"]);
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_SESSIONS_PER_TOKEN", "2")]);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let open = |token: &str| {
        let request = agent().post(format!("{}/mcp", server.url));
        let request = request.header("Accept", "application/json, text/event-stream");
        request.header("Authorization", format!("Bearer {token}")).send_json(&hello).unwrap()
    };
    assert_eq!([(); 2].map(|()| open(&one).status().as_u16()), [200, 200]);
    let mut refused = open(&one);
    assert_eq!(refused.status(), 429);
    let said: Value = refused.body_mut().read_json().unwrap();
    assert_eq!(said["error"]["code"], "TOO_MANY_SESSIONS", "{said}");
    assert!(said.to_string().contains("http.sessions_per_token"), "{said}");
    assert_eq!(open(&two).status(), 200);
}
