//! Blocked tasks, from the terminal.

use serde_json::json;

use crate::fixture::World;

#[test]
fn a_blocked_task_waits_for_an_answer() {
    let world = World::project();
    let id = world.task(&["pay"]);
    world.ok(&["block", &id, "-m", "no key", "--actor", "agent:w1"]);
    assert_eq!(world.ok(&["next", "--json"]).json()["items"], json!([]));
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("blocked   agent:w1, "), "{shown}");
    assert!(shown.contains(": no key\n"), "{shown}");
    let list = world.ok(&["task", "list"]).stdout;
    assert!(list.contains("blocked: no key"), "{list}");
    let review = world.ok(&["review"]).stdout;
    assert!(review.contains("answer") && review.contains("no key"), "{review}");
    let review = world.ok(&["review", "--json"]).json();
    assert_eq!(review["blocked"][0]["blocked"]["by"], "agent:w1");
    world.ok(&["note", &id, "still", "--actor", "agent:w1"]);
    assert_eq!(world.ok(&["next", "--json"]).json()["items"], json!([]), "no answer of its own");
    world.ok(&["note", &id, "it is in the safe"]);
    assert_eq!(world.ok(&["next", "--json"]).json()["items"][0]["id"], id);
    world.ok(&["doctor"]);
}

#[test]
fn unblocking_lets_a_task_be_offered_again() {
    let world = World::project();
    let id = world.task(&["pay"]);
    world.ok(&["block", &id, "-m", "no key"]);
    world.ok(&["unblock", &id]);
    world.ok(&["unblock", &id]);
    assert_eq!(world.ok(&["next", "--json"]).json()["items"][0]["id"], id);
    let log = world.ok(&["log", &id, "--json"]).json();
    let count = |name: &str| {
        let events = log["items"].as_array().expect("events");
        events.iter().filter(|event| event["event"] == name).count()
    };
    assert_eq!((count("task.blocked"), count("task.unblocked")), (1, 1));
    assert_eq!(world.run(&["block", &id, "-m", " "]).code, 2);
    world.ok(&["done", &id]);
    assert_eq!(world.run(&["block", &id, "-m", "late"]).code, 2);
}
