//! Waits of the board across processes, how they end, and which tools a client sees.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, board, command, reply};
use crate::schema::Schema;

/// A server of the board with these flags.
fn start(folder: &Path, store: &[&str], flags: &[&str]) -> Peer {
    let mut mcp = command(folder);
    mcp.args(store).args(["mcp", "--toolsets", "board"]).args(flags);
    let mut peer = Peer::over(mcp);
    peer.hello();
    peer
}

const ADMIN: &[&str] = &["--actor", "agent:boss", "--lane", "admin"];
const WORKER: &[&str] = &["--actor", "agent:w1"];

fn make(peer: &mut Peer) -> String {
    let made = peer.call("tasks_create", json!({"title": "A"})).unwrap();
    made["task_id"].as_str().unwrap().to_owned()
}

fn wait(peer: &mut Peer, arguments: Value) -> u64 {
    let token = json!({"progressToken": "p"});
    let call = json!({"name": "tasks_wait", "arguments": arguments, "_meta": token});
    let id = peer.start_request("tools/call", call);
    let note = peer.receive().expect("progress at the start");
    assert_eq!(note["method"], "notifications/progress", "{note}");
    assert_eq!(note["params"]["total"], arguments["timeout_seconds"]);
    id
}

/// Runs a test on every available store; the store is passed as flags.
fn stores(test: impl Fn(&[&str])) {
    test(&[]);
    if let Some(schema) = Schema::new() {
        test(&["--store", schema.url()]);
    }
}

/// A server whose looks at the log are traced into a file.
fn start_traced(folder: &Path, store: &[&str], looks: &Path) -> Peer {
    let mut mcp = command(folder);
    mcp.args(store).args(["mcp", "--toolsets", "board"]).args(WORKER);
    mcp.env("CALLBOARD_LOG", "callboard_store::looks=trace");
    let mut peer = Peer::with_errors_to(mcp, File::create(looks).unwrap().into());
    peer.hello();
    peer
}

/// How many looks found news because the bell rang, not because a second had passed.
fn news_by_bell(looks: &Path) -> usize {
    let (mut last, mut count) = (0, 0);
    // The last line may be half written.
    for look in fs::read_to_string(looks).unwrap().lines().map(serde_json::from_str::<Value>) {
        let Ok(look) = look else { continue };
        let seen = look["fields"]["seen"].as_u64().unwrap_or(last);
        count += usize::from(seen > last && look["fields"]["by"] == "bell");
        last = seen;
    }
    count
}

#[test]
fn a_wait_hears_what_another_process_did() {
    stores(|store| {
        let board = board();
        let looks = board.path().join("looks");
        let mut boss = start(board.path(), store, ADMIN);
        let mut waiter = start_traced(board.path(), store, &looks);
        let task = make(&mut boss);
        let mut move_and_hear = |status: &str| {
            let waiting = wait(&mut waiter, json!({"task_id": task, "timeout_seconds": 30.0}));
            boss.call("tasks_move", json!({"task_id": task, "status": status})).unwrap();
            let moved = Instant::now();
            let answer = reply(&waiter.answer(waiting)).unwrap();
            assert!(moved.elapsed() < Duration::from_secs(1), "{:?}", moved.elapsed());
            assert_eq!(answer["current_status"], status, "{answer}");
            answer
        };
        // The first wait of a process also begins the watch of the bell, and must miss nothing meanwhile.
        move_and_hear("IN_PROGRESS");
        let mut rounds = 0;
        // A poll may come between a commit and its ring, so a single move proves nothing.
        while news_by_bell(&looks) < 3 {
            rounds += 1;
            assert!(
                rounds <= 20,
                "only the poll finds news: {}",
                fs::read_to_string(&looks).unwrap()
            );
            move_and_hear("BACKLOG");
            let answer = move_and_hear("IN_PROGRESS");
            assert_eq!(answer["code"], "TASK_CHANGED", "{answer}");
            assert_eq!(answer["previous_status"], "BACKLOG");
            assert_eq!(answer["changed_at"], answer["task"]["updated_at"]);
        }
    });
}

#[test]
fn waits_block_nothing_else_on_their_connection() {
    let board = board();
    let mut boss = start(board.path(), &[], ADMIN);
    let task = make(&mut boss);
    let arguments = json!({"task_id": task, "timeout_seconds": 30.0});
    let waits: Vec<u64> = (0..10).map(|_| wait(&mut boss, arguments.clone())).collect();
    let listed = Instant::now();
    let list = boss.call("tasks_list", json!({})).unwrap();
    assert!(listed.elapsed() < Duration::from_secs(1), "{:?}", listed.elapsed());
    assert_eq!(list["count"], 1);
    let ended = boss.notes.iter().find(|note| waits.iter().any(|id| note["id"] == *id));
    assert_eq!(ended, None, "the list was answered while every wait still waited");
    let moved = boss.call("tasks_move", json!({"task_id": task, "status": "DONE"})).unwrap();
    assert_eq!(moved["code"], "MOVED");
    for id in waits {
        // An answer that came while another was awaited was set aside.
        let early = boss.notes.iter().find(|answer| answer["id"] == id).cloned();
        let answer = early.unwrap_or_else(|| boss.answer(id));
        assert_eq!(reply(&answer).unwrap()["code"], "TASK_CHANGED");
    }
}

pub fn refused_calls(folder: &Path, store: &[&str]) -> Vec<String> {
    let log = command(folder).args(store).args(["log", "--json"]).output().unwrap();
    let log: Value = serde_json::from_slice(&log.stdout).unwrap();
    let events = log["items"].as_array().unwrap().iter();
    let refused = events.filter(|event| event["event"] == "call.refused");
    refused.map(|event| event["data"]["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_wait_ends_with_its_caller_and_with_its_server() {
    let board = board();
    let mut boss = start(board.path(), &[], ADMIN);
    let task = make(&mut boss);
    let arguments = json!({"task_id": task, "timeout_seconds": 900.0});
    let canceled = wait(&mut boss, arguments.clone());
    let began = Instant::now();
    let params = json!({"requestId": canceled, "reason": "enough"});
    boss.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    boss.call("tasks_list", json!({})).unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The wait would go on for 15 minutes; its end is noted although its caller gets no answer.
    let began = Instant::now();
    while refused_calls(board.path(), &[]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "the wait outlives its caller");
    }

    let stopped = wait(&mut boss, arguments);
    let pid = Pid::from_raw(boss.child.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let answer = reply(&boss.answer(stopped)).unwrap();
    assert_eq!(answer["code"], "WAIT_INTERRUPTED", "{answer}");
    assert_eq!(answer["current_status"], "BACKLOG");
    boss.child.wait().unwrap();
    let noted = refused_calls(board.path(), &[]);
    assert_eq!(noted, ["WAIT_INTERRUPTED", "WAIT_INTERRUPTED"]);
}

fn tools(peer: &mut Peer) -> Vec<String> {
    let list = peer.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lane_and_profile_say_what_is_listed() {
    let board = board();
    let of = |flags: &[&str]| tools(&mut start(board.path(), &[], flags));
    let worker = of(&[]);
    assert!(worker.contains(&"update_scratchpad".into()), "{worker:?}");
    assert!(!worker.contains(&"tasks_create".into()), "{worker:?}");
    assert_eq!(of(&["--profile", "maintainer"]), worker, "the lane allows no more");
    assert!(of(&["--lane", "admin"]).contains(&"tasks_delete".into()));
    assert_eq!(of(&["--lane", "admin"]), of(&["--lane", "kagan_admin"]));
    let viewer = of(&["--profile", "viewer"]);
    assert!(viewer.contains(&"tasks_wait".into()) && !viewer.contains(&"request_review".into()));
}

#[test]
fn what_is_capped_or_unknown_is_said_at_the_start() {
    let board = board();
    let mut mcp = command(board.path());
    mcp.args(["mcp", "--toolsets", "board", "--profile", "maintainer"]);
    mcp.stdin(std::process::Stdio::null());
    let capped = mcp.output().unwrap();
    let words = String::from_utf8_lossy(&capped.stderr).into_owned();
    assert!(words.contains("maintainer") && words.contains("pair_worker"), "{words}");
    let mut peer = Peer::over({
        let mut mcp = command(board.path());
        mcp.args(["mcp", "--toolsets", "board", "--profile", "maintainer"]);
        mcp
    });
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let answer = peer.request("initialize", hello);
    let told = answer["result"]["instructions"].as_str().unwrap();
    assert!(told.contains("kanban") && told.contains("allows at most pair_worker"), "{told}");
    for flags in [["--lane", "fast"], ["--profile", "king"]] {
        let output = command(board.path()).arg("mcp").args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
    let nowhere = command(board.path()).args(["mcp", "--task", "P-404"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(3), "a task that is not there");
}

#[test]
fn a_tool_of_a_toolset_that_is_off_names_it() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:w1");
    let no = peer.call("tasks_list", json!({})).unwrap_err();
    let words = no["message"].as_str().unwrap();
    assert!(words.contains("toolset board") && words.contains("--toolsets"), "{words}");
}

#[test]
fn long_notes_are_cut_and_say_so() {
    let board = board();
    let mut boss = start(board.path(), &[], ADMIN);
    let task = make(&mut boss);
    for letter in ["a", "b"] {
        let notes = json!({"task_id": task, "content": letter.repeat(50_000)});
        boss.call("update_scratchpad", notes).unwrap();
    }
    let too_long = json!({"task_id": task, "content": "c".repeat(50_001)});
    assert_eq!(boss.call("update_scratchpad", too_long).unwrap_err()["code"], "INVALID_PARAMS");
    for (mode, chars) in [("summary", 8_000), ("full", 32_000)] {
        let ask = json!({"task_id": task, "include_scratchpad": true, "mode": mode});
        let seen = boss.call("get_task", ask).unwrap();
        let expected = format!("[truncated {} chars]{}", 50_000 - chars, "b".repeat(chars));
        assert_eq!(seen["scratchpad"], expected);
        assert_eq!(seen["scratchpad_truncated"], true);
    }
    let context = boss.call("get_context", json!({"task_id": task})).unwrap();
    assert_eq!(context["scratchpad"].as_str().unwrap().len(), 50_000);
}

/// A client of the tasks extension gets a handle for a wait that takes long.
#[test]
fn a_long_wait_is_a_task_for_those_who_know_them() {
    let board = board();
    let mut boss = start(board.path(), &[], ADMIN);
    let task = make(&mut boss);
    let mut mcp = command(board.path());
    mcp.args(["mcp", "--toolsets", "board"]).args(WORKER);
    let mut modern = Peer::over(mcp);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let arguments = json!({"task_id": task, "timeout_seconds": 60});
    let call = json!({"name": "tasks_wait", "arguments": arguments, "_meta": meta});
    let handle = modern.request("tools/call", call)["result"].clone();
    assert_eq!(handle["resultType"], "task", "{handle}");
    boss.call("tasks_move", json!({"task_id": task, "status": "REVIEW"})).unwrap();
    loop {
        let ask = json!({"taskId": handle["taskId"], "_meta": meta});
        let seen = modern.request("tasks/get", ask)["result"].clone();
        if seen["status"] == "working" {
            continue;
        }
        assert_eq!(seen["status"], "completed", "{seen}");
        let answer = &seen["result"]["structuredContent"];
        assert_eq!(answer["code"], "TASK_CHANGED", "{seen}");
        break;
    }
}
