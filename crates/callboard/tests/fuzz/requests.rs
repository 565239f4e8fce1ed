//! Random bytes over TCP: paths, methods, headers and bodies of every wrong kind. The answer is a refusal or nothing,
//! never 500, and the server goes on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::ground::Ground;
use crate::lanes::serve;
use crate::process::{PATIENCE, Watched};
use crate::request_words::{MCP_NAMES, MCP_PATHS, METHODS, NAMES, PATHS, TYPES, VALUES};
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 6;
const REQUESTS: usize = 100;
/// How long an answer may take before the request counts as one without an end.
const UNTIL_END: Duration = Duration::from_millis(100);

#[test]
fn no_request_is_answered_with_500_and_none_ends_the_server() {
    let ground = Ground::new(None);
    let (server, errors) = serve(&ground);
    let mut watched = Watched::new(server.child.id(), &errors);
    let address = server.url.trim_start_matches("http://");
    assert_eq!(status(address, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(200));
    watched.is_warm();
    let rounds = seeds(ROUNDS);
    let sent = (rounds.end - rounds.start) * REQUESTS as u64;
    let mut answered = 0;
    for seed in rounds {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        for _ in 0..REQUESTS {
            let request = request(&mut rng, address);
            let status = status(address, &request);
            watched.answered();
            // 501, 503 and 505 say no; 500 and the others say that something broke.
            let is_fine =
                status.is_none_or(|status| status < 500 || [501, 503, 505].contains(&status));
            let shown =
                || String::from_utf8_lossy(&request[..request.len().min(3_000)]).into_owned();
            assert!(is_fine, "{status:?} for {}", shown());
            answered += u64::from(status.is_some());
        }
        assert_eq!(status(address, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(200));
        watched.judge_words();
    }
    assert!(answered * 2 > sent, "{answered} of {sent} requests were answered");
    watched.judge(sent);
    ground.judge_store();
}

/// The bytes of one request; most are HTTP at the first look.
fn request(rng: &mut Rng, address: &str) -> Vec<u8> {
    if rng.percent(5) {
        return (0..rng.below(2_000)).map(|_| rng.next() as u8).collect();
    }
    let body = body(rng);
    let method = if rng.percent(80) { rng.name(&METHODS[..4]) } else { rng.name(METHODS) };
    let is_mcp = rng.percent(40);
    let mut path = match is_mcp {
        true => (*rng.pick(MCP_PATHS)).to_owned(),
        false => (*rng.pick(PATHS)).to_owned(),
    };
    if rng.percent(10) {
        let more: String = wild::short(rng).bytes().map(|byte| format!("%{byte:02x}")).collect();
        path = format!("{path}{}{more}", rng.name(&["", "/", "?", "?x=", "&"]));
    }
    if rng.percent(2) {
        path = format!("/{}", "a".repeat(*rng.pick(&[8_000, 70_000])));
    }
    let mut lines = vec![format!(
        "{method} {path} {}",
        if rng.percent(96) {
            "HTTP/1.1"
        } else {
            rng.name(&["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""])
        }
    )];
    if rng.percent(90) {
        lines.push(format!("Host: {address}"));
    }
    if rng.percent(80) {
        lines.push(format!("Content-Length: {}", body.len()));
        lines.push(format!("Content-Type: {}", rng.name(TYPES)));
    }
    if rng.percent(50) {
        lines.push("Accept: application/json, text/event-stream".to_owned());
    }
    for _ in 0..rng.below(4) {
        let name = match rng.below(10) {
            0 => wild::short(rng),
            1..6 if is_mcp => rng.name(MCP_NAMES).to_owned(),
            _ => rng.name(NAMES).to_owned(),
        };
        let value = match rng.below(20) {
            0 => "v".repeat(*rng.pick(&[9_000, 40_000, 200_000])),
            1 => wild::short(rng),
            // Bytes that a header may have and that are no text.
            2..8 if is_mcp => "\u{e9}\u{1F600}".to_owned(),
            _ => rng.name(VALUES).to_owned(),
        };
        lines.push(format!("{name}: {value}"));
    }
    if rng.percent(3) {
        lines.extend((0..300).map(|number| format!("X-{number}: {number}")));
    }
    let mut bytes = lines.join("\r\n").into_bytes();
    bytes.extend_from_slice(b"\r\n\r\n");
    bytes.extend_from_slice(&body);
    if rng.percent(5) {
        bytes = wild::mutated(rng, &String::from_utf8_lossy(&bytes));
    }
    bytes
}

fn body(rng: &mut Rng) -> Vec<u8> {
    let call = json!({"jsonrpc": "2.0", "id": wild::value(rng), "method": rng.name(&["ping", "tools/call", "initialize", "x"]), "params": {
        "name": "create", "arguments": {"title": wild::value(rng)}, "protocolVersion": wild::value(rng),
    }});
    let execute = json!({"agentId": "boss", "toolName": rng.name(&["mcp__agent__get_status", "mcp__mail__send", "x"]), "input": wild::value(rng)});
    match rng.below(8) {
        0 => Vec::new(),
        1 => (0..rng.below(300)).map(|_| rng.next() as u8).collect(),
        2 => wild::mutated(rng, &call.to_string()),
        3 => wild::mutated(rng, &execute.to_string()),
        4 => execute.to_string().into_bytes(),
        5 => format!("[{call},{call}]").into_bytes(),
        6 => format!("title={}&token=%ff&next=//evil", wild::short(rng)).into_bytes(),
        _ => call.to_string().into_bytes(),
    }
}

/// The status of the answer; `None` when the server closed the connection without one.
fn status(address: &str, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // The server may refuse and close before it has read everything.
    let _ = stream.write_all(request);
    let mut head = Vec::new();
    // A server that has not answered by then waits for the rest of a body, which never comes.
    if !reads_line(&mut stream, &mut head, UNTIL_END) {
        let _ = stream.shutdown(Shutdown::Write);
        let shown = || String::from_utf8_lossy(&request[..request.len().min(3_000)]).into_owned();
        assert!(reads_line(&mut stream, &mut head, PATIENCE), "no answer to {}", shown());
    }
    let head = String::from_utf8_lossy(&head);
    head.strip_prefix("HTTP/1.")?.split_whitespace().nth(1)?.parse().ok()
}

/// Reads the first line of an answer, or to the end; `false` when neither came in time. Streams of events do not end, so
/// the line is enough.
fn reads_line(stream: &mut TcpStream, head: &mut Vec<u8>, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut chunk = [0; 4096];
    while !head.windows(2).any(|two| two == b"\r\n") {
        match stream.read(&mut chunk) {
            Ok(0) => return true,
            Ok(bytes) => head.extend_from_slice(&chunk[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
    true
}
