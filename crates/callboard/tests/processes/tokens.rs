//! Admission over HTTP by token, and the log's lines about refused callers.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Body;
use ureq::http::Response;

use crate::http::{Server, agent, answer_of, modern};
use crate::peer::{board, command, reply};

pub struct Door {
    pub server: Server,
    pub folder: tempfile::TempDir,
}

/// A server with a recorded log, and the board it serves.
pub fn door(settings: &[(&str, &str)]) -> Door {
    let folder = board();
    let mut serve = command(folder.path());
    serve.args(["serve", "--listen", "127.0.0.1:0"]).envs(settings.iter().copied());
    serve.stderr(File::create(folder.path().join("log")).unwrap());
    Door { server: Server::over(serve), folder }
}

/// Id and text of a new token.
pub fn token(folder: &Path, flags: &[&str]) -> (String, String) {
    let made = run(folder, &[&["token", "add"], flags].concat());
    (made["id"].as_str().unwrap().into(), made["token"].as_str().unwrap().into())
}

fn run(folder: &Path, arguments: &[&str]) -> Value {
    let output = command(folder).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

impl Door {
    pub fn send(&self, path: &str, token: &str, method: &str, params: Value) -> Response<Body> {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let mut request = modern(&agent(), &format!("{}{path}", self.server.url), method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("Mcp-Name", name);
        }
        if !token.is_empty() {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        request.send_json(&body).unwrap()
    }

    pub fn call(&self, token: &str, tool: &str, arguments: Value) -> Result<Value, Value> {
        self.call_at("/mcp", token, tool, arguments)
    }

    pub fn call_at(
        &self,
        path: &str,
        token: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, Value> {
        let params = json!({"name": tool, "arguments": arguments});
        reply(&answer_of(&mut self.send(path, token, "tools/call", params)).unwrap())
    }

    pub fn status(&self, path: &str, token: &str) -> u16 {
        self.send(path, token, "tools/list", json!({})).status().as_u16()
    }

    /// The names of the tools that a token sees.
    pub fn tools(&self, path: &str, token: &str) -> Vec<String> {
        let answer = answer_of(&mut self.send(path, token, "tools/list", json!({}))).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Polls until the answer has this status, at most three seconds.
    fn soon(&self, token: &str, status: u16) {
        let start = Instant::now();
        while self.status("/mcp", token) != status {
            assert!(start.elapsed() < Duration::from_secs(3), "not {status} after three seconds");
        }
    }
}

#[test]
fn each_wrong_token_is_refused_and_logged_without_itself() {
    let door = door(&[]);
    let folder = door.folder.path();
    assert_eq!(door.status("/mcp", ""), 200, "without tokens the local user is let in");

    let (_, good) = token(folder, &["--actor", "agent:good"]);
    assert_eq!(door.status("/mcp", &good), 200);
    let missing = door.send("/mcp", "", "tools/list", json!({}));
    assert_eq!(missing.status(), 401);
    let challenge = missing.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", door.server.url);
    assert_eq!(challenge, format!("Bearer resource_metadata=\"{metadata}\""));
    let document: Value = agent().get(metadata).call().unwrap().body_mut().read_json().unwrap();
    assert_eq!(document["resource"], format!("{}/mcp", door.server.url));
    assert_eq!(document["scopes_supported"][0], "tasks:read");
    for open in ["/livez", "/readyz"] {
        let url = format!("{}{open}", door.server.url);
        assert_eq!(agent().get(url).call().unwrap().status(), 200, "{open}");
    }

    let other_end = if good.ends_with('x') { 'y' } else { 'x' };
    let wrong = format!("{}{other_end}", &good[..good.len() - 1]);
    let (_, expired) = token(folder, &["--actor", "agent:late", "--expires-in", "1ms"]);
    let (id, revoked) = token(folder, &["--actor", "agent:gone"]);
    assert_eq!(door.status("/mcp", &revoked), 200);
    run(folder, &["token", "revoke", &id]);
    door.soon(&revoked, 401);
    for (shown, says) in [
        (&wrong, "the token is not known here"),
        (&"nonsense".to_owned(), "the token is not known here"),
        (&expired, "the token has expired"),
        (&revoked, "the token was revoked"),
    ] {
        let mut refused = door.send("/mcp", shown, "tools/list", json!({}));
        assert_eq!(refused.status(), 401, "{says}");
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(challenge.contains("invalid_token") && challenge.contains(says), "{challenge}");
        let body: Value = refused.body_mut().read_json().unwrap();
        match says {
            "the token is not known here" => assert_eq!(body["error"]["code"], "UNAUTHENTICATED"),
            _ => assert_eq!(body["error"]["data"]["code"], "AUTH_STALE_TOKEN", "{body}"),
        }
    }

    let (_, narrow) = token(folder, &["--actor", "agent:narrow", "--scopes", "tasks:read"]);
    let (_, foreign) = token(folder, &["--actor", "agent:good", "--org", "rivals"]);
    let (_, other) = token(folder, &["--actor", "agent:other"]);
    let task = door.call(&good, "create", json!({"title": "ours"})).unwrap();
    let task = json!({"id": task["id"]});
    let seen = door.tools("/mcp", &narrow);
    assert!(seen.contains(&"get".to_owned()) && !seen.contains(&"claim".to_owned()), "{seen:?}");
    assert_eq!(door.call(&narrow, "get", task.clone()).unwrap()["title"], "ours");
    let denied = door.call(&narrow, "claim", task.clone()).unwrap_err();
    assert_eq!(denied["code"], "AUTHORIZATION_DENIED");
    assert!(denied["message"].as_str().unwrap().contains("tasks:write"), "{denied}");
    let elsewhere = door.call(&foreign, "get", task.clone()).unwrap_err();
    assert_eq!(elsewhere["code"], "TASK_NOT_FOUND");
    assert_eq!(door.call(&foreign, "list", json!({})).unwrap()["tasks"], json!([]));
    assert_eq!(door.call(&good, "claim", task.clone()).unwrap()["assignee"], "agent:good");
    let held = door.call(&other, "release", task).unwrap_err();
    assert_eq!(held["code"], "ALREADY_CLAIMED");

    // The first task of an org creates its project; no other org sees it.
    let theirs = door.call(&foreign, "create", json!({"title": "theirs"})).unwrap();
    let theirs = theirs["id"].as_str().unwrap();
    assert!(theirs.starts_with("TASK-"), "{theirs}");
    assert_eq!(
        door.call(&good, "get", json!({"id": theirs})).unwrap_err()["code"],
        "TASK_NOT_FOUND"
    );
    assert_eq!(door.call(&foreign, "list", json!({})).unwrap()["tasks"][0]["id"], theirs);

    // The actor is the token's, whatever the address says.
    let params = json!({"name": "identity", "arguments": {}});
    let mut who = door.send("/mcp?actor=human:boss", &good, "tools/call", params);
    assert_eq!(reply(&answer_of(&mut who).unwrap()).unwrap()["actor"], "agent:good");

    let log = door.log();
    for reason in [
        "this server needs a token",
        "the token is not known here",
        "the token has expired",
        "the token was revoked",
        "AUTHORIZATION_DENIED",
        "TASK_NOT_FOUND",
        "ALREADY_CLAIMED",
    ] {
        assert!(log.contains(reason), "the log lacks {reason}:\n{log}");
    }
    for secret in [&good, &wrong, &expired, &revoked, &narrow, &foreign, &other] {
        let (_, secret) = secret.rsplit_once('_').unwrap();
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

/// A refused client has often sent its next request before the connection could end.
#[test]
fn a_connection_outlives_a_refusal() {
    let door = door(&[]);
    token(door.folder.path(), &["--actor", "human:ana"]);
    let (agent, url) = (agent(), format!("{}/mcp", door.server.url));
    for length in (0..200).map(|n| n * 1000) {
        let refused = modern(&agent, &url, "tools/list").send("x".repeat(length));
        let mut refused = refused.unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        assert_eq!(refused.status(), 401);
        refused.body_mut().read_to_string().unwrap();
    }
}

#[test]
fn a_token_speaks_its_toolsets_and_no_others() {
    let door = door(&[]);
    let (_, graph) = token(door.folder.path(), &["--actor", "agent:g", "--toolsets", "graph"]);
    let (_, any) = token(door.folder.path(), &["--actor", "agent:a"]);
    assert_eq!(door.tools("/mcp", &graph), door.tools("/mcp/graph", &any));
    assert_eq!(door.tools("/mcp/all", &graph), door.tools("/mcp/graph", &graph));
    assert_eq!(door.status("/mcp/board", &graph), 403);
}

#[test]
fn a_token_that_asks_too_often_waits() {
    let door = door(&[("CALLBOARD_HTTP_RATE_LIMIT", "3")]);
    let (_, eager) = token(door.folder.path(), &["--actor", "agent:eager"]);
    let (_, calm) = token(door.folder.path(), &["--actor", "agent:calm"]);
    for _ in 0..3 {
        assert_eq!(door.status("/mcp", &eager), 200);
    }
    let refused = door.send("/mcp", &eager, "tools/list", json!({}));
    assert_eq!(refused.status(), 429);
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait}");
    assert_eq!(door.status("/mcp", &calm), 200);
}

#[test]
fn a_public_address_needs_a_token() {
    let folder = board();
    let serve = |folder: &Path| {
        let mut serve = command(folder);
        serve.args(["serve", "--listen", "0.0.0.0:0"]);
        serve
    };
    let refused = serve(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("error[TOKENS_NEEDED]"));
    token(folder.path(), &["--actor", "human:ana"]);
    let mut open = serve(folder.path());
    open.stderr(std::process::Stdio::null());
    assert!(Server::over(open).url.starts_with("http://0.0.0.0:"));
}

#[test]
fn the_page_asks_for_a_token_once() {
    let door = door(&[("CALLBOARD_HTTP_PUBLIC_URL", "https://board.example")]);
    let (id, good) = token(door.folder.path(), &["--actor", "human:ana"]);
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
    let page = |path: &str, cookie: &str| {
        let url = format!("{}{path}", door.server.url);
        let mut page =
            agent.get(url).header("Accept", "text/html").header("Cookie", cookie).call().unwrap();
        (page.status().as_u16(), page.body_mut().read_to_string().unwrap())
    };
    let (status, form) = page("/tasks/P-1?x=y", "");
    assert_eq!(status, 401);
    assert!(form.contains("name=\"token\"") && form.contains("value=\"/tasks/P-1\""), "{form}");
    let login = |token: &str, next: &str| {
        let form = [("token", token), ("next", next)];
        agent.post(format!("{}/login", door.server.url)).send_form(form).unwrap()
    };
    assert_eq!(login("cb_wrong", "/").status(), 401);
    for (next, to) in [
        ("/tasks/P-1", "/tasks/P-1"),
        ("//evil.example", "/"),
        ("https://x", "/"),
        // Browsers drop tabs and line ends, which makes each of these `//evil.example`.
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        ("/\r/evil.example", "/"),
    ] {
        let entered = login(&good, next);
        assert_eq!(entered.status(), 303);
        assert_eq!(entered.headers()["location"], to);
    }
    let cookie = login(&good, "/").headers()["set-cookie"].to_str().unwrap().to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains(&good), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let (status, tasks) = page("/", cookie);
    assert_eq!(status, 200);
    assert!(tasks.contains("human:ana") && tasks.contains("Sign out"), "{tasks}");
    // The browser's cookie opens no route for agents.
    let mcp = agent.post(format!("{}/mcp", door.server.url)).header("Cookie", cookie);
    assert_eq!(mcp.send_json(json!({})).unwrap().status(), 401);
    run(door.folder.path(), &["token", "revoke", &id]);
    door.soon(&good, 401);
    assert_eq!(page("/", cookie).0, 401);
}

#[test]
fn a_stream_ends_with_its_token() {
    let door = door(&[]);
    let (id, token) = token(door.folder.path(), &["--actor", "agent:listener"]);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let stream = door.send("/mcp", &token, "subscriptions/listen", filter);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut stream = stream.into_body().into_reader();
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    let start = Instant::now();
    run(door.folder.path(), &["token", "revoke", &id]);
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "it flowed on");
}
