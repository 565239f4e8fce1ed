//! Settings and stores of a repository take effect only after `callboard trust`.

use serde_json::json;

use crate::fixture::World;

const CONFIG: &str = "[graph]\ncheck_shell = \"./theirs\"\nattest_by = \"human\"\n\
                      [executors.theirs]\ncommand = [\"./theirs\"]\n";

fn value(world: &World, key: &str) -> String {
    world.ok(&["config", "get", key]).stdout.trim().to_owned()
}

#[test]
fn settings_that_run_programs_wait_for_trust() {
    let world = World::project();
    world.task(&["Add b"]);
    world.write(&world.callboard("config.toml"), CONFIG);
    assert_eq!(value(&world, "graph.check_shell"), "sh");
    assert_eq!(value(&world, "graph.attest_by"), "human", "what runs nothing counts at once");
    let listed = world.ok(&["task", "list"]);
    let words = "not trusted: settings of .callboard/: graph.check_shell, executors.theirs.";
    assert!(listed.stderr.contains(words), "{}", listed.stderr);
    assert_eq!(listed.stderr.lines().count(), 1, "{}", listed.stderr);

    let shown = world.ok(&["trust", "--show"]).stdout;
    assert!(shown.contains("  check_shell = \"./theirs\"\n"), "{shown}");
    assert_eq!(value(&world, "graph.check_shell"), "sh", "showing trusts nothing");

    let trusted = world.ok(&["trust", "--json"]).json();
    assert_eq!(trusted["asks"], json!(["graph.check_shell", "executors.theirs"]));
    assert_eq!(value(&world, "graph.check_shell"), "./theirs");
    assert_eq!(world.ok(&["task", "list"]).stderr, "");

    world.write(&world.callboard("config.toml"), &format!("{CONFIG}# changed\n"));
    assert_eq!(value(&world, "graph.check_shell"), "sh", "a changed file is asked for again");
    world.ok(&["trust"]);
    world.ok(&["trust", "--forget"]);
    assert_eq!(value(&world, "graph.check_shell"), "sh");
}

#[test]
fn the_users_own_settings_need_no_trust() {
    let world = World::project();
    world.task(&["Add b"]);
    let mine = "[graph]\ncheck_shell = \"bash\"\n";
    world.write(&world.home().join(".config/callboard/config.toml"), mine);
    assert_eq!(value(&world, "graph.check_shell"), "bash");
    world.write(&world.callboard("config.local.toml"), "[graph]\ncheck_shell = \"dash\"\n");
    assert_eq!(value(&world, "graph.check_shell"), "dash");
    assert_eq!(world.ok(&["task", "list"]).stderr, "");
}

#[test]
fn another_store_is_not_opened_in_the_place_of_one_that_is_not_trusted() {
    let world = World::project();
    world.write(&world.callboard("config.toml"), "[store]\nurl = \"theirs.db\"\n");
    for command in [&["task", "list"][..], &["mcp"], &["serve"], &["worker"]] {
        let refused = world.run(command);
        assert_eq!(refused.code, 4, "{command:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("error[NOT_TRUSTED]"), "{}", refused.stderr);
    }
    world.ok(&["trust"]);
    world.ok(&["task", "list"]);
    assert!(world.root().join("theirs.db").exists());
}

#[test]
fn files_tracked_by_git_are_refused() {
    let world = World::project();
    world.run_git(&world.root(), &["init", "-q", "-b", "main"]);
    for name in ["config.local.toml", "callboard.db"] {
        let path = format!(".callboard/{name}");
        if name == "config.local.toml" {
            world.write(&world.callboard(name), "[graph]\ncheck_shell = \"dash\"\n");
        }
        world.run_git(&world.root(), &["add", "--force", &path]);
        let refused = world.run(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        assert_eq!((refused.code, refused.error_code()), (4, "TRACKED_BY_GIT".into()), "{name}");
        assert!(refused.stderr.contains(&path), "{}", refused.stderr);
        world.run_git(&world.root(), &["rm", "-q", "--cached", &path]);
    }
    world.ok(&["task", "list"]);
}

/// A copy of another user's board, as an archive brings it.
#[test]
fn a_store_that_was_made_elsewhere_runs_nothing() {
    let world = World::project();
    let task = world.task(&["Add b", "--check", "touch ran"]);
    let store = world.callboard("callboard.db");
    let copy = world.callboard("copy.db");
    world.ok(&["backup", copy.to_str().expect("a path")]);
    world.ok(&["check", "run", &task]);
    std::fs::remove_file(world.root().join("ran")).expect("the check ran");
    std::fs::rename(&copy, &store).expect("moved");
    for suffix in ["-wal", "-shm", "-bell"] {
        let _ = std::fs::remove_file(world.callboard(&format!("callboard.db{suffix}")));
    }
    let refused = world.run(&["check", "run", "SHOP-1"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains("a store that was not made here"), "{}", refused.stderr);
    assert!(!world.root().join("ran").exists());
    let worker = world.run(&["worker"]);
    assert_eq!(worker.code, 4);
    assert!(worker.stderr.contains("error[NOT_TRUSTED]"), "{}", worker.stderr);
    world.ok(&["trust"]);
    world.ok(&["check", "run", "SHOP-1"]);
    assert!(world.root().join("ran").exists());
}
