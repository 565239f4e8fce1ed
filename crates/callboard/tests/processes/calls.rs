//! Long calls: other calls are answered meanwhile, progress arrives, cancelling ends them.

use serde_json::json;

use crate::peer::{Peer, board, is_running, reply, until_exists};

#[test]
fn a_long_check_blocks_nobody_and_says_how_far_it_is() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let cmd = "echo 1 > started; until test -e go; do sleep 0.02; done";
    let task = peer.create(json!({"title": "slow", "checks": [{"desc": "waits", "cmd": cmd}]}));
    let running = peer.start_request(
        "tools/call",
        json!({
            "name": "transition",
            "arguments": {"id": task, "to": "done"},
            "_meta": {"progressToken": "p"},
        }),
    );
    until_exists(&board.path().join("started"));
    assert_eq!(peer.call("get", json!({"id": task})).unwrap()["status"], "backlog");
    // The first report comes at once, the next after seconds of silence.
    while peer.notes.iter().filter(|note| note["method"] == "notifications/progress").count() < 2 {
        let message = peer.receive().expect("progress");
        peer.notes.push(message);
    }
    let progress: Vec<f64> = peer
        .notes
        .iter()
        .filter(|note| note["params"]["progressToken"] == "p")
        .map(|note| note["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(progress.windows(2).all(|pair| pair[0] < pair[1]), "it rises: {progress:?}");
    std::fs::write(board.path().join("go"), "").unwrap();
    assert_eq!(reply(&peer.answer(running)).unwrap()["status"], "done");
}

#[test]
fn cancelling_ends_the_whole_process_group_and_records_nothing() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let cmd = "sleep 600 & echo $! > child.pid; wait";
    let task = peer.create(json!({"title": "slow", "checks": [{"desc": "hangs", "cmd": cmd}]}));
    let call = json!({"name": "run_checks", "arguments": {"id": task}});
    let running = peer.start_request("tools/call", call);
    until_exists(&board.path().join("child.pid"));
    let child = std::fs::read_to_string(board.path().join("child.pid")).unwrap();
    assert!(is_running(&child));
    peer.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": running},
    }));
    while is_running(&child) {
        std::thread::yield_now();
    }
    let task = peer.call("get", json!({"id": task})).unwrap();
    assert_eq!(task["checks"][0]["result"], "pending");
    assert_eq!(task["provenance"].as_array().unwrap().len(), 1);
}

#[test]
fn a_client_that_leaves_takes_its_checks_with_it() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let cmd = "sleep 600 & echo $! > child.pid; wait";
    let task = peer.create(json!({"title": "slow", "checks": [{"desc": "hangs", "cmd": cmd}]}));
    peer.start_request("tools/call", json!({"name": "run_checks", "arguments": {"id": task}}));
    until_exists(&board.path().join("child.pid"));
    let child = std::fs::read_to_string(board.path().join("child.pid")).unwrap();
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    while is_running(&child) {
        std::thread::yield_now();
    }
}
