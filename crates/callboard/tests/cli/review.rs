//! Review from the terminal: approve, send back, verify once more.

use serde_json::json;

use crate::fixture::World;

/// A task that an agent completed.
fn in_review(world: &World, arguments: &[&str]) -> String {
    let id = world.task(arguments);
    let agent = ["--toolsets", "execution", "--actor", "agent:w1"];
    let claim = format!(r#"{{"taskId": "{id}"}}"#);
    let complete = format!(r#"{{"taskId": "{id}", "output": "done"}}"#);
    world.ok(&[&["call", "claim_task", &claim][..], &agent].concat());
    world.ok(&[&["call", "complete_task", &complete][..], &agent].concat());
    id
}

#[test]
fn a_human_approves_what_waits_for_one() {
    let world = World::project();
    let id = in_review(&world, &["a", "--verify", "manual"]);
    let agent = world.run(&["task", "approve", &id, "--actor", "agent:w1", "--json"]);
    assert_eq!((agent.code, agent.error_code()), (6, "CHECKS_NOT_PASSED".into()));
    let done = world.ok(&["task", "approve", &id, "--json"]).json();
    assert_eq!(done["status"], "done");
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("verify    manual, passed\n"), "{shown}");
    let again = world.run(&["task", "approve", &id]);
    assert_eq!(again.code, 5);
    assert!(again.stderr.contains("hint: callboard task show SHOP-1\n"), "{}", again.stderr);
    let fresh = world.task(&["nobody began it"]);
    let early = world.run(&["task", "approve", &fresh, "--json"]);
    assert_eq!((early.code, early.error_code()), (5, "REVIEW_NOT_READY".into()));
}

#[test]
fn an_approval_does_not_replace_the_checks() {
    let world = World::project();
    let id = in_review(&world, &["a", "--verify", "manual", "--check", "test -f ok"]);
    assert_eq!(world.run(&["task", "approve", &id]).code, 6);
    world.write(&world.root().join("ok"), "");
    world.ok(&["task", "approve", &id]);
}

#[test]
fn a_task_is_sent_back() {
    let world = World::project();
    let id = in_review(&world, &["a", "--verify", "manual"]);
    let back = world.ok(&["task", "reopen", &id, "--json"]).json();
    assert_eq!((&back["status"], &back["assignee"]), (&json!("backlog"), &json!(null)));
    assert_eq!(world.run(&["task", "reopen", &id]).code, 5);
    let next = world.ok(&["next", "--json"]).json();
    assert_eq!(next["items"][0]["id"], id);
}

#[test]
fn a_verification_is_asked_for_again() {
    let world = World::project();
    let id = in_review(&world, &["a", "--check", "true"]);
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("verify    commands, pending\n"), "{shown}");
    world.ok(&["task", "verify", &id]);
    let log = world.ok(&["log", &id, "--json"]).json();
    let queued = |event: &&serde_json::Value| event["event"] == "verification.queued";
    assert_eq!(log["items"].as_array().expect("events").iter().filter(queued).count(), 2);
    let fresh = world.task(&["nothing to verify"]);
    let refused = world.run(&["task", "verify", &fresh]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("nothing to verify"), "{}", refused.stderr);
    assert_eq!(world.run(&["task", "verify", "SHOP-404"]).code, 3);
}

#[test]
fn a_contract_is_written_down_and_shown() {
    let world = World::project();
    let id = world.task(&["a", "--verify", "github_pr", "--ref", "acme/shop#7"]);
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("verify    github_pr acme/shop#7\n"), "{shown}");
    let comment =
        format!(r#"{{"taskId": "{id}", "kind": "blocker", "body": "Why?", "rationale": "x"}}"#);
    let agent = ["--toolsets", "execution", "--actor", "agent:w1"];
    let made = world.ok(&[&["call", "comment_on_task", &comment][..], &agent].concat()).json();
    let comment = made["commentId"].as_str().expect("an id");
    let shown = world.ok(&["task", "show", &id]).stdout;
    let line = format!("blocker   {comment} (blocker, open) agent:w1: Why?\n");
    assert!(shown.contains(&line), "{shown}");
    let document = world.ok(&["task", "show", &id, "--json"]).json();
    assert_eq!(document["verification"]["contract"]["kind"], "github_pr");
    assert_eq!(document["verification"]["status"], json!(null));
    assert_eq!(document["comments"][0]["kind"], "blocker");
    assert_eq!(world.run(&["task", "add", "b", "--verify", "trust"]).code, 2);
    assert_eq!(world.run(&["task", "add", "b", "--ref", "acme/shop#7"]).code, 2);
    let none = world.run(&["task", "add", "b", "--verify", "none", "--check", "true"]);
    assert_eq!(none.code, 2);
}
