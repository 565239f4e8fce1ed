//! Where `.callboard/` is created and found.

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

#[test]
fn a_board_is_for_its_owner_alone() {
    let world = World::project();
    let task = world.task(&["Add b", "--check", "true"]);
    world.ok(&["check", "run", &task]);
    let mode = |path: &std::path::Path| {
        let found = std::fs::metadata(path).expect("it is there");
        std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777
    };
    assert_eq!(mode(&world.callboard("")), 0o700);
    for name in ["callboard.db", "callboard.db-bell", "callboard.db-gate", "callboard.db-turn"] {
        assert_eq!(mode(&world.callboard(name)), 0o600, "{name}");
    }
    let logs = std::fs::read_dir(world.callboard("runs")).expect("a folder");
    let logs: Vec<_> = logs.map(|entry| entry.expect("an entry").path()).collect();
    let log = logs.iter().find(|path| path.extension().is_some_and(|end| end == "log"));
    assert_eq!(mode(log.expect("a log")), 0o600);
    assert_eq!(mode(&world.callboard("runs")), 0o700);

    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(world.callboard(""), open).expect("changed");
    let said = world.run(&["doctor"]).stdout;
    assert!(!said.contains("other users of this machine"), "the files are closed: {said}");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(world.callboard("callboard.db"), open).expect("changed");
    let said = world.run(&["doctor"]).stdout;
    assert!(said.contains("other users of this machine can read"), "{said}");
}
