//! Two different builds on one file: the older one refuses and changes nothing.

use rusqlite::Connection;
use serde_json::json;

use crate::peer::{Peer, board, command};

#[test]
fn a_server_notices_that_a_newer_build_took_over_its_file() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:x");
    let task = peer.create(json!({"title": "before"}));
    let newer = Connection::open(board.path().join(".callboard/callboard.db")).unwrap();
    newer.pragma_update(None, "user_version", 1000).unwrap();
    let refusal = peer.call("claim", json!({"id": task})).unwrap_err();
    assert_eq!(refusal["code"], "UNAVAILABLE");
    assert!(refusal["message"].as_str().unwrap().contains("newer than this callboard"));
    assert_eq!(peer.call("get", json!({"id": task})).unwrap()["assignee"], json!(null));
    let cli = command(board.path()).args(["task", "list"]).output().unwrap();
    assert_eq!(cli.status.code(), Some(7));
    newer.pragma_update(None, "user_version", 1).unwrap();
    assert!(peer.call("claim", json!({"id": task})).is_ok(), "the process lived on");
}
