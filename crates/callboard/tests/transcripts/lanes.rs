//! The ways a call can reach the engine: directly, over stdio's JSON lines, over HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use callboard_domain::actor::Actor;
use callboard_domain::rights::Rights;
use callboard_engine::context::{OpContext, Principal, RETRY_KEY};
use callboard_surface::front::{Front, ToolReply};
use callboard_surface::http::{self, Gate, GateOptions, HttpDoors, HttpOptions};
use callboard_surface::mcp::McpOptions;
use callboard_surface::retry::ToolRequest;
use callboard_surface::stdio::{StdioIdentity, serve_streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Direct,
    Stdio,
    Http,
}

impl Transport {
    pub const ALL: [Transport; 3] = [Transport::Direct, Transport::Stdio, Transport::Http];

    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Direct => "direct",
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        }
    }
}

/// A tool's answer, or its refusal.
pub type Reply = Result<Value, Value>;

pub struct Lane {
    front: Arc<Front>,
    kind: Kind,
    stop: CancellationToken,
    /// The rights of actors with other rights than the default.
    rights: std::sync::Mutex<HashMap<Actor, Rights>>,
}

enum Kind {
    Direct,
    Stdio(Mutex<HashMap<Actor, Arc<StdioClient>>>),
    /// Without tokens all callers of a server have equal rights, so there is one server for each set of rights.
    Http(Mutex<Vec<(Rights, String)>>),
}

fn options() -> McpOptions {
    McpOptions {
        version: "test".into(),
        instructions: String::new(),
        task_handles: true,
        fixtures: false,
    }
}

impl Lane {
    pub async fn open(transport: Transport, front: Arc<Front>) -> Self {
        let stop = CancellationToken::new();
        let kind = match transport {
            Transport::Direct => Kind::Direct,
            Transport::Stdio => Kind::Stdio(Mutex::default()),
            Transport::Http => Kind::Http(Mutex::default()),
        };
        Self { front, kind, stop, rights: std::sync::Mutex::default() }
    }

    pub async fn grant(&self, who: Actor, rights: Rights) {
        if let Kind::Stdio(clients) = &self.kind {
            clients.lock().await.remove(&who);
        }
        self.rights.lock().expect("not poisoned").insert(who, rights);
    }

    fn principal(&self, who: &Actor) -> Principal {
        let rights = self.rights.lock().expect("not poisoned").get(who).cloned();
        Principal { rights: rights.unwrap_or_default(), ..Principal::local(who.clone()) }
    }

    async fn url_for(&self, servers: &Mutex<Vec<(Rights, String)>>, who: &Actor) -> String {
        let rights = self.principal(who).rights;
        let mut servers = servers.lock().await;
        if let Some((_, url)) = servers.iter().find(|(known, _)| *known == rights) {
            return url.clone();
        }
        let url = listen(&self.front, rights.clone(), &self.stop).await;
        servers.push((rights, url.clone()));
        url
    }

    pub async fn call(&self, who: &Actor, tool: &str, asked: ToolRequest) -> Reply {
        match &self.kind {
            Kind::Direct => self.call_directly(who, tool, asked).await,
            Kind::Stdio(clients) => {
                let client = {
                    let mut clients = clients.lock().await;
                    match clients.get(who) {
                        Some(client) => client.clone(),
                        None => {
                            let client = self.connect(who).await;
                            clients.insert(who.clone(), client.clone());
                            client
                        }
                    }
                };
                let mut params = json!({"name": tool, "arguments": asked.arguments});
                if let Some(key) = asked.key {
                    params["_meta"] = json!({ RETRY_KEY: key });
                }
                tool_reply(client.request("tools/call", params).await)
            }
            Kind::Http(servers) => {
                let url = self.url_for(servers, who).await;
                let (url, tool) = (format!("{url}/mcp?actor={who}"), tool.to_owned());
                let post = move || post(&url, &tool, &asked);
                tool_reply(tokio::task::spawn_blocking(post).await.expect("the client lives"))
            }
        }
    }

    /// The status and the answer of `POST /mcp/execute`.
    pub async fn execute(&self, body: String) -> (u16, Value) {
        let nobody = "human:nobody".parse().expect("an actor");
        let url = listen(&self.front, self.principal(&nobody).rights, &self.stop).await;
        let post = move || {
            let agent: ureq::Agent =
                ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let mut response = agent
                .post(format!("{url}/mcp/execute"))
                .header("Content-Type", "application/json")
                .send(&body)
                .expect("the server answers");
            let answer = response.body_mut().read_json().expect("an envelope");
            (response.status().as_u16(), answer)
        };
        tokio::task::spawn_blocking(post).await.expect("the client lives")
    }

    async fn call_directly(&self, who: &Actor, tool: &str, asked: ToolRequest) -> Reply {
        let context = |tool| OpContext::new(self.principal(who), tool);
        match self.front.call(tool, asked, context).await {
            Ok(ToolReply::Done(value)) => Ok(value),
            Ok(ToolReply::Refused(value)) => Err(value),
            Err(unknown) => {
                Err(json!({"code": "-32602", "message": format!("unknown tool: {}", unknown.0)}))
            }
        }
    }

    async fn connect(&self, who: &Actor) -> Arc<StdioClient> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let identity = StdioIdentity::Fixed(self.principal(who));
        let front = self.front.clone();
        tokio::spawn(serve_streams(front, options(), identity, input, output, self.stop.clone()));
        StdioClient::start(ours).await
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listen(front: &Arc<Front>, rights: Rights, stop: &CancellationToken) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback listens");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let nobody = "human:nobody".parse().expect("an actor");
    let nobody = Principal { rights, ..Principal::local(nobody) };
    let gate = Gate::new(front.engine(), nobody, GateOptions::default());
    let front = front.clone();
    let doors = HttpDoors {
        front_for: Arc::new(move |_| Some(front.clone())),
        gate: Arc::new(gate),
        ready: Arc::new(|| Box::pin(async { Ok(()) })),
    };
    let http_options = HttpOptions { shutdown: stop.clone(), ..HttpOptions::default() };
    let router = http::router(http_options, options(), doors, axum::Router::new());
    tokio::spawn(http::serve_http(listener, router, Default::default(), stop.clone()));
    url
}

/// One stateless request of the modern protocol era.
fn post(url: &str, tool: &str, asked: &ToolRequest) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "transcript", "version": "1"},
    });
    if let Some(key) = &asked.key {
        meta[RETRY_KEY] = key.clone();
    }
    let params = json!({"name": tool, "arguments": asked.arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut response = agent
        .post(url)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .send_json(&body)
        .expect("the server answers");
    let text = response.body_mut().read_to_string().expect("a readable body");
    let json = match text.trim_start().starts_with('{') {
        true => text.as_str(),
        // A stream: the answer is the last event.
        false => text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(""),
    };
    serde_json::from_str(json).unwrap_or_else(|_| panic!("not an answer: {text}"))
}

/// The tool's result in a JSON-RPC answer to `tools/call`; its text copy must be equal.
fn tool_reply(answer: Value) -> Reply {
    if let Some(error) = answer.get("error") {
        let code = error["code"].to_string();
        return Err(json!({"code": code, "message": error["message"]}));
    }
    let result = &answer["result"];
    let structured = result["structuredContent"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text copy");
    let copy: Value = serde_json::from_str(text).expect("the text copy is JSON");
    assert_eq!(copy, structured, "text and structured content differ");
    if result["isError"].as_bool() == Some(true) { Err(structured) } else { Ok(structured) }
}

/// A client of the legacy protocol era: handshake, then requests by number.
pub struct StdioClient {
    next: AtomicU64,
    output: Mutex<WriteHalf<DuplexStream>>,
    waiting: Arc<std::sync::Mutex<HashMap<u64, oneshot::Sender<Value>>>>,
}

impl StdioClient {
    async fn start(stream: DuplexStream) -> Arc<Self> {
        let (input, output) = tokio::io::split(stream);
        let waiting = Arc::default();
        tokio::spawn(receive(input, Arc::clone(&waiting)));
        let client =
            Arc::new(Self { next: AtomicU64::new(1), output: Mutex::new(output), waiting });
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "transcript", "version": "1"},
        });
        client.request("initialize", hello).await;
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        self.waiting.lock().expect("not poisoned").insert(id, reply);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        answer.await.expect("the server answers")
    }

    async fn send(&self, message: Value) {
        let line = format!("{message}\n");
        self.output.lock().await.write_all(line.as_bytes()).await.expect("the server reads");
    }
}

async fn receive(
    input: ReadHalf<DuplexStream>,
    waiting: Arc<std::sync::Mutex<HashMap<u64, oneshot::Sender<Value>>>>,
) {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("only JSON on the wire");
        let reply =
            message["id"].as_u64().and_then(|id| waiting.lock().expect("not poisoned").remove(&id));
        if let Some(reply) = reply {
            let _ = reply.send(message);
        }
    }
}
