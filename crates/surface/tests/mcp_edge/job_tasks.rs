//! Jobs through the tasks extension: the id that `jobs_submit` returns is a task's.

use callboard_domain::rights::{Profile, Scope};
use callboard_engine::context::{Principal, Rights};
use callboard_surface::http::HttpOptions;
use serde_json::{Value, json};

use crate::lines::{Client, MODERN, modern};
use crate::office::{Office, spec};
use crate::tasks::knowing;
use crate::web::Site;
use crate::world::principal;

/// Submits a job and returns its id, which the answer also names as a task's.
async fn submit(client: &mut Client, arguments: Value) -> String {
    let params = knowing(json!({ "name": "jobs_submit", "arguments": arguments }));
    let answer = client.request(1, "tools/call", params).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    let job = &result["structuredContent"]["jobId"];
    let related = &result["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(*related, json!({ "taskId": job }), "{answer}");
    job.as_str().unwrap().to_owned()
}

async fn about(client: &mut Client, method: &str, job: &str, answers: Value) -> Value {
    let mut params = json!({ "taskId": job });
    if method == "tasks/update" {
        params["inputResponses"] = answers;
    }
    client.request(2, method, knowing(params)).await
}

async fn get(client: &mut Client, job: &str) -> Value {
    let answer = about(client, "tasks/get", job, Value::Null).await;
    assert_eq!(answer["result"]["taskId"], job, "{answer}");
    answer["result"].clone()
}

/// Polls until the task is as wanted.
async fn until(client: &mut Client, job: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let seen = get(client, job).await;
        if is_wanted(&seen) {
            return seen;
        }
    }
}

async fn end_of(client: &mut Client, job: &str) -> Value {
    until(client, job, |seen| seen["status"] != "working").await
}

async fn acknowledged(client: &mut Client, method: &str, job: &str, answers: Value) {
    let answer = about(client, method, job, answers).await;
    assert_eq!(answer["result"], json!({ "resultType": "complete" }), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_walks_from_working_to_completed() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let mut early = spec("succeeds");
    early["spec"]["execution"]["ttlS"] = 600.into();
    let job = submit(&mut client, early).await;
    let seen = until(&mut client, &job, |seen| seen["statusMessage"] == "RUNNING").await;
    assert_eq!(seen["status"], "working");
    assert_eq!(seen["ttlMs"], 600_000 + 86_400_000);
    assert_eq!(seen["pollIntervalMs"], 2000);
    assert!(seen.get("result").is_none(), "{seen}");
    office.let_go();
    let done = end_of(&mut client, &job).await;
    assert_eq!(done["status"], "completed");
    let result = &done["result"];
    assert_eq!(result["isError"], false);
    let artifact = |name: &str| format!("mcp://jobs/{job}/artifacts/{name}");
    let expected = json!({
        "jobId": job,
        "state": "SUCCEEDED",
        "summary": "Completed successfully with 1 line diff",
        "artifacts": {
            "patch": artifact("patch.diff"),
            "out": artifact("out.md"),
            "logs": artifact("logs.txt"),
        },
    });
    assert_eq!(result["structuredContent"], expected);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);
    // A finished job stays as it is.
    acknowledged(&mut client, "tasks/cancel", &job, Value::Null).await;
    acknowledged(&mut client, "tasks/update", &job, json!({ "ask_1": { "action": "accept" } }))
        .await;
    assert_eq!(get(&mut client, &job).await, done);
    // The tool and the extension agree.
    let params = modern(json!({ "name": "jobs_get", "arguments": { "jobId": job } }));
    let answer = client.request(3, "tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"]["state"], "SUCCEEDED");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_say_where_they_stand() {
    let office = Office::open().await;
    let mut client = office.client().await;
    // As many jobs as run at a time.
    for n in 0..3 {
        let mut hangs = spec("hangs");
        hangs["spec"]["idempotencyKey"] = format!("h{n}").into();
        let job = submit(&mut client, hangs).await;
        until(&mut client, &job, |seen| seen["statusMessage"] == "RUNNING").await;
    }
    submit(&mut client, spec("a")).await;
    let job = submit(&mut client, spec("b")).await;
    let seen = get(&mut client, &job).await;
    assert_eq!(seen["status"], "working");
    assert_eq!(seen["statusMessage"], "QUEUED, number 2 in the queue");
    acknowledged(&mut client, "tasks/cancel", &job, Value::Null).await;
    let over = get(&mut client, &job).await;
    assert_eq!(over["status"], "cancelled");
    assert_eq!(over["statusMessage"], "CANCELED: Canceled by user");
    assert!(over.get("result").is_none(), "{over}");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_or_came_too_late_is_a_result_with_its_reason() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let failed = submit(&mut client, spec("conflicts")).await;
    let mut short = spec("hangs");
    short["spec"]["execution"]["ttlS"] = 1.into();
    let expired = submit(&mut client, short).await;
    for (job, state, code, reason, summary) in [
        (failed, "FAILED", "CONFLICT", json!("CONFLICT"), "Patch does not apply cleanly"),
        (expired, "EXPIRED", "EXPIRED", Value::Null, "Exceeded TTL of 1s"),
    ] {
        let over = end_of(&mut client, &job).await;
        assert_eq!(over["status"], "completed", "{over}");
        assert_eq!(over["result"]["isError"], true);
        let content = &over["result"]["structuredContent"];
        assert_eq!(content["jobId"], job);
        assert_eq!((&content["state"], &content["code"]), (&json!(state), &json!(code)));
        assert_eq!((&content["reasonCode"], &content["summary"]), (&reason, &json!(summary)));
        assert!(content["artifacts"].is_object(), "{content}");
    }
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_its_key_once() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let job = submit(&mut client, spec("asks twice")).await;
    let seen = end_of(&mut client, &job).await;
    assert_eq!(seen["status"], "input_required");
    assert_eq!(seen["statusMessage"], "RUNNING: Waiting for an answer: Run make?");
    let asked = &seen["inputRequests"];
    assert_eq!(asked.as_object().unwrap().len(), 1, "{seen}");
    assert_eq!(asked["ask_1"]["method"], "elicitation/create");
    let params = &asked["ask_1"]["params"];
    assert_eq!((&params["mode"], &params["message"]), (&json!("form"), &json!("Run make?")));
    let allow = &params["requestedSchema"]["properties"]["allow"];
    assert_eq!((&allow["type"], &allow["description"]), (&json!("boolean"), &json!("make")));
    let odd = json!({ "ask_2": { "action": "accept" }, "x": 1, "ask_1": "yes" });
    acknowledged(&mut client, "tasks/update", &job, odd).await;
    assert_eq!(get(&mut client, &job).await["inputRequests"], *asked, "nobody said yes or no");

    let yes = json!({ "ask_1": { "action": "accept", "content": { "allow": true } } });
    acknowledged(&mut client, "tasks/update", &job, yes).await;
    let second = until(&mut client, &job, |seen| seen["inputRequests"]["ask_2"].is_object()).await;
    assert!(second["inputRequests"]["ask_1"].is_null(), "{second}");
    let again = json!({ "ask_1": { "action": "decline" } });
    acknowledged(&mut client, "tasks/update", &job, again).await;
    assert_eq!(get(&mut client, &job).await, second, "it was answered");
    let no = json!({ "ask_2": { "action": "decline" } });
    acknowledged(&mut client, "tasks/update", &job, no).await;
    let over = end_of(&mut client, &job).await;
    assert_eq!(over["result"]["structuredContent"]["state"], "SUCCEEDED", "{over}");

    let mut other = spec("asks twice");
    other["spec"]["idempotencyKey"] = "other".into();
    let job = submit(&mut client, other).await;
    assert_eq!(end_of(&mut client, &job).await["status"], "input_required");
    acknowledged(&mut client, "tasks/cancel", &job, Value::Null).await;
    let late = json!({ "ask_1": { "action": "accept" } });
    acknowledged(&mut client, "tasks/update", &job, late).await;
    assert_eq!(get(&mut client, &job).await["status"], "cancelled");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_call_the_tools_may_do_it_here() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let job = submit(&mut client, spec("hangs")).await;
    let with = |rights: Rights| Principal { rights, ..principal("agent:other") };
    let methods = ["tasks/get", "tasks/update", "tasks/cancel"];

    // Every member of the org may look, not only the submitter.
    let mut colleague = Client::of(&office.world, with(Rights::default()));
    assert_eq!(get(&mut colleague, &job).await["status"], "working");
    let viewer = Rights { profile_wanted: Some(Profile::Viewer), ..Rights::default() };
    let reader = Rights { scopes: vec![Scope::TasksRead], ..Rights::default() };
    for rights in [viewer, reader] {
        let mut looking = Client::of(&office.world, with(rights));
        assert_eq!(get(&mut looking, &job).await["status"], "working");
        for method in &methods[1..] {
            let denied = about(&mut looking, method, &job, json!({})).await;
            assert_eq!(denied["error"]["data"]["code"], "AUTHORIZATION_DENIED", "{denied}");
        }
    }
    let stranger = Principal { org: "other".into(), ..principal("agent:test") };
    let mut stranger = Client::of(&office.world, stranger);
    let nobodys = "job_00000000000000000000000000";
    for method in methods {
        let unknown = about(&mut stranger, method, &job, json!({})).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        for id in [nobodys, "job_", "job_x", ""] {
            let unknown = about(&mut client, method, id, json!({})).await;
            assert_eq!(unknown["error"]["code"], -32602, "{id}: {unknown}");
        }
        let params = modern(json!({ "taskId": job, "inputResponses": {} }));
        let undeclared = client.request(3, method, params).await;
        assert_eq!(undeclared["error"]["code"], -32021, "{undeclared}");
    }
    assert_eq!(get(&mut client, &job).await["status"], "working", "nobody ended it");

    // A client that does not know tasks is not told of them.
    let params = modern(json!({ "name": "jobs_submit", "arguments": spec("plain") }));
    let answer = client.request(4, "tools/call", params).await;
    assert!(answer["result"]["structuredContent"]["jobId"].is_string(), "{answer}");
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
    let mut legacy = office.client().await;
    legacy.initialize().await;
    let answer = legacy.call(1, "jobs_submit", spec("old")).await;
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_over_http() {
    let office = Office::open().await;
    let site = Site::of(&office.world, HttpOptions::default()).await;
    let ask = async |method: &str, name: &str, params: Value| {
        let params = knowing(params);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers =
            [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), ("Mcp-Name", name)];
        site.post("/mcp", &headers, &message).await.json().await["result"].clone()
    };
    let call = json!({ "name": "jobs_submit", "arguments": spec("conflicts") });
    let submitted = ask("tools/call", "jobs_submit", call).await;
    let job = submitted["structuredContent"]["jobId"].as_str().unwrap();
    let over = loop {
        let seen = ask("tasks/get", job, json!({ "taskId": job })).await;
        if seen["status"] != "working" {
            break seen;
        }
    };
    assert_eq!(over["result"]["structuredContent"]["reasonCode"], "CONFLICT", "{over}");
}

/// Without a toolset that has jobs, their ids are unknown.
#[tokio::test]
async fn jobs_are_tasks_only_where_they_can_be_submitted() {
    let mut client = Client::new().await;
    let job = "job_00000000000000000000000000";
    let unknown = about(&mut client, "tasks/get", job, json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    client.end().await;
}
