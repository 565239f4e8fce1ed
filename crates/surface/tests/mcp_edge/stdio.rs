//! One connection of lines: both eras, bad input, subscriptions, progress, and its end.

use serde_json::{Value, json};

use crate::lines::{Client, hello, modern};
use crate::probe::held;

#[tokio::test]
async fn a_legacy_client_gets_tools_results_refusals_and_protocol_errors() {
    let mut client = Client::new().await;
    let answer = client.request(0, "initialize", hello("x")).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "callboard");
    assert_eq!(answer["result"]["serverInfo"]["version"], "1.2.3");
    let told = answer["result"]["instructions"].as_str().unwrap();
    assert!(
        told.starts_with("Callboard hands out tasks.") && told.ends_with("\n\nBe kind."),
        "{told}"
    );
    assert!(answer["result"]["capabilities"]["logging"].is_null());

    let list = client.request(1, "tools/list", json!({})).await;
    let create = list["result"]["tools"]
        .as_array()
        .and_then(|tools| tools.iter().find(|tool| tool["name"] == "create"))
        .unwrap_or_else(|| panic!("{list}"));
    assert_eq!(create["annotations"]["readOnlyHint"], false);
    assert_eq!(create["outputSchema"]["type"], "object");
    assert!(list["result"]["ttlMs"].is_null(), "a legacy list has no time to live");

    let made = client.call(2, "create", json!({ "title": "t" })).await;
    let structured = &made["result"]["structuredContent"];
    let text = made["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), structured);

    let uri = format!("callboard://tasks/{}", structured["id"].as_str().unwrap());
    let read = client.request(3, "resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0]["mimeType"], "application/json");

    let refused = client.call(4, "create", json!({})).await;
    assert_eq!(refused["result"]["isError"], true);
    assert!(refused["result"]["structuredContent"]["code"].is_string());

    let unknown = client.call(5, "nope", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(unknown["error"]["message"], "unknown tool: nope");

    let missing = client.request(6, "resources/read", json!({ "uri": "callboard://x" })).await;
    assert_eq!(missing["error"]["code"], -32002);
    let page = client.request(7, "tools/list", json!({ "cursor": "made up" })).await;
    assert_eq!(page["error"]["code"], -32602);
    client.end().await;
}

#[tokio::test]
async fn a_modern_client_needs_no_handshake() {
    let mut client = Client::anonymous().await;
    let found = client.request(1, "server/discover", modern(json!({}))).await;
    assert!(found["result"]["supportedVersions"].as_array().unwrap().len() >= 5);
    let list = client.request(2, "tools/list", modern(json!({}))).await;
    assert_eq!(list["result"]["ttlMs"], 60_000);
    assert_eq!(list["result"]["cacheScope"], "private");
    let who =
        client.request(3, "tools/call", modern(json!({ "name": "identity", "arguments": {} })));
    let who = who.await["result"]["structuredContent"]["actor"].clone();
    assert!(who.as_str().unwrap().starts_with("agent:modern-client-"), "{who}");
    let missing = client.request(4, "resources/read", modern(json!({ "uri": "callboard://x" })));
    assert_eq!(missing.await["error"]["code"], -32602);
    client.end().await;
}

#[tokio::test]
async fn a_derived_actor_stays_the_same() {
    let mut client = Client::anonymous().await;
    client.request(0, "initialize", hello("Some Client")).await;
    let first = client.call(1, "identity", json!({})).await;
    let second = client.call(2, "identity", json!({})).await;
    let actor = &first["result"]["structuredContent"]["actor"];
    assert_eq!(actor, &second["result"]["structuredContent"]["actor"]);
    assert!(actor.as_str().unwrap().starts_with("agent:Some-Client-"), "{actor}");
    client.end().await;
}

#[tokio::test]
async fn bad_lines_are_answered_and_survived() {
    let mut client = Client::new().await;
    // Before the first request there is nothing to cancel and no request to answer.
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" })).await;
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
    let probe = client.request(1, "server/discover", modern(json!({}))).await;
    assert!(probe["result"].is_object());
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" })).await;
    client.initialize().await;
    let cases: [(&[u8], Value, i64); 5] = [
        (b"{\"jsonrpc\": nonsense\n", Value::Null, -32700),
        (b"\xff\xfe\n", Value::Null, -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9}\n", json!(9), -32600),
        (b"[]\n", Value::Null, -32600),
        (b"\n\r\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n", Value::Null, -32600),
    ];
    for (line, id, code) in cases {
        client.send_raw(line).await;
        let answer = client.receive().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer.get("id"), Some(&id), "{answer}");
    }
    // A request whose parameters have the wrong shape is a mistake in the parameters.
    let odd = client.request(10, "resources/read", json!({ "uri": 7 })).await;
    assert_eq!(odd["error"]["code"], -32602);
    let odd = client.call(11, "create", json!("text")).await;
    assert_eq!(odd["result"]["isError"], true);
    let odd = client.request(12, "no/such/method", json!({})).await;
    assert_eq!(odd["error"]["code"], -32601);
    client.end().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_without_being_kept() {
    let mut client = Client::new().await;
    client.initialize().await;
    let megabyte = vec![b'x'; 1024 * 1024];
    for _ in 0..17 {
        client.send_raw(&megabyte).await;
    }
    let answer = client.receive().await;
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    client.send_raw(b"rest of the long line\n").await;
    assert!(client.request(1, "ping", json!({})).await["result"].is_object());
    client.end().await;
}

#[tokio::test]
async fn a_panic_is_one_calls_error() {
    let mut client = Client::new().await;
    client.initialize().await;
    let boom = client.call(1, "boom", json!({})).await;
    let error = &boom["result"]["structuredContent"];
    assert_eq!(boom["result"]["isError"], true);
    assert_eq!(error["code"], "INTERNAL_ERROR");
    assert_eq!(error["retryable"], true);
    assert_eq!(error["details"]["trace_id"].as_str().map(str::len), Some(16));
    assert!(client.call(2, "identity", json!({})).await["result"].is_object());
    client.end().await;
}

#[tokio::test]
async fn progress_rises_and_comes_before_the_answer() {
    let mut client = Client::new().await;
    client.initialize().await;
    let meta = json!({ "progressToken": "p", "callboard/idempotencyKey": "again" });
    let params = json!({ "name": "steps", "arguments": {}, "_meta": meta });
    client
        .send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .await;
    let mut last = 0.0;
    for _ in 0..3 {
        let message = client.receive().await;
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], "p");
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
    }
    let answer = client.receive().await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "wanted": true, "key": "again" }));
    let quiet = client.call(2, "steps", json!({})).await;
    assert_eq!(quiet["result"]["structuredContent"]["wanted"], false);
    client.end().await;
}

#[tokio::test]
async fn a_canceled_call_learns_of_it_and_late_cancels_do_no_harm() {
    let mut client = Client::new().await;
    client.initialize().await;
    let held = held("stdio cancel");
    let params = json!({ "name": "hold", "arguments": { "key": "stdio cancel" } });
    client
        .send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .await;
    held.started.notified().await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel.clone()).await;
    held.canceled.notified().await;
    client.send(cancel).await;
    assert!(client.request(2, "ping", json!({})).await["result"].is_object());
    client.end().await;
}

#[tokio::test]
async fn calls_in_flight_are_answered_after_the_input_ended() {
    let mut client = Client::new().await;
    client.initialize().await;
    for id in 1..=50 {
        let params = json!({ "name": "create", "arguments": { "title": format!("task {id}") } });
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        client.send(request).await;
    }
    let mut answered: Vec<i64> =
        client.end().await.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stop_ends_the_connection_like_the_end_of_input() {
    let mut client = Client::new().await;
    client.initialize().await;
    client.stop.cancel();
    client.end().await;
}

#[tokio::test]
async fn a_legacy_subscription_tells_of_changes_until_it_ends() {
    let mut client = Client::new().await;
    client.initialize().await;
    let made = client.call(1, "create", json!({ "title": "t" })).await;
    let task = made["result"]["structuredContent"]["id"].clone();
    let uri = format!("callboard://tasks/{}", task.as_str().unwrap());
    let unknown = client.request(2, "resources/subscribe", json!({ "uri": "callboard://x" })).await;
    assert_eq!(unknown["error"]["code"], -32002);
    let subscribed = client.request(3, "resources/subscribe", json!({ "uri": uri })).await;
    assert_eq!(subscribed["result"], json!({}));
    let params = json!({ "name": "claim", "arguments": { "id": task } });
    client
        .send(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params }))
        .await;
    let mut seen = [client.receive().await, client.receive().await];
    seen.sort_by_key(|message| message["id"].is_null());
    assert_eq!(seen[0]["result"]["isError"], false, "{}", seen[0]);
    assert_eq!(seen[1]["method"], "notifications/resources/updated");
    assert_eq!(seen[1]["params"]["uri"], uri);
    let ended = client.request(5, "resources/unsubscribe", json!({ "uri": uri })).await;
    assert_eq!(ended["result"], json!({}));
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_stream_honours_what_there_is_and_ends_with_the_input() {
    let mut client = Client::new().await;
    let made = modern(json!({ "name": "create", "arguments": { "title": "t" } }));
    let made = client.request(1, "tools/call", made).await;
    let task = made["result"]["structuredContent"]["id"].clone();
    let uri = format!("callboard://tasks/{}", task.as_str().unwrap());
    let filter = json!({
        "toolsListChanged": true,
        "resourceSubscriptions": [uri, "callboard://tasks/TASK-nothing"],
    });
    let listen = modern(json!({ "notifications": filter }));
    client
        .send(json!({ "jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": listen }))
        .await;
    let accepted = client.receive().await;
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    assert_eq!(
        accepted["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourceSubscriptions": [uri] })
    );
    let claim = modern(json!({ "name": "claim", "arguments": { "id": task } }));
    client
        .send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": claim }))
        .await;
    let mut seen = [client.receive().await, client.receive().await];
    seen.sort_by_key(|message| message["id"].is_null());
    assert_eq!(seen[1]["method"], "notifications/resources/updated", "{}", seen[1]);
    assert_eq!(seen[1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    let rest = client.end().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], "l");
    assert_eq!(rest[0]["result"]["resultType"], "complete");
}

#[tokio::test]
async fn prompts_and_completion() {
    let mut client = Client::new().await;
    client.initialize().await;
    let made = client.call(1, "create", json!({ "title": "t" })).await;
    let task = made["result"]["structuredContent"]["id"].clone();
    let prompts = client.request(2, "prompts/list", json!({})).await;
    let name = prompts["result"]["prompts"][0]["name"].clone();
    let prompt = client.request(3, "prompts/get", json!({ "name": name })).await;
    assert_eq!(prompt["result"]["messages"][0]["role"], "user");
    let unknown = client.request(4, "prompts/get", json!({ "name": "nope" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let complete = json!({
        "ref": { "type": "ref/resource", "uri": "callboard://tasks/{id}" },
        "argument": { "name": "id", "value": "TASK-" },
    });
    let completed = client.request(5, "completion/complete", complete).await;
    assert_eq!(completed["result"]["completion"]["values"], json!([task]));
    client.end().await;
}
