//! `serve`, `up` and `mcp` as processes: their first lines, how they end, the page.

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
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("Nothing needs you"), "{page}");
    let page = get(&at, &at, "/board");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'self'"), "{page}");
    assert!(page.contains(&id) && page.contains("Next in the queue"), "{page}");
    assert!(page.contains("0 of 1 checks pass"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    // A whole id leads to the address with the short name.
    let moved = get(&at, &at, &format!("/tasks/{id}"));
    assert!(
        moved.starts_with("HTTP/1.1 303") && moved.contains("location: /tasks/SHOP-1"),
        "{moved}"
    );
    let card = get(&at, &at, "/tasks/SHOP-1");
    assert!(card.contains("&lt;b&gt;bold") && card.contains("<bdi>ana</bdi>"), "{card}");
    assert!(get(&at, &at, "/tasks/SHOP-404").starts_with("HTTP/1.1 404"));
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

/// The server's answer to each request of one client that then hangs up.
fn ask(world: &World, arguments: &[&str], requests: &[Value]) -> Vec<Value> {
    let mut child = world
        .command(&world.root(), arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let client = json!({"name": "Test Client", "version": "1"});
    let hello = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let mut input = child.stdin.take().expect("a pipe");
    for message in hello.iter().chain(requests) {
        writeln!(input, "{message}").expect("a line");
    }
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    let answers = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

#[test]
fn mcp_speaks_as_the_actor_it_was_given() {
    let world = World::project();
    let identity = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "identity", "arguments": {}}});
    let ask = |arguments: &[&str]| -> Value {
        let answers = ask(&world, arguments, std::slice::from_ref(&identity));
        answers[1]["result"]["structuredContent"].clone()
    };
    let named = ask(&["mcp", "--actor", "agent:x", "--client", "c"]);
    assert_eq!((&named["actor"], &named["client"]), (&json!("agent:x"), &json!("c")));
    let derived = ask(&["mcp"]);
    let actor = derived["actor"].as_str().expect("an actor");
    assert!(actor.starts_with("agent:Test-Client-"), "{actor}");
}

#[test]
fn mcp_names_its_task_and_gives_the_projects_own_prompts() {
    let world = World::project();
    let task = &world.task(&["Sort the shelves"]);
    let prompts = world.callboard("prompts");
    std::fs::create_dir(&prompts).expect("a folder");
    std::fs::write(prompts.join("plan.md"), "Plan {task} as we do.").expect("a file");
    world.ok(&["trust"]);
    let get = |id: u8, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "prompts/get", "params": {"name": name}});
    let bound = ["mcp", "--actor", "agent:x", "--task", "SHOP-1"];
    let answers = ask(&world, &bound, &[get(2, "plan"), get(3, "start-work")]);
    let instructions = answers[0]["result"]["instructions"].as_str().expect("a text");
    assert!(instructions.contains(&format!("is bound to task {task}")), "{instructions}");
    let text = |answer: &Value| answer["result"]["messages"][0]["content"]["text"].clone();
    assert_eq!(text(&answers[1]), format!("Plan {task} as we do."));
    assert!(text(&answers[2]).as_str().is_some_and(|text| text.contains("`begin` it")));
    std::fs::write(prompts.join("plan.md"), "x".repeat(40_000)).expect("a file");
    world.ok(&["trust"]);
    let refused = world.run(&["mcp"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("plan.md has more than 32768 bytes"), "{}", refused.stderr);
}
