//! Random lines on stdin. Every request that can be read is answered once, with its id; every line that is no JSON is
//! answered with an error; nothing ends the server.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::ground::Ground;
use crate::http::{answer_of, modern};
use crate::lanes::{patient_agent, serve};
use crate::peer::Peer;
use crate::process::Watched;
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 12;
const LINES: usize = 50;
/// Codes with which the protocol refuses a line or a request.
const REFUSALS: &[i64] = &[-32700, -32600, -32601, -32602, -32002];
/// One byte more than a server reads of a line.
const TOO_LONG: usize = 16 * 1024 * 1024 + 1;

/// What a request of the modern era says about its client.
const MODERN: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}"#;

/// What is owed for the lines of a round.
#[derive(Default)]
struct Owed {
    /// How many answers are left for each id, which is written as JSON.
    answers: HashMap<String, usize>,
    /// How many errors without an id.
    errors: usize,
}

impl Owed {
    /// Notes that a request with this id is to be answered.
    fn answer(&mut self, id: &Value) {
        self.answers.insert(id.to_string(), 1);
    }
}

fn server(ground: &Ground) -> (Peer, Watched) {
    let errors = ground.path().join("stderr");
    let mut mcp = ground.program();
    mcp.args(["mcp", "--actor", "agent:x", "--no-runner"]);
    let mut peer = Peer::with_errors_to(mcp, std::fs::File::create(&errors).unwrap().into());
    peer.hello();
    let watched = Watched::new(peer.child.id(), &errors);
    (peer, watched)
}

#[test]
fn every_line_is_answered_or_dropped_and_none_ends_the_server() {
    let ground = Ground::new(None);
    let (mut peer, mut watched) = server(&ground);
    watched.is_warm();
    let rounds = seeds(ROUNDS);
    let lines = (rounds.end - rounds.start) * LINES as u64;
    for seed in rounds {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        let mut owed = Owed::default();
        for number in 0..LINES {
            let line = line(&mut rng, number, &mut owed);
            send(&mut rng, &mut peer, &line);
        }
        settle(&mut peer, owed);
        watched.answered();
    }
    // Longer than any line may be: refused once, and never held.
    for _ in 0..2 {
        peer.send_bytes(&vec![b'x'; TOO_LONG]);
        peer.send_bytes(b"\n");
        settle(&mut peer, Owed { errors: 1, ..Owed::default() });
    }
    let who = peer.call("identity", json!({})).unwrap();
    assert_eq!(who["actor"], "agent:x");
    watched.judge(lines);
}

/// The text of JavaScript programs can end in half of an emoji; a message can be too deep to be read.
#[test]
fn half_of_an_emoji_is_replaced_and_a_message_that_is_too_deep_is_answered() {
    let call = |id: u64, title: &str| {
        let arguments =
            format!(r#"{{"name":"create","arguments":{{"title":{title}}},"_meta":{MODERN}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{arguments}}}"#)
    };
    let cut = call(50, r#""cut \ud83d""#);
    let deep = call(51, &format!("{}{}", "[".repeat(200), "]".repeat(200)));
    let judge = |cut: &Value, deep: &Value| {
        assert_eq!(cut["result"]["structuredContent"]["title"], "cut \u{fffd}", "{cut}");
        assert_eq!((&deep["id"], &deep["error"]["code"]), (&json!(51), &json!(-32700)), "{deep}");
    };
    let ground = Ground::new(None);
    let (mut peer, _watched) = server(&ground);
    peer.send_bytes(format!("{cut}\n{deep}\n").as_bytes());
    let (deep_said, cut_said) =
        (peer.answer(51), peer.notes.drain(..).find(|said| said["id"] == 50));
    judge(&cut_said.unwrap_or_else(|| peer.answer(50)), &deep_said);

    let (http, _) = serve(&ground);
    let url = format!("{}/mcp/graph?actor=agent:x", http.url);
    let post = |body: &str| {
        let request = modern(&patient_agent(), &url, "tools/call").header("Mcp-Name", "create");
        let sent = request.header("Content-Type", "application/json").send(body);
        answer_of(&mut sent.unwrap()).unwrap()
    };
    judge(&post(&cut), &post(&deep));
    let body = r#"{"agentId":"boss","toolName":"mcp__system__log_decision","input":{"title":"\ud83d","body":"b"}}"#;
    let request = patient_agent().post(format!("{}/mcp/execute", http.url));
    let sent = request.header("Content-Type", "application/json").send(body);
    assert_eq!(answer_of(&mut sent.unwrap()).unwrap()["success"], true);
}

/// A line that is sent, and what is owed for it.
fn line(rng: &mut Rng, number: usize, owed: &mut Owed) -> Vec<u8> {
    let id = match rng.below(5) {
        0 => json!(format!("{number}-{}", wild::short(rng))),
        1 => json!(-(number as i64) - 5_000_000),
        // The protocol forbids an id that is in use; such requests get one answer together. No wild value is one of them: a request that is canceled gets no answer.
        2 => json!(7),
        _ => json!(5_000_000 + number),
    };
    let method = rng.name(&[
        "ping",
        "tools/call",
        "no/such/method",
        "prompts/get",
        "resources/read",
        "logging/setLevel",
        "",
    ]);
    let params = match method {
        "tools/call" => {
            json!({"name": rng.name(&["identity", "get", "no_such_tool"]), "arguments": {"id": wild::short(rng)}})
        }
        _ => json!({"name": wild::short(rng), "uri": wild::short(rng), "x": wild::value(rng)}),
    };
    let request =
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    match rng.below(16) {
        0..4 => {
            owed.answer(&id);
            dressed(rng, request)
        }
        4 => noise(rng, owed),
        5 => {
            let end = 1 + rng.below(request.len() - 1);
            judged(request.as_bytes()[..end].to_vec(), owed)
        }
        6 => judged([&request[..], &request].concat().into_bytes(), owed),
        7 => judged(format!("[{request},{request}]").into_bytes(), owed),
        8 => {
            let bytes = wild::mutated(rng, &request);
            judged(bytes.into_iter().filter(|byte| *byte != b'\n').collect(), owed)
        }
        // JSON by its grammar, but not readable: the id is, so the caller must not wait forever.
        9 => {
            owed.answer(&id);
            let bad = rng.name(&["\"\\ud800\"", "\"\\udc00\\ud800\"", "1e999"]);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"get","arguments":{{"id":{bad}}}}}}}"#).into_bytes()
        }
        10 => {
            owed.answer(&id);
            let levels = *rng.pick(&[130, 5_000]);
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"get","arguments":{{"id":{open}{close}}}}}}}"#).into_bytes()
        }
        11 => json!({"jsonrpc": "2.0", "method": rng.name(&["notifications/x", "notifications/roots/list_changed", "ping"]), "params": wild::value(rng)})
            .to_string()
            .into_bytes(),
        12 => json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wild::value(rng)}})
            .to_string()
            .into_bytes(),
        13 => json!({"jsonrpc": "2.0", "id": wild::value(rng), "result": wild::value(rng)}).to_string().into_bytes(),
        14 => json!({"jsonrpc": wild::value(rng), "id": wild::value(rng), "method": wild::value(rng), "params": wild::value(rng)})
            .to_string()
            .into_bytes(),
        _ => wild::value(rng).to_string().into_bytes(),
    }
}

/// What clients may put around a message.
fn dressed(rng: &mut Rng, request: String) -> Vec<u8> {
    match rng.below(6) {
        0 => format!("\u{feff}{request}"),
        1 => format!("\n\n{request}\r"),
        2 => format!("  \t{request}   "),
        _ => request,
    }
    .into_bytes()
}

/// Bytes without a line end.
fn noise(rng: &mut Rng, owed: &mut Owed) -> Vec<u8> {
    let bytes =
        (0..1 + rng.below(200)).map(|_| rng.next() as u8).filter(|byte| *byte != b'\n').collect();
    judged(bytes, owed)
}

/// A line that may be broken: one that is no JSON is owed an error, also when its id could be read.
fn judged(line: Vec<u8>, owed: &mut Owed) -> Vec<u8> {
    let trimmed = line.trim_ascii();
    if !trimmed.is_empty()
        && serde_json::from_slice::<Value>(trimmed).is_err()
        && std::str::from_utf8(trimmed).is_ok()
    {
        owed.errors += 1;
    }
    line
}

/// Sends a line in pieces of random size.
fn send(rng: &mut Rng, peer: &mut Peer, line: &[u8]) {
    let mut rest = line;
    while rng.percent(20) && rest.len() > 1 {
        let (piece, after) = rest.split_at(1 + rng.below(rest.len() - 1));
        peer.send_bytes(piece);
        rest = after;
    }
    peer.send_bytes(&[rest, b"\n"].concat());
}

/// Reads answers until everything that is owed was given. What comes besides must be well formed, too.
fn settle(peer: &mut Peer, mut owed: Owed) {
    // Its answer comes after every line was read; answers to earlier calls may still follow it.
    peer.send(&json!({"jsonrpc": "2.0", "id": "the end", "method": "ping"}));
    owed.answer(&json!("the end"));
    while owed.errors > 0 || owed.answers.values().any(|left| *left > 0) {
        let Some(answer) = peer.receive() else {
            panic!("the server is gone; owed: {:?}, {} errors", owed.answers, owed.errors)
        };
        if answer.get("method").is_some() {
            continue;
        }
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
        if let Some(error) = answer.get("error") {
            let code = error["code"].as_i64();
            assert!(code.is_some_and(|code| REFUSALS.contains(&code)), "{answer}");
            assert!(
                error["message"].as_str().is_some_and(|words| words.len() < 20_000),
                "{answer}"
            );
        }
        let id = answer["id"].to_string();
        match owed.answers.get_mut(&id).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None if answer["error"]["code"] == -32700 => {
                owed.errors = owed.errors.saturating_sub(1)
            }
            // A line that happened to be a request.
            None => {}
        }
    }
}
