//! The actor over HTTP when the URL names none and no token is shown.

use serde_json::{Value, json};

use crate::web::Site;

async fn in_session(site: &Site, session: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut reply = site.post("/mcp", &[("Mcp-Session-Id", session)], &call).await;
    reply.message().await.unwrap()["result"]["structuredContent"].clone()
}

async fn modern(site: &Site, path: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = site.modern(path, 1, "tools/call", params).await.json().await;
    answer["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn two_sessions_are_two_agents() {
    let site = Site::new().await;
    let one = site.open("/mcp").await.ok().unwrap();
    let other = site.open("/mcp").await.ok().unwrap();
    let mut actors = Vec::new();
    for session in [&one, &other, &one] {
        let who = in_session(&site, session, "identity", json!({})).await;
        actors.push(who["actor"].as_str().unwrap().to_owned());
    }
    assert!(actors.iter().all(|actor| actor.starts_with("agent:legacy-")), "{actors:?}");
    assert_ne!(actors[0], actors[1], "two sessions are two agents");
    assert_eq!(actors[0], actors[2], "a session keeps its actor");
    let task = in_session(&site, &one, "create", json!({ "title": "t" })).await;
    let claim = json!({ "id": task["id"] });
    let first = in_session(&site, &one, "claim", claim.clone()).await;
    assert_eq!(first["assignee"], actors[0].as_str(), "{first}");
    let second = in_session(&site, &other, "claim", claim).await;
    assert_eq!(second["code"], "ALREADY_CLAIMED", "{second}");
}

#[tokio::test]
async fn a_modern_client_without_an_actor_holds_nothing() {
    let site = Site::new().await;
    let who = modern(&site, "/mcp", "identity", json!({})).await;
    assert_eq!(who["actor"], "agent:modern-client");
    let task = modern(&site, "/mcp", "create", json!({ "title": "t" })).await;
    let noted = modern(&site, "/mcp", "note", json!({ "id": task["id"], "text": "seen" })).await;
    assert_eq!(noted["id"], task["id"], "{noted}");
    let claim = json!({ "id": task["id"] });
    for (tool, arguments) in [("claim", claim.clone()), ("release", claim.clone())] {
        let refused = modern(&site, "/mcp", tool, arguments).await;
        assert_eq!(refused["code"], "AUTHORIZATION_DENIED", "{tool}: {refused}");
        let hint = refused["hint"].as_str().unwrap();
        assert!(hint.contains("add ?actor=agent:NAME to the URL"), "{tool}: {hint}");
    }
    let held = modern(&site, "/mcp?actor=agent:w1", "claim", claim).await;
    assert_eq!(held["assignee"], "agent:w1", "{held}");
}
