//! `callboard serve` in a separate process, and requests to it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Body, RequestBuilder};

use crate::peer::{board, command, reply};

pub struct Server {
    pub child: Child,
    pub url: String,
}

impl Server {
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub fn start_with(folder: &Path, global: &[&str]) -> Self {
        let mut serve = command(folder);
        serve.args(global).args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
        Self::over(serve)
    }

    pub fn over(mut serve: Command) -> Self {
        let mut child = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("a first line").unwrap();
        let start = line.find("http://").expect("the URL in it");
        let url = line[start..].split_whitespace().next().unwrap().trim_end_matches('/').to_owned();
        // Keeps reading, so that the server never blocks on its output.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// One tool call of the modern era; `None` when the server went away before it answered.
pub fn call(
    agent: &ureq::Agent,
    url: &str,
    actor: &str,
    tool: &str,
    arguments: &Value,
    retry_key: &str,
) -> Option<Result<Value, Value>> {
    call_at(agent, &format!("{url}/mcp?actor={actor}"), tool, arguments, retry_key)
}

/// A call at an address with a path and a query. An empty retry key is not sent.
pub fn call_at(
    agent: &ureq::Agent,
    url: &str,
    tool: &str,
    arguments: &Value,
    retry_key: &str,
) -> Option<Result<Value, Value>> {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    if !retry_key.is_empty() {
        meta["callboard/idempotencyKey"] = retry_key.into();
    }
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut response =
        modern(agent, url, "tools/call").header("Mcp-Name", tool).send_json(&body).ok()?;
    answer_of(&mut response).map(|answer| reply(&answer))
}

/// A request of the modern era without its body.
pub fn modern(agent: &ureq::Agent, url: &str, method: &str) -> RequestBuilder<WithBody> {
    agent
        .post(url)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method)
}

pub fn answer_of(response: &mut Response<Body>) -> Option<Value> {
    let text = response.body_mut().read_to_string().ok()?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str(line).ok()
}

#[test]
fn strangers_are_turned_away_at_the_door() {
    let board = board();
    let server = Server::start(board.path());
    let status = |path: &str, header: (&str, &str)| {
        let request = agent().get(format!("{}{path}", server.url)).header(header.0, header.1);
        request.call().unwrap().status().as_u16()
    };
    assert_eq!(status("/", ("Accept", "text/html")), 200);
    assert_eq!(status("/", ("Host", "evil.example")), 403);
    assert_eq!(status("/mcp", ("Host", "evil.example")), 403);
    assert_eq!(status("/", ("Origin", "http://evil.example")), 403);
    assert_eq!(status("/livez", ("Accept", "*/*")), 200);
    assert_eq!(status("/readyz", ("Accept", "*/*")), 200);
    assert_eq!(status("/mcp/nonsense", ("Accept", "*/*")), 404);
    assert_eq!(status("/mcp?actor=nobody", ("Accept", "*/*")), 400);
}

#[test]
fn a_body_that_is_too_large_is_refused_and_the_server_lives() {
    let board = board();
    let server = Server::start(board.path());
    let huge = vec![b'x'; 5 * 1024 * 1024];
    let response = agent()
        .post(format!("{}/mcp", server.url))
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .send(&huge[..]);
    assert_eq!(response.unwrap().status().as_u16(), 413);
    let created =
        call(&agent(), &server.url, "human:ana", "create", &json!({"title": "alive"}), "k")
            .unwrap();
    assert_eq!(created.unwrap()["title"], "alive");
}

#[test]
fn the_actor_of_a_request_is_its_parameter() {
    let board = board();
    let server = Server::start(board.path());
    let who = call(&agent(), &server.url, "agent:x", "identity", &json!({}), "").unwrap().unwrap();
    assert_eq!(who["actor"], "agent:x");
    assert_eq!(who["client"], "test");
}

#[test]
fn a_terminated_server_ends_in_order() {
    let board = board();
    let mut server = Server::start(board.path());
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}
