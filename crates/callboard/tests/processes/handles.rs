//! Long calls of clients with the tasks extension: a handle comes instead of the answer, and any process answers for
//! it. On both stores, over both transports.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http::{Server, agent, answer_of, modern};
use crate::peer::{Peer, board, command, is_running, reply, until_exists};
use crate::schema::Schema;
use crate::tokens::token;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Runs until the test releases it.
const WAITS: &str = "echo 1 > started; until test -e go; do sleep 0.02; done";
/// Runs until it is ended, with a child of its own.
pub const HANGS: &str = "sleep 600 & echo $! > child.pid; wait";

/// A board, in a file of its own or in PostgreSQL.
pub struct Shop {
    folder: tempfile::TempDir,
    schema: Option<Schema>,
}

pub fn shops() -> Vec<Shop> {
    let file = Shop { folder: board(), schema: None };
    let shared = Schema::new().map(|schema| Shop { folder: board(), schema: Some(schema) });
    [Some(file), shared].into_iter().flatten().collect()
}

/// Runs a slow test on all stores concurrently.
fn side_by_side(test: impl Fn(&Shop) + Sync) {
    std::thread::scope(|scope| {
        for shop in shops() {
            let test = &test;
            scope.spawn(move || test(&shop));
        }
    });
}

impl Shop {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn store(&self) -> Vec<&str> {
        self.schema.iter().flat_map(|schema| ["--store", schema.url()]).collect()
    }

    fn http(&self, actor: &str) -> Client {
        self.http_at(&format!("/mcp?actor={actor}"))
    }

    pub fn http_at(&self, path: &str) -> Client {
        let server = Server::start_with(self.path(), &self.store());
        let url = format!("{}{path}", server.url);
        Client { way: Way::Http { server, url, token: None }, extensions: true }
    }

    fn stdio(&self, actor: &str) -> Client {
        self.stdio_with(&["--actor", actor], &[])
    }

    pub fn stdio_with(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Client {
        let mut mcp = command(self.path());
        mcp.args(self.store()).arg("mcp").args(arguments).envs(settings.iter().copied());
        Client { way: Way::Stdio(Box::new(Peer::over(mcp))), extensions: true }
    }

    fn child(&self) -> String {
        let path = self.path().join("child.pid");
        until_exists(&path);
        std::fs::read_to_string(path).unwrap()
    }
}

/// A client of the modern era with a server process of its own.
pub struct Client {
    way: Way,
    extensions: bool,
}

enum Way {
    Http { server: Server, url: String, token: Option<String> },
    Stdio(Box<Peer>),
}

impl Client {
    /// A client with the tasks extension of a server that needs a token.
    pub fn over(server: Server, token: String) -> Self {
        let url = format!("{}/mcp", server.url);
        Self { way: Way::Http { server, url, token: Some(token) }, extensions: true }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut params = params;
        let extensions = if self.extensions { json!({ EXTENSION: {} }) } else { json!({}) };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        match &mut self.way {
            Way::Stdio(peer) => peer.request(method, params),
            Way::Http { url, token, .. } => {
                let name = params.get("name").or(params.get("taskId"));
                let name = name.and_then(Value::as_str).unwrap_or_default();
                let mut request = modern(&agent(), url, method).header("Mcp-Name", name);
                if let Some(token) = token {
                    request = request.header("Authorization", format!("Bearer {token}"));
                }
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                answer_of(&mut request.send_json(&body).unwrap()).unwrap()
            }
        }
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn create(&mut self, cmd: &str) -> String {
        let checks = json!([{"desc": "it", "cmd": cmd}]);
        let made = self.call("create", json!({"title": "slow", "checks": checks}));
        reply(&made).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// The id of the handle that a call got.
    pub fn handle(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_eq!(result["resultType"], "task", "{answer}");
        assert_eq!(result["status"], "working");
        assert_eq!(result["pollIntervalMs"], 2000);
        assert_eq!(result["ttlMs"], 86_400_000);
        let id = result["taskId"].as_str().unwrap();
        assert!(id.starts_with("call_"), "{id}");
        id.to_owned()
    }

    pub fn about(&mut self, method: &str, id: &str) -> Value {
        let answers = json!({"taskId": id, "inputResponses": {"nobody": "asked"}});
        self.ask(method, if method == "tasks/update" { answers } else { json!({"taskId": id}) })
    }

    pub fn get(&mut self, id: &str) -> Value {
        let answer = self.about("tasks/get", id);
        assert_eq!(answer["result"]["taskId"], id, "{answer}");
        answer["result"].clone()
    }

    /// Polls until the call is over.
    pub fn end_of(&mut self, id: &str) -> Value {
        loop {
            let seen = self.get(id);
            if seen["status"] != "working" {
                return seen;
            }
            look_away();
        }
    }

    pub fn process(&mut self) -> &mut std::process::Child {
        match &mut self.way {
            Way::Http { server, .. } => &mut server.child,
            Way::Stdio(peer) => &mut peer.child,
        }
    }
}

/// Pauses between two polls, so that others may use the machine.
pub fn look_away() {
    assert!(Command::new("sleep").arg("0.05").status().unwrap().success());
}

pub fn until_gone(process: &str) {
    while is_running(process) {
        look_away();
    }
}

/// One process calls, the other answers for it; in both directions.
fn a_handle_is_answered_for_by(shop: &Shop, caller: &mut Client, other: &mut Client) {
    let task = caller.create(WAITS);
    let id = caller.handle("run_checks", json!({"id": task}));
    let seen = other.get(&id);
    assert_eq!(seen["status"], "working");
    assert_eq!(seen["statusMessage"], "running check 0 (it)");
    let acknowledged = other.about("tasks/update", &id);
    assert_eq!(acknowledged["result"]["resultType"], "complete", "{acknowledged}");
    std::fs::write(shop.path().join("go"), "").unwrap();
    let done = other.end_of(&id);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["isError"], false);
    assert_eq!(done["result"]["structuredContent"]["checks"][0]["result"], "pass");
    assert_eq!(caller.get(&id), done, "the same from every process");

    // A finished call stays as it is, whatever is asked of it.
    for method in ["tasks/cancel", "tasks/update"] {
        assert_eq!(caller.about(method, &id)["result"]["resultType"], "complete");
    }
    assert_eq!(other.get(&id), done);
    std::fs::remove_file(shop.path().join("go")).unwrap();
    std::fs::remove_file(shop.path().join("started")).unwrap();
}

#[test]
fn a_long_check_answers_with_a_handle_that_every_process_knows() {
    for shop in shops() {
        let (mut http, mut stdio) = (shop.http("agent:w1"), shop.stdio("agent:w1"));
        a_handle_is_answered_for_by(&shop, &mut http, &mut stdio);
        a_handle_is_answered_for_by(&shop, &mut stdio, &mut http);
    }
}

#[test]
fn a_refusal_after_a_while_is_a_completed_call() {
    for shop in shops() {
        let mut client = shop.http("agent:w1");
        let task = client.create("echo 1 > started; until test -e go; do sleep 0.02; done; exit 3");
        let id = client.handle("transition", json!({"id": task, "to": "done"}));
        std::fs::write(shop.path().join("go"), "").unwrap();
        let done = client.end_of(&id);
        assert_eq!(done["status"], "completed", "{done}");
        assert_eq!(done["result"]["isError"], true);
        assert_eq!(done["result"]["structuredContent"]["code"], "CHECKS_NOT_PASSED");
    }
}

#[test]
fn cancelling_from_another_process_ends_the_check() {
    for shop in shops() {
        let (mut caller, mut other) = (shop.http("agent:w1"), shop.stdio("agent:w1"));
        let task = caller.create(HANGS);
        let id = caller.handle("run_checks", json!({"id": task}));
        let child = shop.child();
        assert!(is_running(&child));
        let acknowledged = other.about("tasks/cancel", &id);
        assert_eq!(acknowledged["result"]["resultType"], "complete", "{acknowledged}");
        let over = other.end_of(&id);
        assert_eq!(over["status"], "cancelled", "{over}");
        until_gone(&child);
        let task = reply(&caller.call("get", json!({"id": task}))).unwrap();
        assert_eq!(task["checks"][0]["result"], "pending", "nothing was recorded");
    }
}

#[test]
fn a_handle_is_its_callers_alone() {
    for shop in shops() {
        let mut caller = shop.http("agent:w1");
        let task = caller.create(HANGS);
        let id = caller.handle("run_checks", json!({"id": task}));
        let mut strangers = [
            shop.stdio("agent:w2"),
            shop.stdio_with(&["--actor", "agent:w1", "--org", "other"], &[]),
        ];
        for stranger in &mut strangers {
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                let answer = stranger.about(method, &id);
                assert_eq!(answer["error"]["code"], -32602, "{answer}");
            }
        }
        let mut reader = shop.stdio_with(&["--actor", "agent:w1", "--scopes", "tasks:read"], &[]);
        let denied = reader.about("tasks/cancel", &id);
        assert_eq!(denied["error"]["data"]["code"], "AUTHORIZATION_DENIED", "{denied}");
        for unknown in ["", "call_", "call_00000000000000000000000000", "job_1", "../x"] {
            let answer = caller.about("tasks/get", unknown);
            assert_eq!(answer["error"]["code"], -32602, "{unknown}: {answer}");
        }
        for shapeless in [json!({}), json!({"taskId": 7})] {
            let answer = strangers[0].ask("tasks/get", shapeless);
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        caller.extensions = false;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let answer = caller.about(method, &id);
            assert_eq!(answer["error"]["code"], -32021, "{answer}");
        }
        caller.extensions = true;
        assert_eq!(caller.get(&id)["status"], "working", "nobody ended it");
    }
}

#[test]
fn a_killed_server_leaves_a_failed_handle() {
    side_by_side(|shop| {
        let (mut caller, mut other) = (shop.http("agent:w1"), shop.stdio("agent:w1"));
        let task = caller.create(HANGS);
        let id = caller.handle("run_checks", json!({"id": task}));
        let child = shop.child();
        caller.process().kill().unwrap();
        caller.process().wait().unwrap();
        until_gone(&child);
        let over = other.end_of(&id);
        assert_eq!(over["status"], "failed", "{over}");
        assert_eq!(over["error"]["code"], -32603);
        assert!(over.get("result").is_none(), "{over}");
    });
}

#[test]
fn a_server_that_ends_takes_its_long_calls_with_it() {
    for shop in shops() {
        let mut other = shop.stdio("agent:w1");
        for caller in [shop.http("agent:w1"), shop.stdio("agent:w1")] {
            let mut caller = caller;
            let task = caller.create(HANGS);
            let id = caller.handle("run_checks", json!({"id": task}));
            let child = shop.child();
            let pid = Pid::from_child(caller.process());
            kill_process(pid, Signal::TERM).unwrap();
            assert_eq!(caller.process().wait().unwrap().code(), Some(0));
            until_gone(&child);
            // Known at once: the server recorded it before it ended.
            let over = other.get(&id);
            assert_eq!(over["status"], "failed", "{over}");
            std::fs::remove_file(shop.path().join("child.pid")).unwrap();
        }
    }
}

#[test]
fn a_long_call_ends_with_the_token_it_came_with() {
    let shop = Shop { folder: board(), schema: None };
    let mut client = shop.http("agent:nobody");
    let (name, secret) = token(shop.path(), &["--actor", "agent:w1"]);
    let Way::Http { token, .. } = &mut client.way else { unreachable!("it speaks HTTP") };
    *token = Some(secret);
    let task = client.create(HANGS);
    let id = client.handle("run_checks", json!({"id": task}));
    let child = shop.child();
    let revoked = command(shop.path()).args(["token", "revoke", &name]).output().unwrap();
    assert!(revoked.status.success());
    until_gone(&child);
    assert_eq!(shop.stdio("agent:w1").end_of(&id)["status"], "cancelled");
}

/// The check outlasts the second after which other clients get a handle.
#[test]
fn client_without_tasks_extension_waits() {
    let cmd = "sleep 1.5";
    for shop in shops() {
        let mut legacy = Peer::over({
            let mut mcp = command(shop.path());
            mcp.args(shop.store()).args(["mcp", "--actor", "agent:w1"]);
            mcp
        });
        // A client of an older revision gets no handle, whatever it declares.
        let declared = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"extensions": { EXTENSION: {} }},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let hello = legacy.request("initialize", declared);
        assert!(hello["result"]["capabilities"]["extensions"].is_null(), "{hello}");
        legacy.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let checks = json!([{"desc": "it", "cmd": cmd}]);
        let task = legacy.create(json!({"title": "slow", "checks": checks}));
        let ran = legacy.call("run_checks", json!({"id": task})).unwrap();
        assert_eq!(ran["checks"][0]["result"], "pass");
        let asked = legacy.request("tasks/get", json!({"taskId": "call_x"}));
        assert_eq!(asked["error"]["code"], -32601, "{asked}");

        let mut undeclared = shop.http("agent:w1");
        undeclared.extensions = false;
        let off = [("CALLBOARD_MCP_TASK_HANDLES", "false")];
        let off = shop.stdio_with(&["--actor", "agent:w1"], &off);
        for mut client in [undeclared, off] {
            let task = client.create(cmd);
            let answer = client.call("run_checks", json!({"id": task}));
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
            assert_eq!(reply(&answer).unwrap()["checks"][0]["result"], "pass");
        }
        let found = shop.http("agent:w1").ask("server/discover", json!({}));
        let extensions = &found["result"]["capabilities"]["extensions"];
        assert_eq!(extensions[EXTENSION], json!({}), "{found}");
    }
}
