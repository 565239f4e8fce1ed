//! Waits across processes: a change by one process wakes the waits in another.

use serde_json::json;

use crate::peer::{Peer, board, command};

#[test]
fn a_subscription_hears_what_another_process_did() {
    let board = board();
    let mut watcher = Peer::start(board.path(), "agent:watcher");
    let mut worker = Peer::start(board.path(), "agent:worker");
    let task = worker.create(json!({"title": "watched"}));
    let other = worker.create(json!({"title": "not watched"}));
    let uri = format!("callboard://tasks/{task}");
    let subscribed = watcher.request("resources/subscribe", json!({"uri": uri}));
    assert!(subscribed.get("error").is_none(), "{subscribed}");
    worker.call("claim", json!({"id": other})).unwrap();
    worker.call("claim", json!({"id": task})).unwrap();
    let note = watcher.receive().expect("a notification");
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"]["uri"], uri, "only the watched task");
    let read = watcher.request("resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("agent:worker"), "{text}");
    let named = watcher.request("resources/read", json!({"uri": "callboard://tasks/P-1"}));
    assert_eq!(named["result"]["contents"][0]["text"], text, "by its short name");
    let unknown = watcher.request("resources/read", json!({"uri": "callboard://tasks/P-404"}));
    assert!(unknown.get("error").is_some(), "{unknown}");
}

#[test]
fn a_subscription_by_a_short_name_hears_of_its_task() {
    let board = board();
    let mut watcher = Peer::start(board.path(), "agent:watcher");
    let task = watcher.create(json!({"title": "watched"}));
    let uri = "callboard://tasks/P-1";
    let subscribed = watcher.request("resources/subscribe", json!({"uri": uri}));
    assert!(subscribed.get("error").is_none(), "{subscribed}");
    let mut worker = Peer::start(board.path(), "agent:worker");
    worker.call("claim", json!({"id": task})).unwrap();
    let note = watcher.receive().expect("a notification");
    assert_eq!(note["params"]["uri"], uri);
}

#[test]
fn a_wait_in_the_terminal_ends_when_an_agent_is_done() {
    let board = board();
    let mut worker = Peer::start(board.path(), "agent:worker");
    let task = worker.create(json!({"title": "awaited"}));
    let waiting = command(board.path())
        .args(["wait", &task, "--for", "done", "--timeout", "60s", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    worker.call("transition", json!({"id": task, "to": "done"})).unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"done\""));
}

#[test]
fn a_subscription_to_an_inbox_hears_of_mail_to_its_agent() {
    let board = board();
    let crew = |actor: &str| {
        let mut mcp = command(board.path());
        mcp.args(["mcp", "--toolsets", "crew", "--actor", actor]);
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer.call("mcp__agent__get_status", json!({})).unwrap();
        peer
    };
    let (mut reader, mut other, mut writer) = (crew("agent:r"), crew("agent:o"), crew("agent:w"));
    let uri = "callboard://crew/inbox";
    let listed = reader.request("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], uri, "{listed}");
    for peer in [&mut reader, &mut other] {
        let subscribed = peer.request("resources/subscribe", json!({"uri": uri}));
        assert!(subscribed.get("error").is_none(), "{subscribed}");
    }
    let mut send = |to: &str, subject: &str| {
        let mail = json!({"toAgentId": to, "subject": subject, "body": "text"});
        writer.call("mcp__mail__send", mail).unwrap();
    };
    send("r", "wake up");
    let note = reader.receive().expect("a notification");
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"]["uri"], uri);
    let read = reader.request("resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"unreadCount\":1") && text.contains("wake up"), "{text}");
    let read = other.request("resources/read", json!({"uri": uri}));
    assert!(other.notes.is_empty(), "{:?}", other.notes);
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("\"count\":0"));
}
