//! Request bodies that are too large or cut short: the client always reads the answer, and nothing
//! is executed.

use std::io;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::web::{Reply, Site};

const DOORS: [&str; 3] = ["/mcp", "/mcp/graph", "/mcp/execute"];
/// Far more than the kernel buffers on both sides.
const LARGE: usize = 20_000_000;
const CHUNK: usize = 1_000_000;

fn head(site: &Site, path: &str, more: &str) -> String {
    let kind =
        if path == "/login" { "application/x-www-form-urlencoded" } else { "application/json" };
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\n\
         Accept: application/json, text/event-stream\r\n{more}\r\n",
        site.address
    )
}

/// Sends everything before it reads anything, as simple clients do.
async fn send_all(site: &Site, path: &str, is_chunked: bool) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(site.address).await?;
    let length = format!("Content-Length: {LARGE}\r\n");
    let more = if is_chunked { "Transfer-Encoding: chunked\r\n" } else { &length };
    stream.write_all(head(site, path, more).as_bytes()).await?;
    let chunk = vec![b' '; CHUNK];
    for _ in 0..LARGE / CHUNK {
        if is_chunked {
            stream.write_all(format!("{CHUNK:x}\r\n").as_bytes()).await?;
        }
        stream.write_all(&chunk).await?;
        if is_chunked {
            stream.write_all(b"\r\n").await?;
        }
    }
    if is_chunked {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(Reply::read(stream).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_answered_while_it_is_sent() {
    let site = Site::new().await;
    for path in DOORS.into_iter().chain(["/login"]) {
        for is_chunked in [false, true] {
            let what = format!("{path}, chunked: {is_chunked}");
            let reply = send_all(&site, path, is_chunked).await;
            let reply = reply.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(reply.status, 413, "{what}");
            assert_eq!(reply.header("connection"), Some("close"), "{what}");
            if path == "/login" {
                continue;
            }
            let body = reply.json().await;
            let message = body["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("larger than"), "{what}: {body}");
        }
    }
}

/// A client that asks first sends nothing, and is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let site = Site::new().await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let more = format!("Content-Length: {LARGE}\r\nExpect: 100-continue\r\n");
    stream.write_all(head(&site, "/mcp", &more).as_bytes()).await.unwrap();
    assert_eq!(Reply::read(stream).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_cut_short_is_refused() {
    let site = Site::new().await;
    // Whole as JSON: only its length says that bytes are missing.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for path in DOORS {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let more = format!("Content-Length: {}\r\n", call.len() + 100);
        stream.write_all(format!("{}{call}", head(&site, path, &more)).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let reply = Reply::read(stream).await;
        assert_eq!(reply.status, 400, "{path}");
        let body = reply.json().await;
        let code: Value =
            if path == "/mcp/execute" { "INVALID_INPUT".into() } else { (-32700).into() };
        assert_eq!(body["error"]["code"], code, "{path}: {body}");
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("cut short"), "{path}: {body}");
    }
}
