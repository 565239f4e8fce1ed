//! `callboard mcp` started outside every project: the client connects, is told where the project was looked for, and
//! can name the project.

use serde_json::{Value, json};

use crate::peer::{Peer, board, command};

fn outside() -> (tempfile::TempDir, Peer) {
    let folder = tempfile::tempdir().unwrap();
    let mut mcp = command(folder.path());
    mcp.args(["mcp", "--actor", "agent:x"]);
    (folder, Peer::over(mcp))
}

fn initialize(peer: &mut Peer, capabilities: Value) -> Value {
    let answer = peer.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }),
    );
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    answer["result"].clone()
}

#[test]
fn a_client_outside_a_project_is_told_where_the_server_looked() {
    let (folder, mut peer) = outside();
    let hello = initialize(&mut peer, json!({}));
    assert_eq!(hello["serverInfo"]["name"], "callboard");
    let here = folder.path().canonicalize().unwrap().display().to_string();
    let words = hello["instructions"].as_str().unwrap();
    assert!(words.contains(&here) && words.contains("CALLBOARD_PROJECT_ROOT"), "{words}");
    let list = peer.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "claim"), "{list}");
    for tool in tools {
        assert_eq!(tool["inputSchema"]["properties"]["project_root"]["type"], "string", "{tool}");
    }
    let refused = peer.call("create", json!({"title": "A"})).unwrap_err();
    assert_eq!(refused["code"], "PROJECT_NOT_FOUND");
    assert!(refused["message"].as_str().unwrap().contains(&here), "{refused}");
    for way_out in ["callboard init", "CALLBOARD_PROJECT_ROOT", "project_root"] {
        assert!(refused["hint"].as_str().unwrap().contains(way_out), "{refused}");
    }
    let resource = peer.request("resources/read", json!({"uri": "callboard://tasks/P-1"}));
    assert_eq!(resource["error"]["data"]["code"], "PROJECT_NOT_FOUND", "{resource}");
    let relative = peer.call("create", json!({"title": "A", "project_root": "shop"})).unwrap_err();
    assert_eq!(relative["code"], "INVALID_INPUT", "{relative}");
    let empty = peer.call("create", json!({"title": "A", "project_root": here})).unwrap_err();
    assert_eq!(empty["code"], "PROJECT_NOT_FOUND", "{empty}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn an_argument_opens_the_project_and_stays_open() {
    let (board, other) = (board(), board());
    let (_folder, mut peer) = outside();
    initialize(&mut peer, json!({}));
    let root = board.path().canonicalize().unwrap();
    let made = peer.call("create", json!({"title": "A", "project_root": root})).unwrap();
    assert_eq!(made["title"], "A");
    assert!(
        peer.notes.iter().any(|note| note["method"] == "notifications/tools/list_changed"),
        "{:?}",
        peer.notes
    );
    let listed = peer.call("list", json!({})).unwrap();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "later calls need no argument");
    let again = peer.call("list", json!({"project_root": root})).unwrap();
    assert_eq!(again["tasks"].as_array().unwrap().len(), 1);
    let elsewhere = peer.call("list", json!({"project_root": other.path()})).unwrap_err();
    assert_eq!(elsewhere["code"], "PROJECT_IS_OPEN", "{elsewhere}");
    let list = peer.request("tools/list", json!({}));
    let asks = |tool: &Value| tool["inputSchema"]["properties"].get("project_root").is_some();
    assert!(!list["result"]["tools"].as_array().unwrap().iter().any(asks), "{list}");
    peer.close_input();
    assert!(peer.receive().is_none(), "nothing more on stdout");
    assert!(peer.child.wait().unwrap().success());
}

#[test]
fn the_roots_of_a_client_name_the_project() {
    let board = board();
    let (_folder, mut peer) = outside();
    initialize(&mut peer, json!({"roots": {}}));
    let call = json!({"name": "create", "arguments": {"title": "A"}});
    let id = peer.start_request("tools/call", call);
    let asked = peer.receive().unwrap();
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let uri = format!("file://{}", board.path().display());
    let roots = json!({"roots": [{"uri": "file:///nowhere"}, {"uri": uri}]});
    peer.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": roots}));
    let answer = peer.answer(id);
    assert_eq!(answer["result"]["structuredContent"]["title"], "A", "{answer}");
}

/// A folder that was moved or mistyped: the client would only see that its server died.
#[test]
fn a_variable_that_names_no_folder_is_answered() {
    let (board, folder) = (board(), tempfile::tempdir().unwrap());
    let mut mcp = command(folder.path());
    mcp.args(["mcp", "--actor", "agent:x"]).env("CALLBOARD_PROJECT_ROOT", "/nowhere/at/all");
    let mut peer = Peer::over(mcp);
    let hello = initialize(&mut peer, json!({}));
    let words = hello["instructions"].as_str().unwrap();
    let looked = "in /nowhere/at/all, which CALLBOARD_PROJECT_ROOT names and which does not exist";
    assert!(words.contains(looked), "{words}");
    let refused = peer.call("create", json!({"title": "A"})).unwrap_err();
    assert_eq!(refused["code"], "PROJECT_NOT_FOUND", "{refused}");
    let root = board.path().canonicalize().unwrap();
    let made = peer.call("create", json!({"title": "A", "project_root": root})).unwrap();
    assert_eq!(made["title"], "A");
}
