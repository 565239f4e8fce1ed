//! One agent in one worktree: an agent whose server is frozen is killed before the next attempt starts, a merge refuses
//! to touch files under a running agent, and a task that leaves its column stops its agent.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{FREE, Shop, make, submit};
use crate::office::kill;
use crate::peer::{Peer, command, is_running};
use crate::schema::Schema;

/// Lease and hold are short, so that a frozen server loses its run within seconds. The lease is longer than the time
/// between two heartbeats: a server that works must not lose its run as well.
const SHORT: [(&str, &str); 4] = [
    FREE,
    ("CALLBOARD_BOARD_LEASE_SECONDS", "3"),
    ("CALLBOARD_BOARD_HEARTBEAT_SECONDS", "1"),
    ("CALLBOARD_RELAY_STALE_HOLD_S", "0"),
];

/// Starts a child in a session of its own, prints the attempt and both process ids, then never ends.
fn open_shop(schema: Option<Schema>) -> Shop {
    let shop = Shop::open(schema, "");
    let begun = shop.at("begun");
    let script = format!(
        "cat > /dev/null\nsetsid sleep 600 &\necho $CALLBOARD_ATTEMPT $$ $! > {begun:?}\nwait\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    shop
}

fn start(shop: &Shop, boss: &mut Peer) -> (String, Value, Vec<String>) {
    let task = make(boss);
    let started = submit(boss, &task, "start_agent");
    assert_eq!(started["code"], "STARTED", "{started}");
    let begun = shop.begun();
    assert!(begun[1..].iter().all(|pid| is_running(pid)), "{begun:?}");
    (task, started, begun)
}

/// Blocks until none of the processes is left, at most 20 seconds.
fn until_gone(pids: &[String]) {
    for pid in pids {
        let script = format!("while kill -0 {pid} 2>/dev/null; do sleep 0.02; done");
        let waited = Command::new("timeout").args(["20", "sh", "-c", &script]).status().unwrap();
        assert!(waited.success(), "process {pid} still runs");
    }
}

fn cli(shop: &Shop, words: &[&str]) -> std::process::Output {
    let mut callboard = command(shop.board.path());
    if let Some(schema) = &shop.schema {
        callboard.args(["--store", schema.url()]);
    }
    callboard.args(words).output().unwrap()
}

fn a_frozen_servers_agent_is_killed(schema: Option<Schema>) {
    let shop = open_shop(schema);
    let mut frozen = shop.server(&SHORT);
    let (task, started, first) = start(&shop, &mut frozen);
    kill(&frozen, Signal::STOP);
    let mut other = shop.server(&SHORT);
    let second = shop.begun();
    assert_eq!((first[0].as_str(), second[0].as_str()), ("1", "2"));
    let left: Vec<_> = first[1..].iter().filter(|pid| is_running(pid)).collect();
    assert!(left.is_empty(), "attempt 2 runs beside {left:?} of attempt 1");

    kill(&frozen, Signal::CONT);
    frozen.close_input();
    frozen.child.wait().unwrap();
    assert!(second[1..].iter().all(|pid| is_running(pid)), "the thawed server killed attempt 2");
    let seen = other.call("get_task", json!({ "task_id": task })).unwrap();
    let stands = (&seen["status"], &seen["runtime"]["is_running"]);
    assert_eq!(stands, (&json!("IN_PROGRESS"), &json!(true)), "{seen}");
    let ids = json!({"job_id": started["job_id"], "task_id": task});
    let job = other.call("jobs_get", ids).unwrap();
    assert_eq!((&job["code"], &job["result"]["attempt"]), (&json!("STARTED"), &json!(2)), "{job}");
    let stopped = submit(&mut other, &task, "stop_agent");
    assert_eq!(stopped["code"], "STOPPED", "{stopped}");
    assert!(second[1..].iter().all(|pid| !is_running(pid)), "{second:?}");
}

#[test]
fn a_frozen_servers_agent_is_killed_before_the_next_attempt() {
    a_frozen_servers_agent_is_killed(None);
}

#[test]
fn a_frozen_servers_agent_is_killed_before_the_next_attempt_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_frozen_servers_agent_is_killed(Some(schema));
    }
}

/// A new job for the task is another run in that worktree, whatever the result of the job before.
#[test]
fn a_frozen_servers_agent_is_killed_before_another_job_starts() {
    let shop = open_shop(None);
    let mut frozen = shop.server(&[FREE]);
    let (task, _, first) = start(&shop, &mut frozen);
    kill(&frozen, Signal::STOP);
    let mut other = shop.server(&[FREE]);
    other.call("tasks_move", json!({"task_id": task, "status": "BACKLOG"})).unwrap();
    let seen = other.call("get_task", json!({ "task_id": task })).unwrap();
    let stands = (&seen["status"], &seen["runtime"]["is_running"]);
    assert_eq!(stands, (&json!("BACKLOG"), &json!(true)), "the process lives: {seen}");
    submit(&mut other, &task, "start_agent");
    let second = shop.begun();
    assert_eq!(second[0], "1", "{second:?}");
    let left: Vec<_> = first[1..].iter().filter(|pid| is_running(pid)).collect();
    assert!(left.is_empty(), "the new run works beside {left:?}");
    kill(&frozen, Signal::CONT);
    frozen.close_input();
    frozen.child.wait().unwrap();
    assert!(second[1..].iter().all(|pid| is_running(pid)), "the thawed server killed the new run");
}

fn a_task_takes_its_agent_with_it(schema: Option<Schema>) {
    let shop = open_shop(schema);
    let mut runner = shop.server(&[FREE]);
    let mut other = shop.server(&[FREE]);

    let (task, _, begun) = start(&shop, &mut runner);
    other.call("tasks_move", json!({"task_id": task, "status": "BACKLOG"})).unwrap();
    until_gone(&begun[1..]);

    let (task, _, begun) = start(&shop, &mut runner);
    let done = cli(&shop, &["done", &task]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    until_gone(&begun[1..]);

    let (task, _, begun) = start(&shop, &mut runner);
    let removed = cli(&shop, &["task", "rm", &task]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    until_gone(&begun[1..]);

    // The graph toolset's word for a move to the backlog.
    let (task, _, begun) = start(&shop, &mut runner);
    let mut graph = command(shop.board.path());
    if let Some(schema) = &shop.schema {
        graph.args(["--store", schema.url()]);
    }
    graph.args(["mcp", "--toolsets", "graph", "--actor", "agent:w1"]);
    let mut graph = Peer::over(graph);
    graph.hello();
    graph.call("transition", json!({"id": task, "to": "backlog"})).unwrap();
    until_gone(&begun[1..]);
}

#[test]
fn a_task_that_is_moved_back_closed_or_removed_stops_its_agent() {
    a_task_takes_its_agent_with_it(None);
}

#[test]
fn a_task_that_is_moved_back_closed_or_removed_stops_its_agent_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_task_takes_its_agent_with_it(Some(schema));
    }
}

/// The agent answers SIGTERM by waiting for the test, so that its process outlives the move.
#[test]
fn a_run_is_shown_and_kept_from_a_merge_until_its_process_has_ended() {
    let shop = Shop::open(None, "");
    let (begun, last) = (shop.at("begun"), shop.at("last"));
    let made = Command::new("mkfifo").arg(&last).status().unwrap();
    assert!(made.success());
    let script = format!(
        "cat > /dev/null\ntrap 'cat {last:?} > /dev/null; exit' TERM\n\
         echo half > half.txt\nsleep 600 &\necho $CALLBOARD_ATTEMPT $$ > {begun:?}\nwait\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    let mut boss = shop.server(&[FREE, ("CALLBOARD_RUNNER_KILL_GRACE_S", "60")]);
    let (task, started, begun) = start(&shop, &mut boss);
    let ids = json!({"job_id": started["job_id"], "task_id": task});

    let merge = json!({"task_id": task, "action": "merge"});
    let refused = boss.call("review", merge.clone()).unwrap();
    assert_eq!(refused["code"], "AGENT_AT_WORK", "{refused}");
    assert!(is_running(&begun[1]), "a refused merge stops no agent");
    let seen = boss.call("get_task", json!({ "task_id": task })).unwrap();
    assert_eq!(seen["status"], "IN_PROGRESS", "{seen}");
    assert_eq!(shop.git(&["log", "-1", "--format=%s", "main"]), "first");

    boss.call("tasks_move", json!({"task_id": task, "status": "BACKLOG"})).unwrap();
    let seen = boss.call("get_task", json!({ "task_id": task })).unwrap();
    let stands = (&seen["status"], &seen["runtime"]["is_running"]);
    assert_eq!(stands, (&json!("BACKLOG"), &json!(true)), "{seen}");
    let job = boss.call("jobs_get", ids.clone()).unwrap();
    assert_eq!(job["runtime"], seen["runtime"], "{job}");
    let refused = boss.call("review", merge).unwrap();
    assert_eq!(refused["code"], "AGENT_AT_WORK", "{refused}");

    fs::write(&last, "end\n").unwrap();
    until_gone(&begun[1..]);
    let job = loop {
        let job = boss.call("jobs_get", ids.clone()).unwrap();
        if job["runtime"]["is_running"] == false {
            break job;
        }
    };
    assert_eq!(job["status"], "succeeded", "what was decided stays: {job}");
}
