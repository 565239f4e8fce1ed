//! Leases between processes: each task is taken once, and a server that slept past a lease cannot write for its former
//! holder.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http::{Server, agent, call_at};
use crate::peer::{Peer, board, command};
use crate::schema::Schema;

#[test]
fn eight_processes_take_every_task_once() {
    race(None);
}

#[test]
fn eight_processes_take_every_task_once_on_postgres() {
    if let Some(schema) = Schema::new() {
        race(Some(&schema));
    }
}

fn race(schema: Option<&Schema>) {
    const TASKS: usize = 500;
    let board = board();
    let start = |actor: &str| {
        let mut mcp = command(board.path());
        mcp.args(["mcp", "--toolsets", "execution", "--actor", actor]);
        if let Some(schema) = schema {
            mcp.args(["--store", schema.url()]);
        }
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer
    };
    let mut maker = start("human:ana");
    for n in 0..TASKS {
        maker.call("add_task", json!({"title": format!("task {n}")})).unwrap();
    }
    let mut racers: Vec<Peer> = (0..8).map(|n| start(&format!("agent:racer-{n}"))).collect();
    let won: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> =
            racers.iter_mut().map(|racer| scope.spawn(|| take_all(racer))).collect();
        running.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
    });
    let mut once = won.clone();
    once.sort();
    once.dedup();
    assert_eq!((won.len(), once.len()), (TASKS, TASKS), "each task is taken once");
}

/// Takes the next actionable task until there is none.
fn take_all(racer: &mut Peer) -> Vec<String> {
    let mut won = Vec::new();
    loop {
        let next = racer.call("get_next_actionable", json!({})).unwrap();
        let tasks = next["tasks"].as_array().unwrap();
        if tasks.is_empty() {
            return won;
        }
        for task in tasks {
            let id = task["taskId"].as_str().unwrap();
            match racer.call("claim_task", json!({"taskId": id})) {
                Ok(_) => won.push(id.to_owned()),
                Err(refusal) => assert_eq!(refusal["code"], "task.already_claimed", "{refusal}"),
            }
        }
    }
}

#[test]
fn a_server_that_slept_past_a_lease_writes_nothing() {
    let Some(schema) = Schema::new() else { return };
    let board = board();
    let serve = || {
        let mut serve: Command = command(board.path());
        serve.args(["serve", "--listen", "127.0.0.1:0", "--store", schema.url()]);
        serve.env("CALLBOARD_EXECUTION_LEASE_MIN_SEC", "1").stderr(Stdio::null());
        Server::over(serve)
    };
    let (sleeper, awake) = (serve(), serve());
    let ask = |server: &str, who: &str, tool: &str, arguments: Value| {
        let url = format!("{server}/mcp/execution?actor={who}");
        call_at(&agent(), &url, tool, &arguments, "").expect("an answer")
    };
    let task = ask(&sleeper.url, "human:ana", "add_task", json!({"title": "A"})).unwrap();
    let task = task["taskId"].clone();
    let lease = json!({"taskId": task, "leaseSec": 2});
    let first = ask(&sleeper.url, "agent:w1", "claim_task", lease).unwrap();
    assert_eq!(first["fence"], 1);

    let pid = Pid::from_child(&sleeper.child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::scope(|scope| {
        // Sent while the server sleeps, read when it wakes.
        let late = json!({"taskId": task, "output": "late", "fence": 1});
        let late = scope.spawn(|| ask(&sleeper.url, "agent:w1", "complete_task", late));
        let start = Instant::now();
        let taken = loop {
            let claim = json!({"taskId": task});
            match ask(&awake.url, "agent:w2", "claim_task", claim) {
                Ok(taken) => break taken,
                Err(refusal) => assert_eq!(refusal["code"], "task.already_claimed", "{refusal}"),
            }
            assert!(start.elapsed() < Duration::from_secs(20), "the lease never ended");
        };
        assert_eq!(taken["fence"], 2);
        kill_process(pid, Signal::CONT).unwrap();
        let refused = late.join().unwrap().unwrap_err();
        assert_eq!(refused["code"], "task.already_claimed", "{refused}");
    });
    // Same actor, now on the sleeper: only the fencing token tells the old claim from the new one.
    let stale = json!({"taskId": task, "status": "in_progress", "fence": 1});
    let refused = ask(&sleeper.url, "agent:w2", "update_task_status", stale).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("fence 1 is stale"), "{refused}");
    let done = json!({"taskId": task, "output": "done", "fence": 2});
    assert_eq!(ask(&awake.url, "agent:w2", "complete_task", done).unwrap()["state"], "done");
}

/// The only server was killed and comes back an hour later. The store's times are set back by an hour instead of
/// waiting.
#[test]
fn a_server_that_comes_back_gives_holders_time() {
    let board = board();
    let ask = |server: &Server, who: &str, tool: &str, arguments: Value| {
        let url = format!("{}/mcp/all?actor={who}", server.url);
        call_at(&agent(), &url, tool, &arguments, "").expect("an answer")
    };
    let before = Server::start(board.path());
    let task = ask(&before, "human:ana", "add_task", json!({"title": "A"})).unwrap();
    let task = task["taskId"].clone();
    let other = ask(&before, "human:ana", "add_task", json!({"title": "B"})).unwrap();
    let other = other["taskId"].clone();
    for (who, task) in [("agent:w1", &task), ("agent:w2", &other)] {
        ask(&before, who, "claim_task", json!({"taskId": task})).unwrap();
    }
    drop(before);
    let db = rusqlite::Connection::open(board.path().join(".callboard/callboard.db")).unwrap();
    db.execute_batch(
        "UPDATE attempts SET started_at = started_at - 3600000000,
             heartbeat_at = heartbeat_at - 3600000000,
             lease_expires_at = lease_expires_at - 3600000000;
         UPDATE events SET at = at - 3600000000;
         UPDATE ticks SET at = at - 3600000000;",
    )
    .unwrap();
    drop(db);

    let after = Server::start(board.path());
    let seen = ask(&after, "human:ana", "get", json!({"id": task})).unwrap();
    assert_eq!(seen["assignee"], "agent:w1", "a reader of the server sees the holder");
    let refused = ask(&after, "agent:w3", "claim_task", json!({"taskId": task})).unwrap_err();
    assert_eq!(refused["code"], "task.already_claimed", "{refused}");
    let refused = ask(&after, "agent:w3", "claim", json!({"id": other})).unwrap_err();
    assert_eq!(refused["code"], "ALREADY_CLAIMED", "{refused}");
    for (who, task) in [("agent:w1", &task), ("agent:w2", &other)] {
        let done = json!({"taskId": task, "output": "done", "fence": 1});
        assert_eq!(ask(&after, who, "complete_task", done).unwrap()["state"], "done");
    }
}
