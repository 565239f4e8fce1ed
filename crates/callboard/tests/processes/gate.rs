//! The HTTP door of a server: who is turned away, who acts, and how the server ends.

use serde_json::json;

use crate::http::{Server, agent, call};
use crate::peer::board;

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
