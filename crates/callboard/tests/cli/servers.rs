//! `serve`, `up` and `mcp` as processes: what they print first, how they end, the page.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::World;

fn address(first_line: &str) -> String {
    let (_, rest) = first_line.split_once("http://").expect("a URL");
    rest.split_whitespace().next().expect("an address").to_owned()
}

fn get(address: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn serve_prints_its_address_and_ends_on_sigterm() {
    let world = World::project();
    let hostile = "<script>alert(1)</script>";
    let id = world.task(&[hostile, "--body", "<b>bold</b>", "--check", "manual: looks good"]);
    let (serving, first) = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    let at = address(&first);
    assert!(get(&at, &at, "/livez").starts_with("HTTP/1.1 200"));
    assert!(get(&at, &at, "/readyz").starts_with("HTTP/1.1 200"));
    let page = get(&at, &at, "/");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'self'"), "{page}");
    assert!(page.contains(&id) && page.contains("1 backlog") && page.contains("pending"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    let card = get(&at, &at, &format!("/tasks/{id}"));
    assert!(card.contains("&lt;b&gt;bold") && card.contains("human:ana"), "{card}");
    assert!(get(&at, &at, "/tasks/SHOP-1").starts_with("HTTP/1.1 404"));
    assert!(get(&at, &at, "/style.css").contains("light-dark("));
    assert!(get(&at, "evil.example", "/").starts_with("HTTP/1.1 403"));
    assert_eq!(serving.signal(Signal::TERM), 0);
}

#[test]
fn up_makes_the_project_and_takes_a_free_port() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let usual = taken.local_addr().expect("its address").to_string();
    let world = World::git().with("CALLBOARD_HTTP_LISTEN", &usual);
    let refused = world.run(&["serve", "--store", "x.db"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("error[CANNOT_LISTEN]"), "{}", refused.stderr);
    let (up, first) = world.start(&["up"]);
    let at = address(&first);
    assert_ne!(at, usual);
    assert!(world.callboard("config.toml").exists());
    assert!(get(&at, &at, "/").contains("No task yet"));
    assert_eq!(up.signal(Signal::INT), 0);
}

#[test]
fn mcp_speaks_as_the_actor_it_was_given() {
    let world = World::project();
    let ask = |arguments: &[&str]| -> Value {
        let mut child = world
            .command(&world.root(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let client = json!({"name": "Test Client", "version": "1"});
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": {"name": "identity", "arguments": {}}}),
        ];
        let mut input = child.stdin.take().expect("a pipe");
        for message in messages {
            writeln!(input, "{message}").expect("a line");
        }
        drop(input);
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
        let answers = String::from_utf8_lossy(&ended.stdout).into_owned();
        let last = answers.lines().last().expect("an answer");
        let last: Value = serde_json::from_str(last).expect("JSON");
        last["result"]["structuredContent"].clone()
    };
    let named = ask(&["mcp", "--actor", "agent:x", "--client", "c"]);
    assert_eq!((&named["actor"], &named["client"]), (&json!("agent:x"), &json!("c")));
    let derived = ask(&["mcp"]);
    let actor = derived["actor"].as_str().expect("an actor");
    assert!(actor.starts_with("agent:Test-Client-"), "{actor}");
}
