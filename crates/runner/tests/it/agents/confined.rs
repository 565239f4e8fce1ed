//! What a confined ACP agent is granted without asking a person: everything within its confinement, and nothing else.

use std::fs;
use std::sync::Arc;

use callboard_engine::ports::{Answer, DoorKey, WorkCall, Worked, Workers};
use callboard_runner::{AgentSettings, LocalAgents, SandboxMode};
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::acp::{Desk, END, OPENING, agent, permission};
use super::bed::Bed;
use super::work::{call, worktree};
use crate::skipped::skipped;

#[tokio::test]
async fn a_confined_agent_is_granted_what_the_confinement_holds() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let path = |name: &str| json!([{"path": folder.join(name)}]);
    let outside = json!([{"path": bed.file("outside")}]);
    let climbing = json!([{"path": folder.join("../../../a.txt")}]);
    let table = [
        (json!({"kind": "read", "title": "Read"}), "yes", 0),
        (json!({"kind": "edit", "title": "Write", "locations": path("a.txt")}), "yes", 0),
        (json!({"kind": "edit", "title": "Write, somewhere"}), "yes", 0),
        (json!({"kind": "edit", "title": "Write", "locations": outside}), "no", 0),
        (json!({"kind": "delete", "title": "Delete", "locations": climbing}), "no", 0),
        (json!({"kind": "execute", "rawInput": {"command": "make test"}}), "yes", 0),
        (json!({"kind": "fetch", "title": "Fetch a page"}), "no", 1),
        (json!({"kind": "fetch", "title": "callboard-fetch"}), "no", 1),
        (json!({"kind": "switch_mode", "title": "Leave the plan"}), "no", 1),
        (json!({"kind": "other", "title": "mcp__github__merge_pull_request"}), "no", 1),
        (json!({"kind": "other", "title": "callboarding__x"}), "no", 1),
        (json!({"kind": "other", "title": "callboard-x", "rawInput": {"command": "x"}}), "no", 1),
        (json!({"kind": "other", "title": "mcp__callboard__tasks_get"}), "yes", 0),
        (json!({"title": "callboard-tasks_get"}), "yes", 0),
        (json!({"title": "a kind that nobody knows", "kind": "teleport"}), "no", 1),
    ];
    for (tool, option, questions) in table {
        let lines =
            format!("{OPENING} cat \"$BED/asks\"; read -r answer; echo \"$answer\" >&2; {END}");
        let agent = agent(&bed, &lines);
        fs::write(bed.file("asks"), permission(tool.clone()) + "\n").expect("writes");
        let desk = Desk::new(Answer::Refused);
        desk.may_answer.notify_one();
        let Some(logs) = logs_of(&bed, agent, desk.clone()).await else { return };
        let chosen = format!(r#""outcome":"selected","optionId":"{option}""#);
        assert!(logs.contains(&chosen), "{tool}: {logs}");
        assert_eq!(desk.asked().len(), questions, "{tool}");
    }
}

/// An ACP client's own services for an agent would run outside the confinement.
#[tokio::test]
async fn nothing_is_done_for_a_confined_agent_outside_of_its_confinement() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let proof = bed.file("proof");
    let script = format!("touch '{}'", proof.display());
    let inside = folder.join("inside");
    let requests = [
        ("fs/write_text_file", json!({"sessionId": "s1", "path": proof, "content": "x"})),
        ("fs/write_text_file", json!({"sessionId": "s1", "path": inside, "content": "x"})),
        ("fs/read_text_file", json!({"sessionId": "s1", "path": folder.join("a.txt")})),
        ("terminal/create", json!({"sessionId": "s1", "command": "sh", "args": ["-c", script]})),
    ];
    for (method, params) in requests {
        let lines = format!(
            "{OPENING} cat \"$BED/asks\"; read -r answer; echo \"$hello $answer\" >&2; {END}"
        );
        let agent = agent(&bed, &lines);
        let request = json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": params});
        fs::write(bed.file("asks"), format!("{request}\n")).expect("writes");
        let Some(logs) = logs_of(&bed, agent, Desk::new(Answer::Granted)).await else { return };
        assert!(logs.contains(r#""code":-32601"#), "{method}: {logs}");
        let offers = r#""fs":{"readTextFile":false,"writeTextFile":false},"terminal":false"#;
        assert!(logs.contains(offers), "{logs}");
    }
    assert!(!proof.exists() && !inside.exists());
}

/// The logs of a run; `None` on a machine that cannot confine.
async fn logs_of(
    bed: &Bed,
    agent: callboard_runner::ExecutorSettings,
    desk: Arc<Desk>,
) -> Option<String> {
    let folder = bed.repo.path.join(".callboard/worktrees/T1");
    let door = Some(DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_x".into() });
    let given = WorkCall { door, ..call(folder) };
    let settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    let agents = LocalAgents::new(settings);
    let ((up, _), (printed, _)) = (oneshot::channel(), watch::channel(String::new()));
    let (_says, hears) = mpsc::channel(1);
    let report = agents.work(given, up, printed, desk, hears, CancellationToken::new()).await;
    match &report.end {
        Worked::NotStarted(words) if words.contains("relay.sandbox = os") => {
            skipped("this kernel has no Landlock");
            None
        }
        Worked::Replied(_) => Some(report.logs),
        _ => panic!("{}", report.logs),
    }
}
