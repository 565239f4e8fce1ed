//! Waits of the board for clients with the tasks extension: after a second a handle comes instead of the answer, and
//! any process answers for it. On both stores, over both transports.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::board::refused_calls;
use crate::handles::{Client, Shop, shops};
use crate::peer::reply;

fn http(shop: &Shop) -> Client {
    shop.http_at("/mcp/graph,board?actor=agent:w1")
}

fn stdio(shop: &Shop) -> Client {
    shop.stdio_with(&["--actor", "agent:w1", "--toolsets", "graph,board"], &[])
}

fn make(client: &mut Client) -> String {
    let made = client.call("create", json!({"title": "awaited"}));
    reply(&made).unwrap()["id"].as_str().unwrap().to_owned()
}

/// A wait of the first client, behind a handle that the second knows.
fn wait(caller: &mut Client, other: &mut Client, task: &str) -> String {
    let id = caller.handle("tasks_wait", json!({"task_id": task}));
    let seen = other.get(&id);
    assert_eq!((&seen["status"], &seen["statusMessage"]), (&json!("working"), &json!("waiting")));
    id
}

fn answer(over: &Value) -> &Value {
    assert_eq!(over["status"], "completed", "{over}");
    assert_eq!(over["result"]["isError"], false);
    &over["result"]["structuredContent"]
}

#[test]
fn a_change_ends_a_wait_behind_a_handle() {
    for shop in shops() {
        for (mut caller, mut other) in [(http(&shop), stdio(&shop)), (stdio(&shop), http(&shop))] {
            let task = make(&mut caller);
            let id = wait(&mut caller, &mut other, &task);
            let moved = other.call("transition", json!({"id": task, "to": "in_progress"}));
            reply(&moved).unwrap();
            let over = other.end_of(&id);
            let answer = answer(&over);
            assert_eq!(answer["code"], "TASK_CHANGED", "{over}");
            assert_eq!(answer["previous_status"], "BACKLOG");
            assert_eq!(answer["current_status"], "IN_PROGRESS");
            assert_eq!(caller.get(&id), over, "the same from every process");
        }
    }
}

#[test]
fn a_wait_that_ends_within_a_second_is_an_answer() {
    for shop in shops() {
        for mut client in [http(&shop), stdio(&shop)] {
            let task = make(&mut client);
            let short = json!({"task_id": task, "timeout_seconds": 0.1});
            let answer = client.call("tasks_wait", short);
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
            assert_eq!(reply(&answer).unwrap()["code"], "WAIT_TIMEOUT");
        }
    }
}

#[test]
fn a_cancelled_wait_is_cancelled_in_every_process_and_noted_once() {
    for shop in shops() {
        let (mut caller, mut other) = (http(&shop), stdio(&shop));
        let task = make(&mut caller);
        for told_here in [true, false] {
            let id = wait(&mut caller, &mut other, &task);
            let teller = if told_here { &mut caller } else { &mut other };
            let told = teller.about("tasks/cancel", &id);
            assert_eq!(told["result"]["resultType"], "complete", "{told}");
            let over = teller.end_of(&id);
            assert_eq!(over["status"], "cancelled", "{over}");
            assert!(over.get("result").is_none(), "{over}");
        }
        let noted = refused_calls(shop.path(), &shop.store());
        assert_eq!(noted, ["WAIT_INTERRUPTED", "WAIT_INTERRUPTED"]);
    }
}

/// The wait was not cancelled by a client, so its caller is told to wait again.
#[test]
fn a_server_that_ends_interrupts_the_waits_behind_its_handles() {
    for shop in shops() {
        let mut other = stdio(&shop);
        for mut caller in [http(&shop), stdio(&shop)] {
            let task = make(&mut caller);
            let id = wait(&mut caller, &mut other, &task);
            kill_process(Pid::from_child(caller.process()), Signal::TERM).unwrap();
            assert_eq!(caller.process().wait().unwrap().code(), Some(0));
            let over = other.get(&id);
            assert_eq!(answer(&over)["code"], "WAIT_INTERRUPTED", "{over}");
        }
    }
}

/// No process here runs agents, so the job stays in the queue.
#[test]
fn a_wait_for_a_job_goes_on_behind_a_handle_too() {
    let flags = ["--actor", "agent:w1", "--toolsets", "board", "--lane", "admin", "--no-runner"];
    for shop in shops() {
        let [mut caller, mut other] = [0, 1].map(|_| shop.stdio_with(&flags, &[]));
        let made = caller.call("tasks_create", json!({"title": "A", "task_type": "AUTO"}));
        let task = reply(&made).unwrap()["task_id"].clone();
        let start = json!({"task_id": task, "action": "start_agent"});
        let job = reply(&caller.call("jobs_submit", start)).unwrap()["job_id"].clone();
        let of_job = json!({"job_id": job, "task_id": task});
        let long = json!({"job_id": job, "task_id": task, "timeout_seconds": 600});
        let unwanted = caller.handle("jobs_wait", long.clone());
        other.about("tasks/cancel", &unwanted);
        assert_eq!(other.end_of(&unwanted)["status"], "cancelled");
        let id = caller.handle("jobs_wait", long);
        reply(&other.call("jobs_cancel", of_job)).unwrap();
        let over = other.end_of(&id);
        assert_eq!(answer(&over)["status"], "cancelled", "{over}");
    }
}
