//! What clients hear of jobs, in both eras: who, in which order, how often.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::event::EventName;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{Problem, RunVerdict};
use callboard_engine::ports::{AgentRunner, Asks, RunOrder, RunReport};
use callboard_surface::http::HttpOptions;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::lines::{Client, modern};
use crate::web::Site;
use crate::world::World;

/// Answers when it is let go.
struct Gated(Semaphore);

#[async_trait]
impl AgentRunner for Gated {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    async fn run(&self, _: RunOrder, _: Arc<dyn Asks>, stop: CancellationToken) -> RunReport {
        let stopped = tokio::select! {
            permit = self.0.acquire() => {
                permit.expect("never closed").forget();
                false
            }
            () = stop.cancelled() => true,
        };
        RunReport {
            verdict: if stopped { RunVerdict::Stopped } else { RunVerdict::Succeeded },
            summary: "Completed successfully with 1 line diff".into(),
            patch: Some("diff\n".into()),
            out: Some("# Test Plan\n".into()),
            logs: "worked\n".into(),
        }
    }

    async fn clean_up(&self) {}
}

struct Office {
    world: World,
    agent: Arc<Gated>,
    _stop: tokio_util::sync::DropGuard,
}

impl Office {
    async fn open() -> Self {
        let agent = Arc::new(Gated(Semaphore::new(0)));
        let world = World::with_agents(agent.clone()).await;
        let stop = CancellationToken::new();
        tokio::spawn(world.front.engine().clone().run_agents_until(stop.clone()));
        Self { world, agent, _stop: stop.drop_guard() }
    }

    fn let_go(&self) {
        self.agent.0.add_permits(1);
    }

    async fn legacy(&self) -> Client {
        let mut client = Client::in_world(&self.world).await;
        client.initialize().await;
        client
    }
}

pub fn spec(key: &str) -> Value {
    json!({"spec": {
        "repo": {
            "type": "git",
            "url": "https://example.org/x.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": "t", "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "m",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800,
        },
        "idempotencyKey": key,
    }})
}

async fn submit(client: &mut Client, id: i64, key: &str) -> String {
    let answer = client.call(id, "jobs_submit", spec(key)).await;
    let job = &answer["result"]["structuredContent"]["jobId"];
    job.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// `status 2`, `patch.diff 3`, `job/finished 6`.
fn short(message: &Value) -> String {
    let params = &message["params"];
    let version = &params["stateVersion"];
    match message["method"].as_str().unwrap_or_else(|| panic!("{message}")) {
        "notifications/resources/updated" => {
            let uri = params["uri"].as_str().unwrap();
            format!("{} {version}", uri.rsplit('/').next().unwrap())
        }
        other => format!("{} {version}", other.trim_start_matches("notifications/")),
    }
}

async fn heard(client: &mut Client, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(short(&client.receive().await));
    }
    all
}

const REST: [&str; 8] = [
    "status 3",
    "patch.diff 3",
    "status 4",
    "out.md 4",
    "status 5",
    "logs.txt 5",
    "status 6",
    "job/finished 6",
];

#[tokio::test(flavor = "multi_thread")]
async fn who_submits_hears_every_step_once_and_in_order() {
    let office = Office::open().await;
    let mut client = office.legacy().await;
    let job = submit(&mut client, 1, "a").await;
    assert_eq!(heard(&mut client, 2).await, ["status 1", "status 2"]);
    office.let_go();
    assert_eq!(heard(&mut client, 7).await, REST[..7]);
    let last = client.receive().await;
    assert_eq!(short(&last), REST[7]);
    let params = last["params"].as_object().unwrap();
    let keys: Vec<&str> = params.keys().map(String::as_str).collect();
    let all = "jobId state summary artifacts stateVersion startedAt finishedAt durationMs attempt";
    assert_eq!(keys, all.split(' ').collect::<Vec<_>>());
    assert_eq!(params["artifacts"].as_object().unwrap().len(), 3);
    let uri = format!("mcp://jobs/{job}/status");
    let read = client.request(2, "resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["stateVersion"], 6);
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_subscribes_hears_how_it_is_and_then_the_rest() {
    let office = Office::open().await;
    let (mut ana, mut bob) = (office.legacy().await, office.legacy().await);
    let job = submit(&mut ana, 1, "a").await;
    assert_eq!(heard(&mut ana, 2).await, ["status 1", "status 2"]);
    let uri = format!("mcp://jobs/{job}/status");
    let answer = bob.request(2, "resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(heard(&mut bob, 1).await, ["status 2"]);
    office.let_go();
    let status = ["status 3", "status 4", "status 5", "status 6", "job/finished 6"];
    assert_eq!(heard(&mut bob, 5).await, status);
    assert_eq!(heard(&mut ana, 8).await, REST);

    // One that left hears nothing; its next answer comes first.
    bob.request(3, "resources/unsubscribe", json!({ "uri": uri })).await;
    let job = submit(&mut ana, 4, "b").await;
    let uri = format!("mcp://jobs/{job}/status");
    bob.request(5, "resources/subscribe", json!({ "uri": uri })).await;
    bob.receive().await;
    bob.request(6, "resources/unsubscribe", json!({ "uri": uri })).await;
    assert_eq!(heard(&mut ana, 2).await, ["status 1", "status 2"]);
    let cancel = json!({ "name": "jobs_cancel", "arguments": { "jobId": job } });
    ana.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": cancel })).await;
    // The answer may come before, between or behind them.
    let mut said = Vec::new();
    for _ in 0..3 {
        let message = ana.receive().await;
        if message["id"].is_null() {
            said.push(message);
        }
    }
    assert_eq!(said.iter().map(short).collect::<Vec<_>>(), ["status 3", "job/failed 3"]);
    let keys: Vec<&String> = said[1]["params"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["jobId", "state", "summary", "stateVersion", "attempt"]);
    let next = bob.call(8, "jobs_list", json!({})).await;
    assert_eq!(next["id"], 8);
    bob.end().await;
    ana.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_not_there_yet_may_be_followed() {
    let office = Office::open().await;
    let mut client = office.legacy().await;
    let uri = "mcp://jobs/job_00000000000000000000000000/status";
    let answer = client.request(1, "resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer["result"].is_object(), "{answer}");
    for (id, uri) in [(2, "mcp://jobs/x/y/z"), (3, "mcp://jobs/job_1/artifacts/x")] {
        let answer = client.request(id, "resources/subscribe", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002);
        assert_eq!(answer["error"]["data"]["code"], "RESOURCE_NOT_FOUND");
    }
    let templates = client.request(4, "resources/templates/list", json!({})).await;
    let text = templates.to_string();
    for template in ["mcp://jobs/{jobId}/status", "mcp://jobs/{jobId}/artifacts/{name}"] {
        assert!(text.contains(template), "{text}");
    }
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_hears_what_it_listens_to() {
    let office = Office::open().await;
    let mut client = Client::in_world(&office.world).await;
    let call = |key: &str| modern(json!({ "name": "jobs_submit", "arguments": spec(key) }));
    let answer = client.request(1, "tools/call", call("a")).await;
    let job = answer["result"]["structuredContent"]["jobId"].as_str().unwrap().to_owned();
    let other = client.request(2, "tools/call", call("b")).await;
    assert_eq!(other["id"], 2, "nothing comes without listening");
    let uri = format!("mcp://jobs/{job}/status");
    let filter = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    client
        .send(json!({
            "jsonrpc": "2.0",
            "id": 3,
            "method": "subscriptions/listen",
            "params": modern(filter),
        }))
        .await;
    let first = client.receive().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    office.let_go();
    office.let_go();
    let mut said = Vec::new();
    while said.last().is_none_or(|last: &String| !last.starts_with("job/finished")) {
        let message = client.receive().await;
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, 3, "{message}");
        said.push(short(&message));
    }
    assert_eq!(said.last().map(String::as_str), Some("job/finished 6"));
    let missing = format!("mcp://jobs/{job}/artifacts/pr.json");
    let read = client.request(4, "resources/read", modern(json!({ "uri": missing }))).await;
    assert_eq!(read["error"]["code"], -32602);
    assert_eq!(read["error"]["data"]["code"], "ARTIFACT_MISSING");
    assert_eq!(read["error"]["data"]["retryable"], false);
    let patch = format!("mcp://jobs/{job}/artifacts/patch.diff");
    let read = client.request(5, "resources/read", modern(json!({ "uri": patch }))).await;
    assert_eq!(read["result"]["ttlMs"], 3_600_000, "{read}");
    assert_eq!(read["result"]["cacheScope"], "private");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_stream_hears_later_what_happened() {
    let office = Office::open().await;
    let site = Site::of(&office.world, HttpOptions::default()).await;
    let session = site.open("/mcp").await.ok().unwrap();
    let ours = ("Mcp-Session-Id", session.as_str());
    let params = json!({ "name": "jobs_submit", "arguments": spec("a") });
    let submit = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answer = site.post("/mcp", &[ours], &submit).await.message().await.unwrap();
    let job = answer["result"]["structuredContent"]["jobId"].as_str().unwrap().parse().unwrap();
    let mut feed = office.world.front.engine().run_feed(Some(job)).await.unwrap();
    office.let_go();
    while feed.next().await.unwrap().name != EventName::JobSucceeded {}

    let listen = [ours, ("Accept", "text/event-stream")];
    let mut stream = site.ask("GET", "/mcp", &listen, "").await;
    let mut said = Vec::new();
    while said.last().is_none_or(|last: &String| !last.starts_with("job/")) {
        said.push(short(&stream.message().await.unwrap()));
    }
    for last in ["patch.diff 3", "out.md 4", "logs.txt 5", "status 6"] {
        assert_eq!(said.iter().filter(|said| *said == last).count(), 1, "{said:?}");
    }
    assert_eq!(said.last().map(String::as_str), Some("job/finished 6"));
}
