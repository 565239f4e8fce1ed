//! Notices of jobs in both eras: their receivers, order and number.

use std::collections::HashMap;

use callboard_domain::event::EventName;
use callboard_engine::context::Principal;
use callboard_surface::http::HttpOptions;
use serde_json::{Value, json};

use crate::lines::{Client, modern};
use crate::office::{Office, spec};
use crate::web::{Reply, Site};
use crate::world::principal;

async fn submit(client: &mut Client, id: i64, key: &str) -> String {
    let answer = client.call(id, "jobs_submit", spec(key)).await;
    let job = &answer["result"]["structuredContent"]["jobId"];
    job.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A notice in short, `status 2`, `patch.diff 3`, `job/finished 6`: its subject and the step of the job. Its version
/// must be the number of that step's event.
async fn short(office: &Office, message: &Value) -> String {
    let params = &message["params"];
    let version = params["stateVersion"].as_u64().unwrap();
    let uri = params["uri"].as_str().unwrap_or_default();
    let job = params["jobId"].as_str().or_else(|| uri.split('/').nth(3)).unwrap();
    let step = office.step(job, version).await;
    match message["method"].as_str().unwrap_or_else(|| panic!("{message}")) {
        "notifications/resources/updated" => format!("{} {step}", uri.rsplit('/').next().unwrap()),
        other => format!("{} {step}", other.trim_start_matches("notifications/")),
    }
}

async fn heard(office: &Office, client: &mut Client, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(short(office, &client.receive().await).await);
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
    assert_eq!(heard(&office, &mut client, 2).await, ["status 1", "status 2"]);
    office.let_go();
    assert_eq!(heard(&office, &mut client, 7).await, REST[..7]);
    let last = client.receive().await;
    assert_eq!(short(&office, &last).await, REST[7]);
    let params = last["params"].as_object().unwrap();
    let keys: Vec<&str> = params.keys().map(String::as_str).collect();
    let all = "jobId state summary artifacts stateVersion startedAt finishedAt durationMs attempt";
    assert_eq!(keys, all.split(' ').collect::<Vec<_>>());
    assert_eq!(params["artifacts"].as_object().unwrap().len(), 3);
    let uri = format!("mcp://jobs/{job}/status");
    let read = client.request(2, "resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap()["stateVersion"],
        params["stateVersion"]
    );
    client.end().await;
}

/// A client may drop every message with a known version, whichever job it is about.
#[tokio::test(flavor = "multi_thread")]
async fn no_two_jobs_ever_show_the_same_version() {
    let office = Office::open().await;
    let mut client = office.legacy().await;
    let mut seen = HashMap::new();
    for (id, key) in [(1, "a"), (2, "b"), (3, "c")] {
        let job = submit(&mut client, id, key).await;
        office.let_go();
        loop {
            let message = client.receive().await;
            let version = message["params"]["stateVersion"].as_u64().unwrap();
            let of = seen.entry(version).or_insert_with(|| job.clone());
            assert_eq!(*of, job, "{message}");
            if message["params"]["jobId"] == job {
                break;
            }
        }
    }
    let listed = client.call(4, "jobs_list", json!({})).await;
    let items = listed["result"]["structuredContent"]["items"].as_array().unwrap().clone();
    for item in items {
        let of = &seen[&item["stateVersion"].as_u64().unwrap()];
        assert_eq!(item["id"], **of, "{item}");
    }
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_subscribes_hears_how_it_is_and_then_the_rest() {
    let office = Office::open().await;
    let (mut ana, mut bob) = (office.legacy().await, office.legacy().await);
    let job = submit(&mut ana, 1, "a").await;
    assert_eq!(heard(&office, &mut ana, 2).await, ["status 1", "status 2"]);
    let uri = format!("mcp://jobs/{job}/status");
    let answer = bob.request(2, "resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(heard(&office, &mut bob, 1).await, ["status 2"]);
    office.let_go();
    let status = ["status 3", "status 4", "status 5", "status 6", "job/finished 6"];
    assert_eq!(heard(&office, &mut bob, 5).await, status);
    assert_eq!(heard(&office, &mut ana, 8).await, REST);

    // A client that unsubscribed gets no notice; its next message is an answer.
    bob.request(3, "resources/unsubscribe", json!({ "uri": uri })).await;
    let job = submit(&mut ana, 4, "b").await;
    let uri = format!("mcp://jobs/{job}/status");
    bob.request(5, "resources/subscribe", json!({ "uri": uri })).await;
    bob.receive().await;
    bob.request(6, "resources/unsubscribe", json!({ "uri": uri })).await;
    assert_eq!(heard(&office, &mut ana, 2).await, ["status 1", "status 2"]);
    let cancel = json!({ "name": "jobs_cancel", "arguments": { "jobId": job } });
    ana.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": cancel })).await;
    // The answer may come before, between or after the notices.
    let mut said = Vec::new();
    for _ in 0..3 {
        let message = ana.receive().await;
        if message["id"].is_null() {
            said.push(message);
        }
    }
    let words = [short(&office, &said[0]).await, short(&office, &said[1]).await];
    assert_eq!(words, ["status 3", "job/failed 3"]);
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
        said.push(short(&office, &message).await);
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
        said.push(short(&office, &stream.message().await.unwrap()).await);
    }
    for last in ["patch.diff 3", "out.md 4", "logs.txt 5", "status 6"] {
        assert_eq!(said.iter().filter(|said| *said == last).count(), 1, "{said:?}");
    }
    assert_eq!(said.last().map(String::as_str), Some("job/finished 6"));
}

fn uri_of(job: &str) -> String {
    format!("mcp://jobs/{job}/status")
}

async fn said_on(office: &Office, stream: &mut Reply, last: &str) -> Vec<String> {
    let mut said = Vec::new();
    while said.last().is_none_or(|said: &String| said != last) {
        said.push(short(office, &stream.message().await.unwrap()).await);
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_session_hears_on_its_stream() {
    let office = Office::open().await;
    let site = Site::of(&office.world, HttpOptions::default()).await;
    let mut ana = office.legacy().await;
    let job = submit(&mut ana, 1, "a").await;
    assert_eq!(heard(&office, &mut ana, 2).await, ["status 1", "status 2"]);
    let session = site.open("/mcp").await.ok().unwrap();
    let ours = ("Mcp-Session-Id", session.as_str());
    let mut stream = site.ask("GET", "/mcp", &[ours, ("Accept", "text/event-stream")], "").await;
    let ask = async |id: i64, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        site.post("/mcp", &[ours], &message).await.message().await.unwrap()
    };
    ask(1, "resources/subscribe", json!({ "uri": uri_of(&job) })).await;
    assert_eq!(said_on(&office, &mut stream, "status 2").await, ["status 2"]);
    office.let_go();
    let rest = said_on(&office, &mut stream, "job/finished 6").await;
    assert_eq!(rest, ["status 3", "status 4", "status 5", "status 6", "job/finished 6"]);

    // A client gets no notice of a job that it left; the next one is about another.
    let left = submit(&mut ana, 2, "hangs").await;
    let next = submit(&mut ana, 3, "hangs too").await;
    for (id, job) in [(2, &left), (3, &next)] {
        ask(id, "resources/subscribe", json!({ "uri": uri_of(job) })).await;
        assert!(short(&office, &stream.message().await.unwrap()).await.starts_with("status"));
    }
    ask(4, "resources/unsubscribe", json!({ "uri": uri_of(&left) })).await;
    for (id, job) in [(4, &left), (5, &next)] {
        ana.call(id, "jobs_cancel", json!({ "jobId": job })).await;
    }
    loop {
        let message = stream.message().await.unwrap();
        assert!(!message.to_string().contains(&left), "{message}");
        if message["params"]["jobId"] == next {
            break;
        }
    }
    ana.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_stream_over_http_carries_updates_alone() {
    let office = Office::open().await;
    let site = Site::of(&office.world, HttpOptions::default()).await;
    let call = async |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        site.modern("/mcp", 1, "tools/call", params).await.json().await["result"]
            ["structuredContent"]
            .clone()
    };
    let job = call("jobs_submit", spec("a")).await["jobId"].as_str().unwrap().to_owned();
    let other = call("jobs_submit", spec("hangs")).await["jobId"].as_str().unwrap().to_owned();
    let uris = [uri_of(&job), uri_of(&other), "mcp://jobs/x/y/z".to_owned()];
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    let mut stream = site.modern("/mcp", 7, "subscriptions/listen", filter).await;
    let first = stream.message().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    let accepted = &first["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*accepted, json!(uris[..2]), "{first}");
    office.let_go();
    let mut said: Vec<String> = Vec::new();
    let mut canceled = false;
    loop {
        let message = stream.message().await.unwrap();
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, 7, "{message}");
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        let step = short(&office, &message).await;
        if message["params"]["uri"] == uris[0] {
            said.push(step);
        } else if canceled && step == "status 3" {
            // After that, so only the status told the end of the first job.
            break;
        }
        if said.last().is_some_and(|last| last == "status 6") && !canceled {
            call("jobs_cancel", json!({ "jobId": other })).await;
            canceled = true;
        }
    }
    let steps = [3, 4, 5, 6].map(|step| format!("status {step}"));
    assert!(said.ends_with(&steps), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_job_to_be_made_hears_of_it() {
    let office = Office::open().await;
    let (mut ana, mut bob) = (office.legacy().await, office.legacy().await);
    let uri = uri_of(&office.next_job());
    let answer = bob.request(1, "resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer["result"].is_object(), "{answer}");
    let job = submit(&mut ana, 2, "a").await;
    assert_eq!(uri_of(&job), uri, "as foretold");
    office.let_go();
    let steps: Vec<String> = (1..=6).map(|version| format!("status {version}")).collect();
    assert_eq!(heard(&office, &mut bob, 6).await, steps);
    assert_eq!(heard(&office, &mut bob, 1).await, ["job/finished 6"]);
    bob.end().await;
    ana.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_can_be_read() {
    let office = Office::open().await;
    let (mut ana, mut reader) = (office.legacy().await, office.legacy().await);
    let mut short_lived = spec("hangs");
    short_lived["spec"]["execution"]["ttlS"] = 1.into();
    office.let_go();
    for (arguments, state, reason) in [
        (spec("a"), "SUCCEEDED", Value::Null),
        (spec("conflicts"), "FAILED", json!("CONFLICT")),
        (short_lived, "EXPIRED", Value::Null),
    ] {
        let call = json!({ "name": "jobs_submit", "arguments": arguments });
        ana.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }))
            .await;
        let job = ana.receive().await["result"]["structuredContent"]["jobId"].clone();
        let uri = uri_of(job.as_str().unwrap());
        let mut last = 0;
        let end = loop {
            let message = ana.receive().await;
            let told = message["params"]["stateVersion"].as_u64().unwrap();
            assert!(told >= last, "{message} after {last}");
            last = told;
            let read = reader.request(2, "resources/read", json!({ "uri": uri })).await;
            let text = read["result"]["contents"][0]["text"].as_str().unwrap();
            let status: Value = serde_json::from_str(text).unwrap();
            assert!(status["stateVersion"].as_u64().unwrap() >= told, "{message}: {status}");
            if message["method"].as_str().unwrap().contains("/job/") {
                assert_eq!(status["state"], state);
                break message;
            }
        };
        assert_eq!(end["params"]["state"], state, "{end}");
        assert_eq!(end["params"]["reasonCode"], reason, "{end}");
        let is_there = end["params"].as_object().unwrap().contains_key("reasonCode");
        assert_eq!(is_there, !reason.is_null(), "{end}");
    }
    ana.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_has_the_number_of_the_era() {
    let office = Office::open().await;
    let mut ana = office.legacy().await;
    let job = submit(&mut ana, 1, "a").await;
    let stranger = Principal { org: "other".into(), ..principal("agent:test") };
    let mut stranger = Client::of(&office.world, stranger);
    let uri = uri_of(&job);
    let there = ana.request(2, "resources/read", json!({ "uri": uri })).await;
    assert!(there["result"].is_object(), "{there}");
    let modern_read = stranger.request(3, "resources/read", modern(json!({ "uri": uri }))).await;
    assert_eq!(modern_read["error"]["code"], -32602);
    assert_eq!(modern_read["error"]["data"]["code"], "RESOURCE_NOT_FOUND");
    let nothing = stranger.request(
        4,
        "tools/call",
        modern(json!({
            "name": "jobs_get", "arguments": { "jobId": job },
        })),
    );
    let nothing = nothing.await["result"].clone();
    assert_eq!(nothing["isError"], true);
    assert_eq!(nothing["structuredContent"]["code"], "JOB_NOT_FOUND");
    for what in ["artifacts/x.txt", "artifacts/..%2f..%2fkey", "artifacts/../status", "nothing"] {
        let uri = format!("mcp://jobs/{job}/{what}");
        let read = ana.request(5, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["error"]["code"], -32002, "{what}: {read}");
        assert_eq!(read["error"]["data"]["code"], "RESOURCE_NOT_FOUND");
    }
    for uri in [
        "",
        "patch.diff",
        "file:///etc/passwd",
        "mcp://jobs",
        "mcp://job/x/status",
        "callboard://tasks/TEST-01j8x2k7q7f3az",
        "callboard://nothing",
    ] {
        let wanted = json!({ "code": "RESOURCE_NOT_FOUND", "uri": uri });
        for method in ["resources/read", "resources/subscribe"] {
            let answer = ana.request(5, method, json!({ "uri": uri })).await;
            assert_eq!(answer["error"]["code"], -32002, "{method} {uri}: {answer}");
            assert_eq!(answer["error"]["data"], wanted, "{method} {uri}");
        }
        let answer = stranger.request(5, "resources/read", modern(json!({ "uri": uri }))).await;
        assert_eq!(answer["error"]["code"], -32602, "{uri}: {answer}");
        assert_eq!(answer["error"]["data"], wanted, "{uri}");
    }
    let uri = format!("mcp://jobs/{job}/artifacts/patch.diff");
    let read = ana.request(6, "resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["error"]["code"], -32002, "{read}");
    assert_eq!(read["error"]["data"]["code"], "ARTIFACT_MISSING");
    assert_eq!(read["error"]["data"]["retryable"], true);
    let message = read["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("read it again when jobs_get says"), "{message}");
    ana.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_problem_of_a_spec_is_data() {
    let office = Office::open().await;
    let mut client = office.legacy().await;
    let mut bad = spec("a");
    bad["spec"]["task"]["title"] = "x".repeat(201).into();
    bad["spec"]["execution"]["ttlS"] = 0.into();
    bad["spec"]["tasks"] = json!({});
    let answer = client.call(1, "jobs_submit", bad).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let body = &answer["result"]["structuredContent"];
    assert_eq!((&body["code"], &body["retryable"]), (&json!("INVALID_SPEC"), &json!(false)));
    let problems = body["details"]["problems"].as_array().unwrap();
    let mut paths: Vec<_> = problems.iter().map(|one| one["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["execution.ttlS", "task.title", "tasks"]);
    assert!(problems.iter().all(|one| one["problem"].is_string()), "{body}");
    let mut edge = spec("a");
    edge["spec"]["task"]["title"] = "x".repeat(200).into();
    edge["spec"]["task"]["description"] = "x".repeat(10_000).into();
    let answer = client.call(2, "jobs_submit", edge).await;
    assert_eq!(answer["result"]["structuredContent"]["deduplicated"], false, "{answer}");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_twenty_jobs_unless_asked() {
    let office = Office::open().await;
    let mut client = Client::in_world(&office.world).await;
    let mut call = async |tool: &str, arguments: Value| {
        let params = modern(json!({ "name": tool, "arguments": arguments }));
        client.request(1, "tools/call", params).await["result"]["structuredContent"].clone()
    };
    for n in 0..21 {
        call("jobs_submit", spec(&format!("hangs {n}"))).await;
    }
    for (arguments, items, has_more) in [
        (json!({}), 20, true),
        (json!({ "limit": 100 }), 21, false),
        (json!({ "offset": 20 }), 1, false),
        (json!({ "limit": 7, "offset": 14 }), 7, false),
        (json!({ "offset": 21 }), 0, false),
    ] {
        let page = call("jobs_list", arguments.clone()).await;
        assert_eq!(page["items"].as_array().unwrap().len(), items, "{arguments}");
        assert_eq!((&page["total"], &page["hasMore"]), (&json!(21), &json!(has_more)));
    }
    client.end().await;
}
