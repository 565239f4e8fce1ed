//! `callboard serve` in a separate process, and requests to it. The tests between hosts use this file too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Body, RequestBuilder};

use crate::peer::{command, reply};

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
