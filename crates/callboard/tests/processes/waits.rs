//! Many waiting clients over HTTP, each on its own connection, and clients that hang up.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::http::{Server, agent, call};
use crate::peer::{CALLBOARD, board, clean, command};

fn connect(server: &Server) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    BufReader::new(stream)
}

/// A server with an initial limit of 64 open files serves more connections than that.
#[test]
fn connections_are_not_bounded_by_what_a_shell_allows_at_first() {
    let board = board();
    let mut serve = Command::new("sh");
    clean(&mut serve, board.path());
    serve.args(["-c", "ulimit -Sn 64; exec \"$0\" serve --listen 127.0.0.1:0", CALLBOARD]);
    let server = Server::over(serve);
    let mut open: Vec<_> = (0..200).map(|_| connect(&server)).collect();
    for line in &mut open {
        line.get_mut().write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = String::new();
        line.read_line(&mut status).unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    }
}

/// Returns when `/metrics` has the line.
fn until_counted(server: &Server, line: &str) {
    let page = || {
        let mut page = agent().get(format!("{}/metrics", server.url)).call().unwrap();
        page.body_mut().read_to_string().unwrap()
    };
    while !page().lines().any(|counted| counted == line) {}
}

#[test]
fn who_hangs_up_ends_its_wait_and_is_no_error() {
    let board = board();
    let log = board.path().join("log");
    let mut serve = command(board.path());
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stderr(File::create(&log).unwrap());
    let mut server = Server::over(serve);
    let made = call(&agent(), &server.url, "human:ana", "create", &json!({"title": "A"}), "");
    let task = made.unwrap().unwrap()["id"].clone();
    let params = json!({
        "name": "tasks_wait",
        "arguments": {"task_id": task},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        },
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let body = body.to_string();
    let request = format!(
        "POST /mcp/board HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: tasks_wait\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut waiting: Vec<_> = (0..20).map(|_| connect(&server)).collect();
    for line in &mut waiting {
        line.get_mut().write_all(request.as_bytes()).unwrap();
    }
    until_counted(&server, "callboard_waits 20");
    drop(waiting);
    until_counted(&server, "callboard_waits 0");
    until_counted(&server, "callboard_mcp_calls_total{tool=\"tasks_wait\",code=\"ok\"} 20");
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let said = std::fs::read_to_string(&log).unwrap();
    let stopping =
        "stopping: waiting for calls in flight; a second Ctrl-C or SIGTERM stops at once\n";
    assert_eq!(said, stopping, "the log holds nothing else");
}
