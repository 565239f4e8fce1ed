//! Streamable HTTP: routes, both eras, sessions and their owners, lost connections, shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use callboard_surface::http::{ConnectionLimits, HttpOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::lines::modern;
use crate::probe::held;
use crate::web::Site;
use crate::world::World;

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn who_may_ask_and_where() {
    let site = Site::new().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a str);
    let cases: [Case<'_>; 6] = [
        ("/mcp", &[("Host", "evil.example")], 403, "HOST_NOT_ALLOWED"),
        ("/mcp", &[("Origin", "http://evil.example")], 403, "ORIGIN_NOT_ALLOWED"),
        ("/mcp/graph", &[("Host", "evil.example")], 403, "HOST_NOT_ALLOWED"),
        ("/mcp/nope", &[], 404, "UNKNOWN_TOOLSET"),
        ("/mcp?actor=nobody", &[], 400, "INVALID_INPUT"),
        ("/readyz", &[], 405, ""),
    ];
    for (path, headers, status, code) in cases {
        let reply = site.post(path, headers, &ping).await;
        assert_eq!(reply.status, status, "{path} {headers:?}");
        if !code.is_empty() {
            let body = reply.json().await;
            assert_eq!(body["error"]["code"], code, "{body}");
            assert!(body["error"]["message"].is_string());
        }
    }
    assert_eq!(site.ask("GET", "/livez", &[("Host", "any")], "").await.status, 200);
}

/// Every caller may ask, under any host name and at any rate.
#[tokio::test]
async fn whether_the_server_is_ready_is_one_word_and_asked_once_a_second() {
    let site = Site::new().await;
    for _ in 0..20 {
        let ready = site.ask("GET", "/readyz", &[("Host", "evil.example")], "").await;
        assert_eq!(ready.status, 503);
        assert_eq!(ready.text().await, "unavailable\n");
    }
    let probes = site.probes.load(Ordering::SeqCst);
    assert!(probes < 20, "the store was asked each time");
}

/// Only an incomplete head has a deadline: a connection may be kept for its next request.
#[tokio::test]
async fn a_kept_connection_outlives_the_deadline_of_heads() {
    let world = World::new().await;
    // Long enough to send a whole head on a busy machine; a kept connection is idle for longer, while the stranger's ends.
    let limits =
        ConnectionLimits { head_within: Duration::from_secs(3), ..ConnectionLimits::default() };
    let site = Site::within(&world, HttpOptions::default(), limits).await;
    let head = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    let answered = async |stream: &mut BufReader<TcpStream>, status: &str| {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.contains(status), "{line:?}");
        let mut length = 0;
        while line.trim_end() != "" {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let given = line.strip_prefix("content-length: ").map(|n| n.trim().parse().unwrap());
            length = given.unwrap_or(length);
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    };
    let connect = async || BufReader::new(TcpStream::connect(site.address).await.unwrap());
    let mut kept = connect().await;
    // There is no such toolset, but a caller that gets this answer was admitted.
    kept.write_all(head("/mcp/nope").as_bytes()).await.unwrap();
    answered(&mut kept, " 404 ").await;
    let mut stranger = connect().await;
    stranger.write_all(head("/livez").as_bytes()).await.unwrap();
    answered(&mut stranger, " 200 ").await;
    assert_eq!(stranger.read_to_end(&mut Vec::new()).await.unwrap(), 0, "it was closed");
    kept.write_all(head("/mcp/nope").as_bytes()).await.unwrap();
    answered(&mut kept, " 404 ").await;
    kept.write_all(b"GET /mcp/nope HT").await.unwrap();
    assert_eq!(kept.read_to_end(&mut Vec::new()).await.unwrap(), 0, "half a head has a deadline");
}

#[tokio::test]
async fn requests_that_are_not_mcp() {
    let site = Site::with(HttpOptions { body_max: 1000, ..HttpOptions::default() }).await;
    let json_body = [("Content-Type", "application/json")];
    let wrong_accept = site.ask("POST", "/mcp", &json_body, "{}").await;
    assert_eq!(wrong_accept.status, 406);
    let accept = ("Accept", "application/json, text/event-stream");
    let wrong_type =
        site.ask("POST", "/mcp", &[accept, ("Content-Type", "text/plain")], "{}").await;
    assert_eq!(wrong_type.status, 415);
    let broken = site.ask("POST", "/mcp", &[accept, json_body[0]], "{broken").await;
    assert_eq!(broken.status, 400);
    assert_eq!(broken.json().await["error"]["code"], -32700);
    let large = "x".repeat(2000);
    assert_eq!(site.ask("POST", "/mcp", &[accept, json_body[0]], &large).await.status, 413);
    assert_eq!(site.ask("PUT", "/mcp", &[], "").await.status, 405);
}

#[tokio::test]
async fn a_modern_request_stands_alone() {
    let site = Site::new().await;
    let who = json!({ "name": "identity", "arguments": {} });
    let reply = site.modern("/mcp?actor=agent:a", 1, "tools/call", who.clone()).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert!(reply.header("mcp-session-id").is_none());
    let answer = reply.json().await;
    assert_eq!(answer["result"]["structuredContent"]["actor"], "agent:a");
    assert_eq!(answer["result"]["structuredContent"]["client"], "modern client");
    let answer = site.modern("/mcp/graph", 2, "tools/call", who).await.json().await;
    assert_eq!(answer["result"]["structuredContent"]["actor"], "agent:modern-client");
    let unknown = site.modern("/mcp", 3, "no/such", json!({})).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json().await["error"]["code"], -32601);
    // The header says one method, the body another.
    let message =
        json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": modern(json!({})) });
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "prompts/list")];
    let mismatch = site.post("/mcp", &headers, &message).await;
    assert_eq!(mismatch.status, 400);
    assert_eq!(mismatch.json().await["error"]["code"], -32020);
}

#[tokio::test]
async fn hanging_up_cancels_a_modern_call() {
    let site = Site::new().await;
    let held = held("modern hang-up");
    let hold = json!({ "name": "hold", "arguments": { "key": "modern hang-up" } });
    tokio::select! {
        _ = site.modern("/mcp", 1, "tools/call", hold) => panic!("nobody released it"),
        () = held.started.notified() => {}
    }
    held.canceled.notified().await;
}

#[tokio::test]
async fn a_session_answers_only_to_who_opened_it() {
    let site = Site::new().await;
    let session = site.open("/mcp?actor=agent:a").await.ok().unwrap();
    let ours = [("Mcp-Session-Id", session.as_str())];
    let who = call(1, "identity", json!({}));
    let mut reply = site.post("/mcp?actor=agent:a", &ours, &who).await;
    let answer = reply.message().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"]["actor"], "agent:a");
    assert_eq!(answer["result"]["structuredContent"]["client"], "legacy");
    let elsewhere = ["/mcp?actor=agent:b", "/mcp", "/mcp/graph?actor=agent:a"];
    for path in elsewhere {
        assert_eq!(site.post(path, &ours, &who).await.status, 404, "{path}");
        assert_eq!(site.ask("DELETE", path, &ours, "").await.status, 404, "{path}");
        let listen = [ours[0], ("Accept", "text/event-stream")];
        assert_eq!(site.ask("GET", path, &listen, "").await.status, 404, "{path}");
    }
    assert_eq!(site.ask("DELETE", "/mcp?actor=agent:a", &ours, "").await.status, 204);
    assert_eq!(site.post("/mcp?actor=agent:a", &ours, &who).await.status, 404);
}

#[tokio::test]
async fn only_a_session_that_is_open_can_be_ended() {
    let site = Site::new().await;
    let session = site.open("/mcp").await.ok().unwrap();
    let ours = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(site.ask("DELETE", "/mcp", &ours, "").await.status, 204);
    assert_eq!(site.ask("DELETE", "/mcp", &ours, "").await.status, 404, "it has ended");
    let unknown = [("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000")];
    assert_eq!(site.ask("DELETE", "/mcp", &unknown, "").await.status, 404, "there is none");
    assert_eq!(site.ask("DELETE", "/mcp", &[], "").await.status, 400, "which one?");
    // The modern era has no sessions.
    let modern = [unknown[0], ("MCP-Protocol-Version", "2026-07-28")];
    assert_eq!(site.ask("DELETE", "/mcp", &modern, "").await.status, 405);
}

#[tokio::test]
async fn sessions_are_limited_and_given_back() {
    let site = Site::with(HttpOptions { sessions_max: 1, ..HttpOptions::default() }).await;
    let session = site.open("/mcp").await.ok().unwrap();
    let full = site.open("/mcp").await.err().unwrap();
    assert_eq!(full.status, 503);
    assert!(full.header("retry-after").is_some());
    assert_eq!(full.json().await["error"]["code"], "TOO_MANY_SESSIONS");
    // The modern era needs no session.
    assert_eq!(site.modern("/mcp", 1, "tools/list", json!({})).await.status, 200);
    let ours = [("Mcp-Session-Id", session.as_str())];
    site.ask("DELETE", "/mcp", &ours, "").await;
    assert!(site.open("/mcp").await.is_ok());
}

#[tokio::test]
async fn a_silent_session_ends_by_itself() {
    let idle = Duration::from_millis(1);
    let options = HttpOptions { sessions_max: 1, session_idle: idle, ..HttpOptions::default() };
    let site = Site::with(options).await;
    site.open("/mcp").await.ok().unwrap();
    // Full until the first session has been idle for long enough.
    while site.open("/mcp").await.is_err() {}
}

#[tokio::test]
async fn a_result_that_finished_while_the_client_was_away_is_not_lost() {
    let site = Site::new().await;
    let session = site.open("/mcp").await.ok().unwrap();
    let held = held("legacy resume");
    let ours = [("Mcp-Session-Id", session.as_str())];
    let hold = call(7, "hold", json!({ "key": "legacy resume" }));
    let mut reply = site.post("/mcp", &ours, &hold).await;
    let (seen, nothing) = reply.event().await.unwrap();
    assert!(nothing.is_null());
    held.started.notified().await;
    drop(reply);
    held.release.notify_one();
    let resume = [ours[0], ("Accept", "text/event-stream"), ("Last-Event-ID", &seen)];
    let mut reply = site.ask("GET", "/mcp", &resume, "").await;
    let answer = reply.message().await.unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["structuredContent"]["released"], true);
    assert!(reply.event().await.is_none(), "the stream ends with the answer");
}

#[tokio::test]
async fn a_legacy_subscription_speaks_on_the_standalone_stream() {
    let site = Site::new().await;
    let session = site.open("/mcp").await.ok().unwrap();
    let ours = [("Mcp-Session-Id", session.as_str())];
    let made = site.post("/mcp", &ours, &call(1, "create", json!({ "title": "t" }))).await;
    let made = { made }.message().await.unwrap();
    let task = &made["result"]["structuredContent"]["id"];
    let uri = format!("callboard://tasks/{}", task.as_str().unwrap());
    let listen = [ours[0], ("Accept", "text/event-stream")];
    let mut stream = site.ask("GET", "/mcp", &listen, "").await;
    assert_eq!(stream.status, 200);
    let subscribe = json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": { "uri": uri } });
    let mut subscribed = site.post("/mcp", &ours, &subscribe).await;
    assert_eq!(subscribed.message().await.unwrap()["result"], json!({}));
    let mut claimed = site.post("/mcp", &ours, &call(3, "claim", json!({ "id": task }))).await;
    assert_eq!(claimed.message().await.unwrap()["result"]["isError"], false);
    let update = stream.message().await.unwrap();
    assert_eq!(update["method"], "notifications/resources/updated");
    assert_eq!(update["params"]["uri"], uri);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_streams_and_lets_calls_finish() {
    let site = Site::new().await;
    let held = held("shutdown");
    let session = site.open("/mcp").await.ok().unwrap();
    let ours = [("Mcp-Session-Id", session.as_str()), ("Accept", "text/event-stream")];
    let mut standalone = site.ask("GET", "/mcp", &ours, "").await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = site.modern("/mcp", 1, "subscriptions/listen", filter).await;
    let accepted = listening.message().await.unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    let hold = json!({ "name": "hold", "arguments": { "key": "shutdown" } });
    let calling = site.modern("/mcp", 2, "tools/call", hold);
    let ending = async {
        held.started.notified().await;
        site.shutdown.cancel();
        let last = listening.message().await.unwrap();
        assert_eq!(last["result"]["resultType"], "complete", "{last}");
        while standalone.event().await.is_some() {}
        held.release.notify_one();
    };
    let (answer, ()) = tokio::join!(calling, ending);
    assert_eq!(answer.json().await["result"]["structuredContent"]["released"], true);
    site.server.await.unwrap().unwrap();
}
