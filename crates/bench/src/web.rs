//! Our own program as it serves over HTTP, with a minimal client: one request at a time on one connection, and no JSON
//! parser, so that it costs little of the machine it measures.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::peer::Peer;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A server with the toolset of the board, among others.
pub struct Served {
    peer: Peer,
    address: String,
}

impl Served {
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::of(Peer::spawn(folder, &["serve", "--listen", "127.0.0.1:0"])?)
    }

    /// A server that starts no agents; with a file, it writes every statement of its reads into it.
    pub fn without_agents(folder: &Path, trace: Option<&Path>) -> anyhow::Result<Self> {
        let arguments = ["serve", "--no-runner", "--listen", "127.0.0.1:0"];
        Self::of(Peer::spawn_traced(folder, &arguments, trace)?)
    }

    fn of(mut peer: Peer) -> anyhow::Result<Self> {
        let said = peer.receive()?;
        let (_, address) = said.trim().rsplit_once("http://").context("where it listens")?;
        let address = address.to_owned();
        Ok(Self { peer, address })
    }

    pub fn id(&self) -> u32 {
        self.peer.id()
    }

    pub async fn connect(&self) -> anyhow::Result<Line> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(Line(BufReader::new(stream)))
    }

    /// The request of one tool call, by a client that accepts a task as the answer or by one that does not.
    pub fn call(&self, tool: &str, arguments: &Value, takes_tasks: bool) -> String {
        self.call_in("board", tool, arguments, takes_tasks)
    }

    /// As `call`, of another toolset.
    pub fn call_in(
        &self,
        toolset: &str,
        tool: &str,
        arguments: &Value,
        takes_tasks: bool,
    ) -> String {
        let extensions = if takes_tasks { json!({TASKS: {}}) } else { json!({}) };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (body, address) = (body.to_string(), &self.address);
        format!(
            "POST /mcp/{toolset}?actor=agent:w0 HTTP/1.1\r\nHost: {address}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// The request of a page.
    pub fn page(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\n\r\n", self.address)
    }

    /// One value of `/metrics`.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let page = self.connect().await?.ask(&request).await?;
        let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        page.lines().find_map(of_name).with_context(|| format!("no {name} in /metrics"))
    }
}

pub struct Line(BufReader<TcpStream>);

impl Line {
    /// Sends a request and returns the body of its response.
    pub async fn ask(&mut self, request: &str) -> anyhow::Result<String> {
        self.0.write_all(request.as_bytes()).await?;
        let (mut head, mut length) = (String::new(), None);
        loop {
            head.clear();
            if self.0.read_line(&mut head).await? == 0 {
                bail!("the server hung up");
            }
            let line = head.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse::<usize>()?);
            }
        }
        let mut body = vec![0; length.context("an answer without a length")?];
        self.0.read_exact(&mut body).await?;
        Ok(String::from_utf8(body)?)
    }
}
