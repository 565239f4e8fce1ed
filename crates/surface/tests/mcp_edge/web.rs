//! A server on a free port, and a minimal HTTP client that can disconnect at any point.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use callboard_surface::http::{
    ConnectionLimits, Gate, GateOptions, HttpDoors, HttpOptions, router, serve_http,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lines::MODERN;
use crate::world::{World, options, principal};

pub struct Site {
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub server: JoinHandle<std::io::Result<()>>,
    /// How often readiness was probed.
    pub probes: Arc<AtomicUsize>,
    _world: Option<World>,
}

impl Site {
    pub async fn new() -> Self {
        Self::with(HttpOptions::default()).await
    }

    pub async fn with(http: HttpOptions) -> Self {
        let world = World::new().await;
        let site = Self::of(&world, http).await;
        Self { _world: Some(world), ..site }
    }

    /// A server for an existing world.
    pub async fn of(world: &World, http: HttpOptions) -> Self {
        Self::within(world, http, ConnectionLimits::default()).await
    }

    pub async fn within(world: &World, http: HttpOptions, limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = http.shutdown.clone();
        let front = world.front.clone();
        let local = principal("human:default");
        let probes = Arc::new(AtomicUsize::new(0));
        let counts = probes.clone();
        let doors = HttpDoors {
            front_for: Arc::new(move |names| {
                matches!(names, "" | "graph" | "crew").then(|| front.clone())
            }),
            gate: Arc::new(Gate::new(world.front.engine(), local, GateOptions::default())),
            ready: Arc::new(move || {
                counts.fetch_add(1, Ordering::SeqCst);
                Box::pin(async { Err("migrating".into()) })
            }),
        };
        let router = router(http, options(), doors, Router::new());
        let server = tokio::spawn(serve_http(listener, router, limits, shutdown.clone()));
        Self { address, shutdown, server, probes, _world: None }
    }

    /// Sends one request on a new connection.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        Reply::read(stream).await
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], message: &Value) -> Reply {
        let mut all = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend_from_slice(headers);
        self.ask("POST", path, &all, &message.to_string()).await
    }

    /// A modern request, with the headers that must match its body.
    pub async fn modern(&self, path: &str, id: i64, method: &str, params: Value) -> Reply {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let params = crate::lines::modern(params);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut headers = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        self.post(path, &headers, &message).await
    }

    /// Opens a legacy session and returns its id.
    pub async fn open(&self, path: &str) -> Result<String, Reply> {
        let params = crate::lines::hello("legacy");
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let reply = self.post(path, &[], &hello).await;
        match reply.header("mcp-session-id") {
            Some(id) => Ok(id.to_owned()),
            None => Err(reply),
        }
    }
}

/// A response whose body is read as far as the test wants.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Reply {
    pub async fn read(stream: TcpStream) -> Self {
        let mut body = BufReader::new(stream);
        let mut line = String::new();
        body.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
        let mut headers = Vec::new();
        loop {
            line.clear();
            body.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Self { status, headers, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub async fn text(mut self) -> String {
        let length = self.header("content-length").map(|length| length.parse().unwrap());
        if let Some(length) = length {
            let mut bytes = vec![0; length];
            self.body.read_exact(&mut bytes).await.unwrap();
            return String::from_utf8(bytes).unwrap();
        }
        let mut text = String::new();
        while let Some(chunk) = self.chunk().await {
            text.push_str(&chunk);
        }
        text
    }

    pub async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    async fn chunk(&mut self) -> Option<String> {
        let mut line = String::new();
        self.body.read_line(&mut line).await.ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
        let mut bytes = vec![0; length + 2];
        self.body.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }

    /// The next event of a stream: its id and its message; `None` when the stream is over.
    pub async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            let chunk = self.chunk().await?;
            let field = |name: &str| {
                chunk.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
            };
            // A comment only keeps the connection alive.
            if !chunk.starts_with(':') {
                let message = serde_json::from_str(field("data:")).unwrap_or_default();
                return Some((field("id:").to_owned(), message));
            }
        }
    }

    /// The first event that carries a message.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            let (_, message) = self.event().await?;
            if !message.is_null() {
                return Some(message);
            }
        }
    }
}
