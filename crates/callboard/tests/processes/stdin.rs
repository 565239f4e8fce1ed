//! For any input on stdin, the process answers readable requests and keeps running.

use serde_json::json;

use crate::peer::{Peer, board, command};

#[test]
fn broken_lines_are_survived() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    for broken in [
        &b"this is not json\n"[..],
        b"{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \n",
        b"\xff\xfe\x00 not utf-8 \xc3\x28\n",
        b"[]\n",
        b"{}\n",
        b"null\n",
        b"\n",
        b"\"a string\"\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": {\"requestId\": 99}}\n",
    ] {
        peer.send_bytes(broken);
    }
    let who = peer.call("identity", json!({})).unwrap();
    assert_eq!(who["actor"], "agent:x");
    let parse_errors = peer.notes.iter().filter(|m| m["error"]["code"] == -32700).count();
    assert!(parse_errors >= 3, "broken JSON is answered with a parse error: {:?}", peer.notes);
    let unknown = peer.request("no/such/method", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[test]
fn arguments_of_every_wrong_kind_are_refused_by_name() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let long = "x".repeat(1024 * 1024);
    for (tool, arguments, words) in [
        ("create", json!({"title": long}), "title must be at most 500 characters"),
        ("create", json!({"title": "x", "body": "y".repeat(300 * 1024)}), "body must be at most"),
        ("create", json!({"title": ["x"]}), "title must be a string"),
        ("create", json!({"titel": "x"}), "did you mean 'title'?"),
        ("create", json!("title"), "arguments must be an object"),
        ("create", json!({"title": "x", "deps": {"a": 1}}), "deps[0] must be a string"),
        (
            "create",
            json!({"title": "x", "checks": [{"desc": "d", "cmd": "c", "cwd": "a/../../b"}]}),
            "cwd must stay inside the repo",
        ),
        ("get", json!({"id": 5}), "id must be a string"),
        ("get", json!({"id": "a b"}), "invalid task id"),
        ("run_checks", json!({"id": "P-1", "only": [-1]}), "only[0] must be at least 0"),
        ("list", json!({"limit": 1.5}), "limit must be an integer"),
    ] {
        let refusal = peer.call(tool, arguments).unwrap_err();
        let message = refusal["message"].as_str().unwrap_or_default();
        let refused =
            message.contains(words) || (words == "check 0" && message.contains("check 0"));
        assert!(refused, "{tool}: wanted '{words}', got {refusal}");
    }
    assert_eq!(peer.call("list", json!({})).unwrap()["tasks"], json!([]), "nothing was made");
}

#[test]
fn the_end_of_input_is_the_end() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let id =
        peer.start_request("tools/call", json!({"name": "create", "arguments": {"title": "last"}}));
    peer.close_input();
    let answer = peer.answer(id);
    assert_eq!(
        answer["result"]["structuredContent"]["title"], "last",
        "what was asked is answered"
    );
    assert!(peer.receive().is_none(), "nothing more on stdout");
    assert!(peer.child.wait().unwrap().success());
}

#[test]
fn clients_without_a_name_are_told_apart() {
    let board = board();
    let actor = || {
        let mut mcp = command(board.path());
        mcp.arg("mcp");
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer.call("identity", json!({})).unwrap()["actor"].as_str().unwrap().to_owned()
    };
    let (first, second) = (actor(), actor());
    assert!(first.starts_with("agent:test-"), "{first}");
    assert_ne!(first, second);
}
