//! Where `.callboard/` is made and found.

use crate::fixture::World;

#[test]
fn init_makes_the_folder_once() {
    let world = World::git();
    let made = world.ok(&["init", "--prefix", "ACME", "--json"]).json();
    assert_eq!(made["prefix"], "ACME");
    let config = std::fs::read_to_string(world.callboard("config.toml")).expect("a config");
    assert!(config.contains("prefix = \"ACME\""), "{config}");
    let ignored = std::fs::read_to_string(world.callboard(".gitignore")).expect("a gitignore");
    for name in ["config.local.toml", "callboard.db*", "runs/", "worktrees/"] {
        assert!(ignored.lines().any(|line| line == name), "{name}");
    }
    let id = world.task(&["kept"]);
    world.write(&world.callboard("config.toml"), &format!("# mine\n{config}"));
    let again = world.ok(&["init", "--json"]).json();
    assert_eq!(again["made"], serde_json::json!([]));
    let kept = std::fs::read_to_string(world.callboard("config.toml")).expect("a config");
    assert!(kept.starts_with("# mine\n"));
    world.ok(&["task", "show", &id]);

    world.ok(&["init", "--prefix", "NEW"]);
    let changed = std::fs::read_to_string(world.callboard("config.toml")).expect("a config");
    assert!(changed.starts_with("# mine\n") && changed.contains("prefix = \"NEW\""), "{changed}");
    assert!(world.task(&["renamed"]).starts_with("NEW-"));
    world.ok(&["task", "show", &id]);
    assert_eq!(world.run(&["init", "--prefix", "no good"]).code, 2);
}

#[test]
fn init_works_outside_git_with_a_warning() {
    let world = World::bare();
    let ran = world.ok(&["init"]);
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("git"), "{}", ran.stderr);
    assert!(world.task(&["fine"]).starts_with("SHOP-"));
}

#[test]
fn init_in_a_subfolder_makes_it_at_the_top_of_the_repository() {
    let world = World::git();
    let deep = world.root().join("src/deep");
    std::fs::create_dir_all(&deep).expect("a folder");
    assert_eq!(world.run_in(&deep, &["init"]).code, 0);
    assert!(world.callboard("config.toml").exists());
    assert_eq!(world.run_in(&deep, &["task", "list"]).code, 0);
}

#[test]
fn a_linked_worktree_uses_the_main_checkouts_folder() {
    let world = World::project();
    let id = world.task(&["seen from both"]);
    world.run_git(&world.root(), &["add", "."]);
    world.run_git(&world.root(), &["commit", "-qm", "first"]);
    let linked = world.home().join("linked");
    let path = linked.to_str().expect("a plain path");
    world.run_git(&world.root(), &["worktree", "add", "-q", path]);
    assert!(linked.join(".callboard/config.toml").exists(), "git checked its copy out");
    let deep = linked.join("src");
    std::fs::create_dir_all(&deep).expect("a folder");
    for folder in [&linked, &deep] {
        let shown = world.run_in(folder, &["task", "show", &id]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert_eq!(world.run_in(folder, &["init"]).code, 0);
    }
    assert!(!linked.join(".callboard/callboard.db").exists());
}

#[test]
fn the_variable_names_the_project() {
    let world = World::project();
    let id = world.task(&["here"]);
    let root = world.root();
    let world = world.with("CALLBOARD_PROJECT_ROOT", root.to_str().expect("a plain path"));
    assert_eq!(world.run_in(&world.home(), &["task", "show", &id]).code, 0);
    let nowhere = World::project().with("CALLBOARD_PROJECT_ROOT", "/nowhere/at/all");
    assert_eq!(nowhere.run(&["task", "list"]).code, 2);
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let world = World::git();
    world.write(&world.root().join(".callboard"), "a file");
    let ran = world.run(&["init"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains(".callboard"), "{}", ran.stderr);
}
