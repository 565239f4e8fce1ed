//! The ways to a server: one long-lived process over stdio with all toolsets, or over HTTP with a session for each
//! toolset and calls without one.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use ureq::Agent;

use crate::ground::Ground;
use crate::http::{Server, answer_of, modern};
use crate::peer::Peer;
use crate::process::{PATIENCE, Watched};
use crate::seeded::Rng;

const TOOLSETS: &[&str] = &["graph", "execution", "board", "relay", "crew"];
const VERSION: &str = "2025-11-25";

pub enum Way {
    Stdio(Peer),
    Http { server: Server, agent: Agent, sessions: Vec<Session> },
}

/// One conversation with the server.
pub struct Session {
    url: String,
    id: String,
}

pub struct Lane {
    pub ground: Ground,
    pub watched: Watched,
    way: Way,
    next: u64,
    /// For each conversation: the tools with their schemas, the prompts and the templates of resources.
    pub tools: Vec<Vec<(String, Value)>>,
    pub prompts: Vec<Value>,
}

impl Lane {
    pub fn stdio(ground: Ground) -> Self {
        let errors = ground.path().join("stderr");
        let mut mcp = ground.program();
        mcp.args(["mcp", "--toolsets", "all", "--actor", "agent:boss", "--lane", "admin"]);
        let mut peer = Peer::with_errors_to(mcp, File::create(&errors).unwrap().into());
        peer.hello();
        let watched = Watched::new(peer.child.id(), &errors);
        Self::over(ground, watched, Way::Stdio(peer))
    }

    pub fn http(ground: Ground) -> Self {
        let (server, errors) = serve(&ground);
        let agent = patient_agent();
        let url = |toolset: &&str| format!("{}/mcp/{toolset}?actor=agent:boss", server.url);
        let sessions = TOOLSETS.iter().map(url).map(|url| Session::open(&agent, url)).collect();
        let watched = Watched::new(server.child.id(), &errors);
        Self::over(ground, watched, Way::Http { server, agent, sessions })
    }

    fn over(ground: Ground, watched: Watched, way: Way) -> Self {
        let mut lane =
            Self { ground, watched, way, next: 1, tools: Vec::new(), prompts: Vec::new() };
        for session in 0..lane.sessions() {
            let tools = lane.ask(session, "tools/list", &json!({}))["result"]["tools"].take();
            let tools = tools.as_array().expect("a list of tools").iter();
            let schema = |tool: &Value| {
                (tool["name"].as_str().unwrap().to_owned(), tool["inputSchema"].clone())
            };
            lane.tools.push(tools.map(schema).collect());
            let prompts = lane.ask(session, "prompts/list", &json!({}))["result"]["prompts"].take();
            lane.prompts.extend(prompts.as_array().into_iter().flatten().cloned());
        }
        lane
    }

    /// How many conversations there are.
    pub fn sessions(&self) -> usize {
        match &self.way {
            Way::Stdio(_) => 1,
            Way::Http { sessions, .. } => sessions.len(),
        }
    }

    /// Any of the conversations, the ones with more tools more often.
    pub fn any_session(&self, rng: &mut Rng) -> usize {
        let all = self.tools.iter().enumerate();
        let of_tools: Vec<usize> =
            all.flat_map(|(at, tools)| std::iter::repeat_n(at, tools.len())).collect();
        *rng.pick(&of_tools)
    }

    /// Sends a request and returns its answer: JSON-RPC 2.0 with the id of the request, in time.
    pub fn ask(&mut self, session: usize, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = match &mut self.way {
            Way::Stdio(peer) => {
                peer.send(&request);
                answer_on(peer, id)
            }
            Way::Http { server, agent, sessions } => match method {
                "tools/call" if id.is_multiple_of(2) => {
                    call_alone(agent, &sessions[session].url, request)
                }
                _ => sessions[session].ask(agent, &server.url, &request),
            },
        };
        self.watched.answered();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }
}

/// Starts `serve` on the ground; returns the file with its stderr, too.
pub fn serve(ground: &Ground) -> (Server, PathBuf) {
    let errors = ground.path().join("stderr");
    let mut serve = ground.program();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--lane", "admin"]);
    serve.stderr(Stdio::from(File::create(&errors).unwrap()));
    (Server::over(serve), errors)
}

pub fn patient_agent() -> Agent {
    let agent = Agent::config_builder().http_status_as_error(false).max_redirects(0);
    agent.timeout_global(Some(PATIENCE)).build().into()
}

/// The answer to a request on stdio. Notifications are dropped, so that a long test does not keep them.
fn answer_on(peer: &mut Peer, id: u64) -> Value {
    loop {
        let message = peer.receive().expect("the server lives and answers in time");
        if message.get("method").is_none() {
            assert_eq!(message["id"], id, "an answer that nothing asked for: {message}");
            return message;
        }
    }
}

impl Session {
    fn open(agent: &Agent, url: String) -> Self {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }});
        let request = agent.post(&url).header("Accept", "application/json, text/event-stream");
        let answer = request.send_json(&hello).unwrap();
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let session = Self { url, id };
        let began = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(agent, &began).status(), 202);
        session
    }

    fn post(&self, agent: &Agent, message: &Value) -> ureq::http::Response<ureq::Body> {
        let request = agent.post(&self.url).header("Accept", "application/json, text/event-stream");
        let request =
            request.header("Mcp-Session-Id", &self.id).header("MCP-Protocol-Version", VERSION);
        request.send_json(message).unwrap_or_else(|error| panic!("{error}: {message}"))
    }

    fn ask(&self, agent: &Agent, server: &str, request: &Value) -> Value {
        let mut response = self.post(agent, request);
        let status = response.status();
        assert!(!status.is_server_error(), "{status} of {server} for {request}");
        answer_of(&mut response)
            .unwrap_or_else(|| panic!("{status} without an answer for {request}"))
    }
}

/// A tool call of the modern era, which needs no session.
fn call_alone(agent: &Agent, url: &str, mut request: Value) -> Value {
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let name = request["params"]["name"].as_str().expect("a tool").to_owned();
    let sent = modern(agent, url, "tools/call").header("Mcp-Name", &name).send_json(&request);
    let mut response = sent.unwrap_or_else(|error| panic!("{error}: {request}"));
    let status = response.status();
    assert!(!status.is_server_error(), "{status} for {request}");
    answer_of(&mut response).unwrap_or_else(|| panic!("{status} without an answer for {request}"))
}
