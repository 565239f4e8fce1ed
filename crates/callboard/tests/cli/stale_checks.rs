//! A pass counts for the files that it was given for, and checks that run by themselves are shown.

use serde_json::json;

use crate::fixture::World;

/// A project with a file `a` on main, and a task in review whose check passed.
fn passed() -> (World, String) {
    let world = World::project();
    world.write(&world.root().join("a"), "one\n");
    world.run_git(&world.root(), &["add", "a"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "first"]);
    let id = world.task(&["look", "--check", "test -f a"]);
    world.ok(&["check", "run", &id]);
    world.ok(&["task", "move", &id, "in_review"]);
    (world, id)
}

#[test]
fn a_pass_for_other_files_is_shown_as_stale() {
    let (world, id) = passed();
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("check 0   pass "), "{shown}");
    let queue = world.ok(&["review"]).stdout;
    assert!(queue.contains("1/1 pass"), "{queue}");
    world.write(&world.root().join("a"), "two\n");
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains("check 0   stale "), "{shown}");
    let shown = world.ok(&["review", &id]).stdout;
    assert!(shown.contains("check 0   stale "), "{shown}");
    let queue = world.ok(&["review"]).stdout;
    assert!(queue.contains("0/1 stale"), "{queue}");
    let items = world.ok(&["review", "--json"]).json();
    assert_eq!(items["items"][0]["checks"][0]["result"], "stale");
    let noted = world.ok(&["note", &id, "edited", "--json"]).json();
    assert_eq!(noted["checks"][0]["result"], "stale");
    let list = world.ok(&["task", "list", "--json"]).json();
    assert_eq!(list["items"][0]["checks"][0]["result"], "pass", "a list asks no git");
    world.ok(&["check", "run", &id]);
    let shown = world.ok(&["task", "show", &id, "--json"]).json();
    assert_eq!((&shown["checks"][0]["result"], &shown["checkJob"]), (&json!("pass"), &json!(null)));
}

#[test]
fn a_job_that_runs_checks_is_seen() {
    let (world, id) = passed();
    let asks = format!(r#"{{"task_id": "{id}", "summary": "done"}}"#);
    world.ok(&["call", "request_review", &asks, "--toolsets", "board"]);
    let jobs = world.ok(&["job", "list"]).stdout;
    assert!(jobs.contains("QUEUED") && jobs.contains("runs the checks of SHOP-1\n"), "{jobs}");
    let page = world.ok(&["job", "list", "--json"]).json();
    assert_eq!(page["others"][0]["taskId"], id);
    let job = page["others"][0]["id"].as_str().expect("an id").to_owned();
    let shown = world.ok(&["job", "show", &job]).stdout;
    assert!(shown.contains("state: QUEUED"), "{shown}");
    let shown = world.ok(&["task", "show", &id]).stdout;
    assert!(shown.contains(&format!("checking  queued ({job})\n")), "{shown}");
    let shown = world.ok(&["review", &id]).stdout;
    assert!(shown.contains(&format!("checking  queued ({job})\n")), "{shown}");
    let queue = world.ok(&["review"]).stdout;
    assert!(queue.contains("1/1 queued"), "{queue}");
}
