//! A client that speaks JSON lines over an in-process pipe.

use std::sync::Arc;

use callboard_engine::context::Principal;
use callboard_surface::stdio::{StdioError, StdioIdentity, serve_streams};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{World, options, principal};

pub struct Client {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<Result<(), StdioError>>,
    pub stop: CancellationToken,
    _world: Option<World>,
}

pub const MODERN: &str = "2026-07-28";

impl Client {
    pub async fn new() -> Self {
        Self::known_as(StdioIdentity::Fixed(principal("agent:test"))).await
    }

    pub async fn anonymous() -> Self {
        Self::known_as(StdioIdentity::FromClient(Arc::new(Principal::local))).await
    }

    async fn known_as(identity: StdioIdentity) -> Self {
        let world = World::new().await;
        let client = Self::connected(&world, identity);
        Self { _world: Some(world), ..client }
    }

    /// One of several clients of a world.
    pub async fn in_world(world: &World) -> Self {
        Self::of(world, principal("agent:test"))
    }

    pub fn of(world: &World, principal: Principal) -> Self {
        Self::connected(world, StdioIdentity::Fixed(principal))
    }

    fn connected(world: &World, identity: StdioIdentity) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        let serving =
            serve_streams(world.front.clone(), options(), identity, read, write, stop.clone());
        let server = tokio::spawn(serving);
        let (output, input) = tokio::io::split(ours);
        Self { input, output: BufReader::new(output), server, stop, _world: None }
    }

    pub async fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).await.unwrap();
    }

    pub async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request and returns its answer; other messages on the way are dropped.
    pub async fn request(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    pub async fn initialize(&mut self) {
        let answer = self.request(0, "initialize", hello("test client")).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    pub async fn call(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Ends the input and returns the remaining messages of the server.
    pub async fn end(mut self) -> Vec<Value> {
        self.input.shutdown().await.unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).await.unwrap();
        self.server.await.unwrap().unwrap();
        rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub fn hello(name: &str) -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "unheardOf": {} },
        "clientInfo": { "name": name, "version": "1" },
    })
}

/// Parameters of a modern request.
pub fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "modern client", "version": "1" },
        "example.com/unheard-of": [1, 2, 3],
    });
    params
}
