//! Calls of clients that accept a task as an answer: before and after the task is created.

use serde_json::{Value, json};

use crate::lines::{Client, MODERN, modern};
use crate::probe::held;
use crate::web::Site;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Parameters of a request by a client that knows tasks.
pub fn knowing(params: Value) -> Value {
    let mut params = modern(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { EXTENSION: {} } });
    params
}

fn hold(key: &str) -> Value {
    knowing(json!({ "name": "hold", "arguments": { "key": key } }))
}

async fn get(client: &mut Client, id: &Value) -> Value {
    client.request(9, "tasks/get", knowing(json!({ "taskId": id }))).await["result"].clone()
}

async fn end_of(client: &mut Client, id: &Value) -> Value {
    loop {
        let seen = get(client, id).await;
        if seen["status"] != "working" {
            return seen;
        }
    }
}

#[tokio::test]
async fn a_quick_answer_is_an_answer() {
    let mut client = Client::new().await;
    let held = held("quick");
    held.release.notify_one();
    let answer = client.request(1, "tools/call", hold("quick")).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "released": true }));
    let quick = knowing(json!({ "name": "boom", "arguments": {} }));
    let broken = client.request(2, "tools/call", quick).await;
    assert_eq!(broken["result"]["structuredContent"]["code"], "INTERNAL_ERROR", "{broken}");
    client.end().await;
}

#[tokio::test]
async fn a_task_outlives_its_request() {
    let mut client = Client::new().await;
    let held = held("outlives");
    let task = client.request(1, "tools/call", hold("outlives")).await["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    let seen = get(&mut client, &task["taskId"]).await;
    assert_eq!((&seen["status"], &seen["resultType"]), (&json!("working"), &json!("complete")));
    // A late cancellation concerns a request that is over.
    let params = json!({ "requestId": 1 });
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    assert_eq!(get(&mut client, &task["taskId"]).await["status"], "working");
    held.release.notify_one();
    let over = end_of(&mut client, &task["taskId"]).await;
    assert_eq!(over["status"], "completed");
    assert_eq!(over["result"]["structuredContent"], json!({ "released": true }));
    assert_eq!(over["createdAt"], task["createdAt"]);
    client.end().await;
}

/// The work decides: this one answers although it was told to stop.
#[tokio::test]
async fn what_finishes_all_the_same_is_not_cancelled() {
    let mut client = Client::new().await;
    let held = held("finishes");
    let task = client.request(1, "tools/call", hold("finishes")).await["result"].clone();
    let cancel = knowing(json!({ "taskId": task["taskId"] }));
    let acknowledged = client.request(2, "tasks/cancel", cancel).await;
    assert_eq!(acknowledged["result"]["resultType"], "complete", "{acknowledged}");
    held.canceled.notified().await;
    let over = end_of(&mut client, &task["taskId"]).await;
    assert_eq!(over["status"], "completed");
    assert_eq!(over["result"]["structuredContent"], json!({ "released": false }));
    client.end().await;
}

#[tokio::test]
async fn hanging_up_before_there_is_a_task_cancels_the_call() {
    let site = Site::new().await;
    let held = held("hangs up early");
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": hold("hangs up early"),
    });
    let headers =
        [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "hold")];
    tokio::select! {
        _ = site.post("/mcp", &headers, &message) => panic!("nobody released it"),
        () = held.started.notified() => {}
    }
    held.canceled.notified().await;
}

#[tokio::test]
async fn parameters_and_methods_that_are_not_there() {
    let mut client = Client::new().await;
    for params in [json!({}), json!({ "taskId": 7 }), json!({ "taskId": "call_x" })] {
        let answer = client.request(1, "tasks/get", knowing(params)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    for method in ["tasks/list", "tasks/result"] {
        let answer = client.request(2, method, knowing(json!({ "taskId": "x" }))).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    client.end().await;
}
