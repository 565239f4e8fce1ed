//! The workspace recipe and `callboard gc`, from the settings to the files.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::fixture::{Ran, World};

/// A project with a file `a` on main, where `node_modules/`, `.env` and `*.o` are ignored and there.
fn project() -> World {
    let world = World::project();
    let write = |name: &str, text: &str| world.write(&world.root().join(name), text);
    write("a", "one\n");
    write(".gitignore", ".callboard/\nnode_modules/\n.env\n*.o\n");
    world.run_git(&world.root(), &["add", "a", ".gitignore"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "first"]);
    write(".env", "KEY=1\n");
    write("node_modules/lib.js", "module.exports = 1\n");
    world
}

fn settings(world: &World, file: &str, text: &str) {
    world.write(&world.callboard(file), &format!("[workspace]\n{text}"));
}

/// Begins a session in a worktree of the task's own.
fn begin(world: &World, task: &str, key: &str) -> Ran {
    let arguments = json!({"id": task, "expected_actor": "human:ana", "idempotency_key": key,
        "worktree": "new"});
    world.run(&["call", "begin", &arguments.to_string(), "--json"])
}

fn place(world: &World, task: &str) -> PathBuf {
    world.callboard("worktrees").join(task)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn board(world: &World, tool: &str, arguments: &Value) -> Value {
    world.ok(&["call", tool, &arguments.to_string(), "--toolsets", "board"]).json()
}

#[test]
fn begin_makes_a_worktree_ready() {
    let world = project();
    world.write(&world.root().join(".worktreeinclude"), ".env\n");
    settings(
        &world,
        "config.local.toml",
        "setup = 'echo $CALLBOARD_SLUG $CALLBOARD_PORT $CALLBOARD_PORT_COUNT > seen.o'\nlink = ['node_modules']\n",
    );
    let id = world.task(&[
        "Add b",
        "--check",
        "test \"$(cat seen.o)\" = \"$CALLBOARD_SLUG $CALLBOARD_PORT $CALLBOARD_PORT_COUNT\"",
    ]);
    let begun = begin(&world, &id, "k1");
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    let tree = place(&world, &id);
    let seen = read(tree.join("seen.o"));
    assert!(seen.starts_with("shop-1 2") && seen.ends_with(" 10\n"), "{seen}");
    assert_eq!(read(tree.join(".env")), "KEY=1\n");
    assert_eq!(read(tree.join("node_modules/lib.js")), "module.exports = 1\n");
    let port = seen.split(' ').nth(1).expect("a port");
    let told = read(tree.join(".callboard/workspace.env"));
    assert!(told.contains(&format!("CALLBOARD_PORT={port}\n")), "{told}");
    // The checks of the task see them too.
    let checked = world.ok(&["check", "run", &id]).stdout;
    assert!(checked.contains("pass"), "{checked}");
}

#[test]
fn a_setup_that_fails_leaves_the_task_free_and_is_tried_again() {
    let world = project();
    settings(&world, "config.local.toml", "setup = 'echo no such package; test -e \"$HOME/ok\"'\n");
    let id = world.task(&["Add b"]);
    let failed = begin(&world, &id, "k1");
    assert_ne!(failed.code, 0);
    assert_eq!(failed.error_code(), "WORKSPACE_NOT_READY");
    assert!(failed.stderr.contains("workspace.setup failed with exit 1"), "{}", failed.stderr);
    assert!(failed.stderr.contains("no such package"), "{}", failed.stderr);
    let task = world.ok(&["task", "show", &id, "--json"]).json();
    assert_eq!((&task["status"], &task["assignee"]), (&json!("backlog"), &json!(null)), "{task}");
    world.write(&world.home().join("ok"), "");
    let begun = begin(&world, &id, "k1");
    assert_eq!(begun.code, 0, "{}", begun.stderr);
}

/// The recipe of a repository that was cloned runs nothing before it is trusted.
#[test]
fn a_recipe_waits_for_trust() {
    let world = project();
    settings(&world, "config.toml", "setup = 'echo ran > ran.o'\nlink = ['node_modules']\n");
    let id = world.task(&["Add b"]);
    let begun = begin(&world, &id, "k1");
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    assert!(
        !place(&world, &id).join("ran.o").exists()
            && !place(&world, &id).join("node_modules").exists()
    );
    let shown = world.ok(&["trust", "--show"]).stdout;
    assert!(shown.contains("workspace.setup") && shown.contains("workspace.link"), "{shown}");
    world.ok(&["trust"]);
    let other = world.task(&["Add c"]);
    assert_eq!(begin(&world, &other, "k2").code, 0);
    assert_eq!(read(place(&world, &other).join("ran.o")), "ran\n");
}

#[test]
fn a_recipe_that_cannot_be_is_refused_with_its_key() {
    let world = project();
    for (text, words) in [
        ("link = ['../x']\n", "workspace.link"),
        ("link = ['.git']\n", "is a folder of git or of Callboard"),
        ("link = ['x']\nlink_writable = ['y']\n", "'y' is not in workspace.link"),
        ("ports = '80-90'\n", "must be a range of ports from 1024 on"),
        ("setup_timeout = 0\n", "workspace.setup_timeout"),
    ] {
        settings(&world, "config.local.toml", text);
        let ran = world.run(&["status"]);
        assert_ne!(ran.code, 0, "{text}");
        assert!(ran.stderr.contains(words), "{text}: {}", ran.stderr);
    }
}

/// A process that is killed during the setup leaves a worktree that is not ready, and the next start prepares it.
#[test]
fn a_setup_that_dies_with_its_process_runs_again() {
    let world = project();
    let wait = "setup = 'echo x >> runs.o; test -e \"$HOME/now\" || sleep 600'\n";
    settings(&world, "config.local.toml", wait);
    let id = world.task(&["Add b"]);
    let arguments = json!({"id": id, "expected_actor": "human:ana", "idempotency_key": "k1",
        "worktree": "new"})
    .to_string();
    let mut killed =
        world.command(&world.root(), &["call", "begin", &arguments]).spawn().expect("starts");
    let runs = place(&world, &id).join("runs.o");
    while read(runs.clone()).is_empty() {
        std::thread::yield_now();
    }
    killed.kill().expect("is killed");
    killed.wait().expect("has ended");
    world.write(&world.home().join("now"), "");
    let begun = begin(&world, &id, "k1");
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    assert_eq!(read(runs), "x\nx\n");
}

/// A person's session gets a worktree that is ready.
#[test]
fn a_session_beside_a_person_gets_a_ready_worktree() {
    let world = project();
    settings(&world, "config.local.toml", "setup = 'echo $CALLBOARD_SLUG > seen.o'\n");
    let id = world.task(&["Add b"]);
    board(&world, "tasks_update", &json!({"task_id": id, "terminal_backend": "vscode"}));
    board(&world, "sessions_create", &json!({"task_id": id}));
    assert_eq!(read(place(&world, &id).join("seen.o")), "shop-1\n");
}

/// A task whose work is committed and waits for review.
fn in_review(world: &World, title: &str, file: &str) -> String {
    worked(world, &[title], file)
}

fn worked(world: &World, task: &[&str], file: &str) -> String {
    let id = world.task(task);
    board(world, "tasks_update", &json!({"task_id": id, "terminal_backend": "vscode"}));
    board(world, "sessions_create", &json!({"task_id": id}));
    let tree = place(world, &id);
    world.write(&tree.join(file), "two\n");
    world.run_git(&tree, &["add", file]);
    world.run_git(&tree, &["commit", "-q", "-m", file]);
    board(world, "request_review", &json!({"task_id": id, "summary": "done"}));
    id
}

/// A task whose work is merged.
fn merged_work(world: &World, title: &str, file: &str) -> String {
    let id = in_review(world, title, file);
    world.ok(&["approve", &id, "--merge"]);
    id
}

fn verdicts(world: &World, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["gc", "--json"];
    all.extend(arguments);
    let seen = world.ok(&all).json();
    assert_eq!(seen["schema"], "callboard.gc/1");
    let items = seen["items"].as_array().expect("items").clone();
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or("-").to_owned();
    let line = |item: &Value| {
        assert!(item["size"].is_u64() && item.get("path").is_some(), "{item}");
        format!("{} {} {}", text(item, "task"), text(item, "verdict"), text(item, "reason"))
    };
    items.iter().map(line).collect()
}

#[test]
fn gc_removes_merged_work_and_nothing_else() {
    let world = project();
    settings(&world, "config.local.toml", "remove_after_merge = false\n");
    let merged = merged_work(&world, "Add b", "b");
    let waiting = in_review(&world, "Add c", "c");
    let dropped = in_review(&world, "Add d", "d");
    let drops = json!({"id": dropped, "to": "canceled"}).to_string();
    world.ok(&["call", "transition", &drops]);
    let dirty = merged_work(&world, "Add e", "e");
    world.write(&place(&world, &dirty).join("note.txt"), "only here\n");
    // A repository in a folder that git ignores, and edits that git was told to overlook.
    let nested = merged_work(&world, "Add f", "f");
    world.run_git(&place(&world, &nested), &["init", "-q", "node_modules/lib"]);
    let lib = place(&world, &nested).join("node_modules/lib");
    world.run_git(&lib, &["commit", "-q", "--allow-empty", "-m", "only here"]);
    let overlooked = ["--assume-unchanged", "--skip-worktree"].map(|flag| {
        let id = merged_work(&world, "Add g", &flag[2..]);
        world.run_git(&place(&world, &id), &["update-index", flag, "a"]);
        world.write(&place(&world, &id).join("a"), "only here\n");
        id
    });
    world.run_git(&world.root(), &["branch", "callboard/SHOP-1-old", "main"]);
    world.run_git(&world.root(), &["branch", "mine", "main"]);
    // Commits that no worktree has checked out, and main lacks.
    let unmerged = ["branch", "callboard/SHOP-1-more", "callboard/SHOP-3-add-d"];
    world.run_git(&world.root(), &unmerged);

    let closed = "its task is closed, and all of its work is merged";
    let mut seen = verdicts(&world, &[]);
    seen.sort();
    let wanted = [
        "SHOP-1 keep it has commits that main lacks".into(),
        format!("SHOP-1 remove {closed}"),
        format!("SHOP-1 remove {closed}"),
        "SHOP-2 keep an actor works on its task".into(),
        "SHOP-3 keep it has commits that main lacks".into(),
        "SHOP-4 keep 1 file is not committed".into(),
        "SHOP-5 keep it holds the repository node_modules/lib".into(),
        "SHOP-6 keep 1 file is not committed".into(),
        "SHOP-7 keep 1 file is not committed".into(),
    ];
    assert_eq!(seen, wanted);
    assert!(place(&world, &merged).exists(), "a preview removes nothing");
    let table = world.ok(&["gc"]);
    assert!(table.stdout.contains("remove") && table.stdout.contains("SHOP-1"), "{}", table.stdout);
    assert!(
        table.stderr.starts_with("callboard gc --yes removes 2, which frees "),
        "{}",
        table.stderr
    );

    verdicts(&world, &["--yes"]);
    assert!(!place(&world, &merged).exists());
    for kept in [&waiting, &dropped, &dirty, &nested].into_iter().chain(&overlooked) {
        assert!(place(&world, kept).exists(), "{kept}");
    }
    let mut left = verdicts(&world, &[]);
    left.sort();
    assert_eq!(left, [&wanted[..1], &wanted[3..]].concat());
    world.run_git(&world.root(), &["rev-parse", "--verify", "callboard/SHOP-1-more"]);
    world.run_git(&world.root(), &["rev-parse", "--verify", "mine"]);
}

/// A branch stays with the worktree that was taken off it, and goes alone when its task's worktree has another one.
#[test]
fn gc_removes_what_its_preview_names() {
    let world = project();
    settings(&world, "config.local.toml", "remove_after_merge = false\n");
    let detached = merged_work(&world, "Add b", "b");
    let went_on = merged_work(&world, "Add c", "c");
    for id in [&detached, &went_on] {
        world.run_git(&place(&world, id), &["checkout", "-q", "--detach"]);
    }
    world.run_git(&place(&world, &went_on), &["commit", "-q", "--allow-empty", "-m", "more"]);
    let dirty = merged_work(&world, "Add d", "d");
    world.write(&place(&world, &dirty).join("note.txt"), "only here\n");
    world.run_git(&world.root(), &["branch", "callboard/SHOP-3-old", "main"]);
    let mut preview = verdicts(&world, &[]);
    preview.sort();
    let wanted = [
        "SHOP-1 keep it is on no branch",
        "SHOP-1 keep its worktree is on no branch",
        "SHOP-2 keep it is on no branch",
        "SHOP-2 keep its worktree is on no branch",
        "SHOP-3 keep 1 file is not committed",
        "SHOP-3 remove its task is closed, and all of its work is merged",
    ];
    assert_eq!(preview, wanted);
    let mut removed = verdicts(&world, &["--yes"]);
    removed.sort();
    assert_eq!(removed, wanted);
    assert_eq!(verdicts(&world, &[]).len(), 5, "one branch is gone");
    assert!([&detached, &went_on, &dirty].into_iter().all(|id| place(&world, id).exists()));
}

/// A worktree in which an actor works stays, whatever is in it; a folder that no task has stays too.
#[test]
fn gc_keeps_live_and_unknown_worktrees() {
    let world = project();
    let id = world.task(&["Add b"]);
    assert_eq!(begin(&world, &id, "k1").code, 0);
    let stray = world.callboard("worktrees").join("stray");
    let stray_text = stray.display().to_string();
    world.run_git(&world.root(), &["worktree", "add", "-q", "-b", "mine", &stray_text]);
    let mut seen = verdicts(&world, &["--yes"]);
    seen.sort();
    assert_eq!(
        seen,
        ["- keep no task of this board has it", "SHOP-1 keep an actor works on its task"]
    );
    assert!(place(&world, &id).exists() && stray.exists());
}

#[test]
fn a_merge_removes_its_workspace_and_a_reopened_task_gets_a_new_one() {
    let world = project();
    settings(&world, "config.local.toml", "teardown = 'echo $CALLBOARD_SLUG'\n");
    let merged = merged_work(&world, "Add b", "b");
    assert!(!place(&world, &merged).exists());
    assert_eq!(verdicts(&world, &[]), Vec::<String>::new(), "its branch is gone, too");
    assert_eq!(read(world.root().join("b")), "two\n");
    let logs = std::fs::read_dir(world.callboard("runs")).expect("logs");
    let logs: String = logs.map(|log| read(log.expect("a log").path())).collect();
    assert!(logs.contains("workspace.teardown: echo $CALLBOARD_SLUG\nend: succeeded\n"), "{logs}");

    world.ok(&["task", "move", &merged, "backlog"]);
    assert_eq!(world.run(&["diff", &merged, "--json"]).error_code(), "WORKSPACE_NOT_FOUND");
    board(&world, "sessions_create", &json!({"task_id": merged}));
    let tree = place(&world, &merged);
    assert_eq!(read(tree.join("b")), "two\n", "it begins at what was merged");
    world.write(&tree.join("c"), "three\n");
    board(&world, "request_review", &json!({"task_id": merged, "summary": "more"}));
    world.ok(&["approve", &merged, "--merge"]);
    assert!(!tree.exists());
    assert_eq!(world.ok(&["diff", &merged, "--stat"]).stdout, "+1  -0  c\n");
}

#[test]
fn a_quota_that_is_passed_warns_in_doctor_and_in_the_inbox() {
    let world = project();
    let id = world.task(&["Add b"]);
    assert_eq!(begin(&world, &id, "k1").code, 0);
    world.write(&place(&world, &id).join("big.o"), &"x".repeat(3_000_000));
    let worktrees = |world: &World| {
        let seen = world.run(&["doctor", "--json"]).json();
        let checks = seen["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|check| check["name"] == "worktrees");
        found.map(|check| (check["status"].clone(), check["message"].clone()))
    };
    settings(&world, "config.local.toml", "quota_mb = 1\n");
    let (status, message) = worktrees(&world).expect("a finding");
    assert_eq!(status, "warn", "{message}");
    let inbox = world.ok(&["status"]).stdout;
    assert!(inbox.contains("disk") && inbox.contains("callboard gc"), "{inbox}");
    settings(&world, "config.local.toml", "quota_mb = 100\n");
    assert_eq!(worktrees(&world).expect("a finding").0, "ok");
    assert!(!world.ok(&["status"]).stdout.contains("callboard gc"));
    settings(&world, "config.local.toml", "quota_mb = 'unlimited'\n");
    assert_eq!(worktrees(&world), None);
}

/// A worker of a crew that starts by itself finds a worktree that is ready, or learns why there is none.
#[test]
fn a_worker_of_a_crew_gets_a_ready_worktree() {
    let world = project();
    settings(
        &world,
        "config.local.toml",
        "setup = 'echo $CALLBOARD_SLUG > seen.o; test -e \"$HOME/ok\"'\n",
    );
    let epic = world.ok(&["epic", "add", "Shop", "--json"]).json();
    let epic = epic["id"].as_str().expect("an id").to_owned();
    let work = |title: &str, worker: &str| {
        let task = world.task(&[title, "--parent", &epic]);
        world.ok(&["agent", "add", worker, "--type", "WORKER", "--task", &task]);
        let actor = format!("agent:{worker}");
        let inbox =
            ["call", "mcp__mail__list_inbox", "{}", "--toolsets", "crew", "--actor", &actor];
        let mails = world.ok(&inbox).json();
        mails["data"]["mails"][0]["body"].as_str().expect("a mail").to_owned()
    };
    let told = work("Add b", "w1");
    assert!(told.contains("There is no worktree: workspace.setup failed with exit 1"), "{told}");
    world.write(&world.home().join("ok"), "");
    let told = work("Add c", "w2");
    let place = told.lines().find_map(|line| line.strip_prefix("Worktree: ")).expect("a worktree");
    assert_eq!(read(PathBuf::from(place).join("seen.o")), "shop-3\n");
}

/// When the target has moved, the checks of a merge run in a folder of their own, which is prepared like a worktree.
#[test]
fn the_checks_of_a_merge_run_in_a_ready_folder() {
    let world = project();
    world.write(&world.root().join(".worktreeinclude"), ".env\n");
    settings(
        &world,
        "config.local.toml",
        "setup = 'echo $CALLBOARD_SLUG > slug.o'\nlink = ['node_modules']\nteardown = 'cat slug.o'\n",
    );
    let check = "cat .env node_modules/lib.js && test \"$(cat slug.o)\" = \"$CALLBOARD_SLUG\"";
    let id = worked(&world, &["Add b", "--check", check], "b");
    world.write(&world.root().join("z"), "meanwhile\n");
    world.run_git(&world.root(), &["add", "z"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "z"]);
    world.ok(&["approve", &id, "--merge"]);
    assert_eq!(read(world.root().join("b")), "two\n");
    let logs = std::fs::read_dir(world.callboard("runs")).expect("logs");
    let logs: String = logs.map(|log| read(log.expect("a log").path())).collect();
    assert!(logs.contains("workspace.teardown: cat slug.o\nend: succeeded\n"), "{logs}");
    assert!(logs.contains("----\nshop-1-merge\n"), "its own slug: {logs}");
}
