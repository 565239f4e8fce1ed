//! Several processes on one file, no daemon: every task is claimed once, and no process sees a busy error.

use serde_json::json;

use crate::peer::{Peer, board};

#[test]
fn eight_processes_claim_every_task_once() {
    race(8);
}

#[test]
fn thirty_two_processes_claim_every_task_once() {
    race(32);
}

fn race(processes: usize) {
    const TASKS: usize = 200;
    let board = board();
    let mut maker = Peer::start(board.path(), "human:ana");
    let tasks: Vec<String> =
        (0..TASKS).map(|n| maker.create(json!({"title": format!("task {n}")}))).collect();
    let mut racers: Vec<Peer> =
        (0..processes).map(|n| Peer::start(board.path(), &format!("agent:racer-{n}"))).collect();
    let wins: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            racers.iter_mut().map(|racer| scope.spawn(|| claim_all(racer, &tasks))).collect();
        running.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let mut won = [0; TASKS];
    for index in wins.iter().flatten() {
        won[*index] += 1;
    }
    assert!(won.iter().all(|times| *times == 1), "claimed other than once: {won:?}");
    for (racer, wins) in wins.iter().enumerate() {
        for index in wins {
            let task = maker.call("get", json!({"id": tasks[*index]})).unwrap();
            assert_eq!(task["assignee"], format!("agent:racer-{racer}"), "the winner holds it");
        }
    }
}

fn claim_all(racer: &mut Peer, tasks: &[String]) -> Vec<usize> {
    let mut won = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        match racer.call("claim", json!({"id": task})) {
            Ok(_) => won.push(index),
            Err(refusal) => assert_eq!(refusal["code"], "ALREADY_CLAIMED", "{refusal}"),
        }
    }
    won
}
