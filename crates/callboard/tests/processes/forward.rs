//! `callboard mcp --server`: an agent that speaks only over pipes, on the board of a server. No store is opened and no
//! project is needed.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::http::Server;
use crate::peer::{Peer, board, command};
use crate::tokens::token;

/// A folder without a project, from which a server is called.
struct Elsewhere {
    folder: tempfile::TempDir,
    url: String,
}

impl Elsewhere {
    fn to(server: &Server) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url: server.url.clone() }
    }

    fn token_file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("token");
        let mut file = fs::OpenOptions::new();
        let mut file =
            file.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, format!("{text}\n").as_bytes()).unwrap();
        path
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = command(self.folder.path());
        command.args([verb, "--server", &self.url]);
        command
    }

    fn mcp(&self, token: &Path) -> Command {
        let mut mcp = self.command("mcp");
        mcp.arg("--token-file").arg(token);
        mcp
    }

    fn peer(&self, token: &Path) -> Peer {
        let mut peer = Peer::over(self.mcp(token));
        peer.hello();
        peer
    }
}

/// The output of a command for these lines, until its input ends.
fn said(mut command: Command, lines: &[Value]) -> (Vec<Value>, Output) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        std::io::Write::write_all(&mut input, format!("{line}\n").as_bytes()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).expect("JSON alone")).collect(), output)
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

#[test]
fn a_task_goes_from_create_to_finish_through_a_server() {
    let board = board();
    let (_, secret) = token(board.path(), &["--actor", "agent:far"]);
    let server = Server::start(board.path());
    let elsewhere = Elsewhere::to(&server);
    let mut far = elsewhere.peer(&elsewhere.token_file(&secret));
    assert_eq!(far.call("identity", json!({})).unwrap()["actor"], "agent:far");
    let tools = far.request("tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().len() > 10, "{tools}");
    let one = far.create(json!({"title": "One", "checks": [{"desc": "it runs", "cmd": "true"}]}));
    far.call("claim", json!({"id": one})).unwrap();
    let begin = json!({"id": one, "expected_actor": "agent:far", "idempotency_key": "k"});
    let session = far.call("begin", begin).unwrap()["id"].clone();
    far.call("heartbeat", json!({"session": session})).unwrap();
    let checked = far.call("run_checks", json!({"id": one})).unwrap();
    assert_eq!(checked["checks"][0]["result"], "pass", "{checked}");
    far.call("finish", json!({"session": session, "summary": "It runs."})).unwrap();
    let done = far.call("transition", json!({"id": one, "to": "done"})).unwrap();
    assert_eq!(done["status"], "done", "{done}");
    let no = far.call("get", json!({"id": "P-99"})).unwrap_err();
    assert_eq!(no["code"], "TASK_NOT_FOUND", "{no}");
    let bad = far.request("no/such", json!({}));
    assert_eq!(bad["error"]["code"], -32601, "{bad}");
    far.close_input();
    assert!(far.child.wait().unwrap().success());
    assert_eq!(fs::read_dir(elsewhere.folder.path()).unwrap().count(), 1, "only the token");
}

#[test]
fn changes_are_heard_through_a_server() {
    let board = board();
    let server = Server::start(board.path());
    let elsewhere = Elsewhere::to(&server);
    let mut far = Peer::over(elsewhere.command("mcp"));
    far.hello();
    let uri = format!("callboard://tasks/{}", far.create(json!({"title": "One"})));
    let heard = far.request("resources/subscribe", json!({ "uri": uri }));
    assert_eq!(heard["result"], json!({}), "{heard}");
    let id = uri.rsplit_once('/').unwrap().1;
    let mut near = Peer::start(board.path(), "agent:near");
    near.call("claim", json!({ "id": id })).unwrap();
    let note = loop {
        let note = far.next_note();
        if note["method"] == "notifications/resources/updated" {
            break note;
        }
    };
    assert_eq!(note["params"]["uri"], uri);
}

/// The modern era has no sessions, and hanging up cancels a request.
#[test]
fn a_wait_of_the_modern_era_is_cancelled_through_a_server() {
    let board = board();
    let mut serve = command(board.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--lane", "admin"]).stderr(Stdio::null());
    let server = Server::over(serve);
    let elsewhere = Elsewhere::to(&server);
    let mut mcp = elsewhere.command("mcp");
    mcp.args(["--toolsets", "board"]);
    let mut far = Peer::over(mcp);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let call =
        |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments, "_meta": meta});
    let made = far.request("tools/call", call("tasks_create", json!({"title": "One"})));
    let id = made["result"]["structuredContent"]["task_id"].clone();
    let wait = call("tasks_wait", json!({"task_id": id, "timeout_seconds": 300}));
    let waits = far.start_request("tools/call", wait);
    let cancel = json!({"requestId": waits});
    far.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    let shown = far.request("tools/call", call("get_task", json!({"task_id": id})));
    assert_eq!(shown["result"]["structuredContent"]["title"], "One", "{shown}");
    assert!(far.notes.is_empty(), "{:?}", far.notes);
    far.close_input();
    assert!(far.child.wait().unwrap().success(), "nothing is waited for");
}

#[test]
fn a_wrong_token_is_refused_in_one_sentence() {
    let board = board();
    let (id, good) = token(board.path(), &["--actor", "agent:far"]);
    let server = Server::start(board.path());
    let elsewhere = Elsewhere::to(&server);
    let wrong =
        format!("{}{}", &good[..good.len() - 1], if good.ends_with('x') { 'y' } else { 'x' });
    let (lines, ended) = said(elsewhere.mcp(&elsewhere.token_file(&wrong)), &[initialize()]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["id"], 1);
    assert_eq!(lines[0]["error"]["data"]["code"], "UNAUTHENTICATED", "{lines:?}");
    let words =
        format!("the server at {} refused the token: the token is not known here", server.url);
    assert_eq!(lines[0]["error"]["message"], words);
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let shown = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(shown.contains(&words) && !shown.contains(&wrong), "{shown}");

    let mut none = elsewhere.command("mcp");
    none.env("CALLBOARD_TOKEN", "");
    let (lines, _) = said(none, &[initialize()]);
    let words = lines[0]["error"]["message"].as_str().unwrap();
    assert!(words.contains("this server needs a token"), "{words}");

    let mut far = elsewhere.peer(&elsewhere.token_file(&good));
    let revoked = command(board.path()).args(["token", "revoke", &id]).output().unwrap();
    assert!(revoked.status.success());
    let no = loop {
        let answer = far.request("tools/call", json!({"name": "identity", "arguments": {}}));
        if let Some(words) = answer["error"]["message"].as_str() {
            break words.to_owned();
        }
    };
    assert!(no.contains("revoked"), "{no}");
    assert_eq!(far.child.wait().unwrap().code(), Some(4), "it ends by itself");
}

#[test]
fn a_server_that_is_away_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let elsewhere = Elsewhere { folder: tempfile::tempdir().unwrap(), url: url.clone() };
    let (lines, ended) = said(elsewhere.command("mcp"), &[initialize()]);
    let words = lines[0]["error"]["message"].as_str().unwrap();
    assert!(words.starts_with(&format!("cannot reach the server at {url}: ")), "{words}");
    assert_eq!(lines[0]["error"]["data"]["retryable"], true);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let mut call = elsewhere.command("call");
    let called = call.arg("identity").output().unwrap();
    assert_eq!(called.status.code(), Some(7), "{called:?}");
}

#[test]
fn rights_and_a_server_do_not_go_together() {
    let elsewhere =
        Elsewhere { folder: tempfile::tempdir().unwrap(), url: "http://127.0.0.1:1".into() };
    for flags in [&["--profile", "viewer"][..], &["--task", "P-1"], &["--scopes", "tasks:read"]] {
        let (_, ended) = said(
            {
                let mut mcp = elsewhere.command("mcp");
                mcp.args(flags);
                mcp
            },
            &[],
        );
        assert_eq!(ended.status.code(), Some(2), "{flags:?}: {ended:?}");
    }
}

#[test]
fn one_call_goes_through_a_server_too() {
    let board = board();
    let (_, secret) = token(board.path(), &["--actor", "agent:far"]);
    let server = Server::start(board.path());
    let elsewhere = Elsewhere::to(&server);
    let call = |arguments: &[&str]| {
        let mut call = command(elsewhere.folder.path());
        call.arg("call").args(arguments).env("CALLBOARD_SERVER", &server.url);
        call.env("CALLBOARD_TOKEN", &secret).output().unwrap()
    };
    let made = call(&["create", r#"{"title": "One"}"#]);
    assert!(made.status.success(), "{made:?}");
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(made["title"], "One");
    let missing = call(&["get", r#"{"id": "P-99"}"#]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    let unknown = call(&["no_such_tool"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}
