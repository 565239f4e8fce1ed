//! Pull requests at the terminal: an epic's is shown and merged, a task's is left to its review.

use serde_json::{Value, json};

use crate::fixture::World;

fn crew(world: &World, agent: &str, tool: &str, input: &Value) -> Value {
    let actor = format!("agent:{agent}");
    let input = input.to_string();
    let said = world.ok(&["call", tool, &input, "--toolsets", "crew", "--actor", &actor]).json();
    assert_eq!(said["success"], true, "{said}");
    said["data"].clone()
}

#[test]
fn a_person_looks_at_an_epics_pull_request_and_merges_it() {
    let world = World::project();
    world.write(&world.root().join("a"), "one\n");
    world.run_git(&world.root(), &["add", "a"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "first"]);
    assert_eq!(world.ok(&["pull", "list"]).stdout, "no pull request is open\n");
    let epic = world.ok(&["epic", "add", "Letters"]).stdout.trim().to_owned();
    world.ok(&["agent", "add", "boss", "--type", "SUPERVISOR", "--epic", &epic]);
    world.ok(&["agent", "add", "w1", "--type", "WORKER"]);
    let new = json!({"title": "Add b", "description": "a file"});
    let task = crew(&world, "boss", "mcp__epic__create_task", &new)["taskId"].clone();
    let task = task.as_str().expect("an id");
    let place = crew(&world, "w1", "mcp__agent__get_task", &json!({}))["worktreePath"].clone();
    let place = std::path::PathBuf::from(place.as_str().expect("a path"));
    world.write(&place.join("b"), "two\n");
    world.run_git(&place, &["add", "b"]);
    world.run_git(&place, &["commit", "-q", "-m", "b"]);
    for status in ["IN_PROGRESS", "REVIEW"] {
        crew(&world, "w1", "mcp__task__update_status", &json!({"status": status}));
    }
    let kept = world.run(&["pull", "merge", task, "--json"]);
    assert_eq!((kept.code, kept.error_code()), (5, "MERGE_FAILED".into()));
    assert!(kept.stderr.contains("its review merges it"), "{}", kept.stderr);
    crew(&world, "boss", "mcp__epic__approve_pr", &json!({"taskId": task}));
    crew(&world, "boss", "mcp__epic__create_epic_pr", &json!({}));

    let mail = &world.ok(&["mail", "list", "--human", "--json"]).json()["items"][0];
    let body = mail["body"].as_str().expect("a body");
    assert!(body.ends_with("callboard pull show 2\ncallboard pull merge 2"), "{body}");
    let listed = world.ok(&["pull", "list", "--json"]).json();
    assert_eq!(listed["items"].as_array().expect("items").len(), 1, "{listed}");
    assert_eq!(world.ok(&["pull", "list", "--all"]).stdout.lines().count(), 2);
    let shown = world.ok(&["pull", "show", "2"]).stdout;
    assert!(shown.starts_with("callboard://pr/2  open\n[Epic] Letters\n"), "{shown}");
    assert!(shown.ends_with("merge     up to date, no conflicts\n+1  -0  b\n"), "{shown}");
    let patch = world.ok(&["pull", "show", "callboard://pr/2", "--patch"]).stdout;
    assert!(patch.contains("\n+two\n"), "{patch}");
    let document = world.ok(&["pull", "show", &epic, "--json"]).json();
    assert_eq!((&document["behind"], &document["conflicts"]), (&json!(0), &json!([])));

    world.write(&world.root().join("b"), "in the way\n");
    let refused = world.run(&["pull", "merge", "2"]);
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    std::fs::remove_file(world.root().join("b")).expect("removes");
    world.run_git(&world.root(), &["clone", "-q", "--bare", ".", "../shop.git"]);
    world.run_git(&world.root(), &["remote", "add", "origin", "../shop.git"]);
    let merged = world.ok(&["pull", "merge", "2", "--push"]);
    assert!(merged.stderr.contains("pushed to origin/main\n"), "{}", merged.stderr);
    let at = |git: &str| std::fs::read_to_string(world.root().join(git).join("refs/heads/main"));
    assert_eq!(at("../shop.git").expect("a branch"), at(".git").expect("a branch"));
    let merged = merged.stdout;
    assert!(merged.starts_with("callboard://pr/2 is merged as "), "{merged}");
    let read = std::fs::read_to_string(world.root().join("b")).expect("a file");
    assert_eq!(read, "two\n");
    assert_eq!(world.ok(&["pull", "merge", "2"]).stdout, merged, "again is the same");
    assert_eq!(world.ok(&["pull", "list"]).stdout, "no pull request is open\n");
    let none = world.run(&["pull", "show", "9", "--json"]);
    assert_eq!((none.code, none.error_code()), (3, "PULL_NOT_FOUND".into()));
}
