//! A command reports every effect beyond the requested one.

use serde_json::json;

use crate::fixture::World;

/// A project whose `main` has a commit, here and at a bare `origin`.
pub fn project_with_origin() -> World {
    let world = World::project();
    let root = world.root();
    world.write(&root.join("a"), "one\n");
    world.run_git(&root, &["add", "a"]);
    world.run_git(&root, &["commit", "-q", "-m", "first"]);
    world.run_git(&root, &["clone", "-q", "--bare", ".", "../shop.git"]);
    world.run_git(&root, &["remote", "add", "origin", "../shop.git"]);
    world.run_git(&root, &["fetch", "-q", "origin"]);
    world
}

/// A task in review with a commit in its worktree.
pub fn in_review(world: &World, title: &str) -> String {
    let id = world.task(&[title]);
    let board = |tool: &str, arguments: serde_json::Value| {
        world.ok(&["call", tool, &arguments.to_string(), "--toolsets", "board"]);
    };
    board("tasks_update", json!({"task_id": id, "terminal_backend": "vscode"}));
    board("sessions_create", json!({"task_id": id}));
    let place = world.callboard("worktrees").join(&id);
    world.write(&place.join(title), "new\n");
    world.run_git(&place, &["add", "."]);
    world.run_git(&place, &["commit", "-q", "-m", title]);
    board("request_review", json!({"task_id": id, "summary": "it is there"}));
    id
}

fn main_of(world: &World, folder: &str) -> String {
    let refs = world.root().join(folder);
    let loose = std::fs::read_to_string(refs.join("refs/heads/main")).unwrap_or_default();
    let packed = std::fs::read_to_string(refs.join("packed-refs")).unwrap_or_default();
    let packed = packed.lines().find_map(|line| line.strip_suffix(" refs/heads/main"));
    if loose.is_empty() { packed.unwrap_or_default().to_owned() } else { loose.trim().to_owned() }
}

#[test]
fn a_merge_pushes_only_when_it_is_told_to() {
    let world = project_with_origin();
    let before = main_of(&world, "../shop.git");
    let quiet = in_review(&world, "quiet");
    let merged = world.ok(&["approve", &quiet, "--merge", "--json"]).json();
    assert_eq!((&merged["pushed"], &merged["pushedTo"]), (&json!(null), &json!([])));
    assert_eq!(main_of(&world, "../shop.git"), before, "nothing was pushed");

    let loud = in_review(&world, "loud");
    let merged = world.ok(&["approve", &loud, "--merge", "--push"]);
    assert!(merged.stderr.contains("pushed to origin/main\n"), "{}", merged.stderr);
    assert_eq!(main_of(&world, "../shop.git"), main_of(&world, ".git"));
    let alone = world.run(&["approve", &loud, "--push"]);
    assert_eq!(alone.code, 2, "--push goes with --merge: {}", alone.stderr);
    assert_eq!(world.ok(&["config", "get", "board.push_after_merge"]).stdout.trim(), "false");

    let world = world.with("CALLBOARD_BOARD_PUSH_AFTER_MERGE", "true");
    let always = in_review(&world, "always");
    let merged = world.ok(&["approve", &always, "--merge", "--json"]).json();
    let wanted = (&json!(true), &json!(["origin/main"]));
    assert_eq!((&merged["pushed"], &merged["pushedTo"]), wanted);
}

#[test]
fn a_push_without_an_origin_is_said() {
    let world = project_with_origin();
    world.run_git(&world.root(), &["remote", "remove", "origin"]);
    let id = in_review(&world, "alone");
    let merged = world.ok(&["approve", &id, "--merge", "--push"]);
    assert!(merged.stderr.contains("nothing was pushed"), "{}", merged.stderr);
}

#[test]
fn removing_a_task_names_those_that_go_free() {
    let world = World::project();
    let (first, other) = (world.task(&["first"]), world.task(&["other"]));
    let freed = world.task(&["freed", "--dep", &first]);
    let waits = world.task(&["waits", "--dep", &first, "--dep", &other]);
    let removed = world.ok(&["task", "rm", &first]);
    assert_eq!(removed.stdout, format!("{first} removed\n"));
    assert_eq!(removed.stderr, format!("{freed} has no open dependency any more: freed\n"));
    let removed = world.ok(&["task", "rm", &other, "--json"]).json();
    assert_eq!(removed["freed"], json!([waits]));
    let last = world.ok(&["task", "rm", &freed, "--json"]).json();
    assert_eq!(last["freed"], json!([]));
}

#[test]
fn the_first_token_is_announced_before_it_is_made() {
    let world = World::project();
    let first = world.ok(&["token", "add", "--actor", "agent:ci"]);
    let (said, _) = first.stderr.split_once("it is not shown again").expect("both notes");
    assert!(said.contains("from now on every HTTP request needs one"), "{said}");
    let second = world.ok(&["token", "add", "--actor", "agent:ci"]);
    assert!(!second.stderr.contains("from now on"), "{}", second.stderr);
    let quiet = World::project().ok(&["token", "add", "--actor", "agent:ci", "--json"]);
    assert_eq!(quiet.stderr, "");
}
