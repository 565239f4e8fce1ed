//! Reviews of work in worktrees: what is shown, merged, and sent back.

use std::path::PathBuf;

use serde_json::json;

use crate::fixture::World;

/// A project with a file `a` on main.
fn project() -> World {
    let world = World::project();
    world.write(&world.root().join("a"), "one\n");
    world.run_git(&world.root(), &["add", "a"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "first"]);
    world
}

fn board(world: &World, tool: &str, arguments: &str) -> serde_json::Value {
    world.ok(&["call", tool, arguments, "--toolsets", "board"]).json()
}

/// A task with an open session; in its worktree `b` is committed and `a` is changed.
fn worked_on(world: &World, title: &str) -> (String, PathBuf) {
    let id = world.task(&[title]);
    board(
        world,
        "tasks_update",
        &format!(r#"{{"task_id": "{id}", "terminal_backend": "vscode"}}"#),
    );
    board(world, "sessions_create", &format!(r#"{{"task_id": "{id}"}}"#));
    let place = world.callboard("worktrees").join(&id);
    world.write(&place.join("b"), "two\n");
    world.run_git(&place, &["add", "b"]);
    world.run_git(&place, &["commit", "-q", "-m", "b"]);
    world.write(&place.join("a"), "one\nmore\n");
    (id, place)
}

fn in_review(world: &World, title: &str) -> (String, PathBuf) {
    let (id, place) = worked_on(world, title);
    let asked = format!(r#"{{"task_id": "{id}", "summary": "b is there"}}"#);
    board(world, "request_review", &asked);
    (id, place)
}

#[test]
fn what_waits_is_shown_approved_and_merged() {
    let world = project();
    assert_eq!(world.ok(&["review"]).stdout, "nothing waits for a review\n");
    assert_eq!(
        world.ok(&["review", "--json"]).json(),
        json!({
            "schema": "callboard.review.list/1",
            "items": [], "next": null, "more": false, "questions": [], "blocked": []
        })
    );
    let (id, _) = in_review(&world, "Add b");
    let queue = world.ok(&["review"]).stdout;
    assert_eq!(queue, "SHOP-1  review  -  human:ana  Add b\n");
    let items = world.ok(&["review", "--json"]).json();
    assert_eq!(items["items"][0]["review"]["summary"], "b is there");

    let shown = world.ok(&["review", &id]).stdout;
    assert!(shown.contains("\nsummary   b is there\n"), "{shown}");
    let ready = "\nmerge     1 commit into main, up to date, no conflicts\n\
                 missing   not committed yet: a\n\
                 files     +1  -0  a\n          +1  -0  b\n";
    assert!(shown.ends_with(ready), "{shown}");
    let work = &world.ok(&["review", &id, "--json"]).json()["work"][0];
    assert_eq!((&work["behind"], &work["conflicts"]), (&json!(0), &json!([])));
    assert_eq!(work["files"][1]["path"], "b");

    let approved = world.ok(&["approve", &id, "-m", "well done"]);
    assert!(approved.stdout.contains("in_review"), "{}", approved.stdout);
    assert_eq!(approved.stderr, format!("not merged yet: callboard approve {id} --merge\n"));
    assert!(world.ok(&["review"]).stdout.contains("  merge  "));
    let merged = world.ok(&["task", "approve", &id, "--merge", "--json"]).json();
    assert_eq!((&merged["status"], &merged["pushed"]), (&json!("done"), &json!(null)));
    let commit = merged["mergeCommit"].as_str().expect("a commit");
    let read = |name: &str| std::fs::read_to_string(world.root().join(name)).expect("a file");
    assert_eq!((read("a").as_str(), read("b").as_str()), ("one\nmore\n", "two\n"));
    assert_eq!(world.ok(&["review"]).stdout, "nothing waits for a review\n");
    // Merged work is shown as it was merged, with the worktree and without.
    assert_eq!(world.ok(&["diff", &id, "--stat"]).stdout, "+1  -0  a\n+1  -0  b\n");
    world.ok(&["gc", "--yes"]);
    let diff = world.ok(&["diff", &id]);
    assert!(diff.stdout.contains("+more\n") && diff.stdout.contains("+two\n"), "{}", diff.stdout);
    assert_eq!(diff.stderr, format!("merged as {commit}\n"));
    let shown = world.ok(&["diff", &id, "--json"]).json();
    let repo = &shown["repos"][0];
    let merged = (&repo["commit"], &repo["path"], &repo["target"]);
    assert_eq!(merged, (&json!(commit), &json!(null), &json!("main")));
    assert_eq!(repo["files"][1]["path"], "b");
    let shown = world.ok(&["review", &id]).stdout;
    let end = format!("\nmerge     merged as {commit}\nfiles     +1  -0  a\n          +1  -0  b\n");
    assert!(shown.ends_with(&end), "{shown}");
    let work = &world.ok(&["review", &id, "--json"]).json()["work"][0];
    assert_eq!((&work["commit"], &work["files"][1]["path"]), (&json!(commit), &json!("b")));
}

/// An agent that finishes through the toolset `graph` asks for no review, and its closing words are what the work says.
#[test]
fn the_words_of_a_finished_attempt_are_the_summary() {
    let world = project();
    let id = world.task(&["Add b"]);
    let call = |tool: &str, input: serde_json::Value| {
        world.ok(&["--actor", "agent:w1", "call", tool, &input.to_string()]).json()
    };
    let begun = json!({"id": id, "expected_actor": "agent:w1", "idempotency_key": "k"});
    let session = call("begin", begun)["id"].clone();
    let shown = || world.ok(&["review", &id]).stdout;
    assert!(!shown().contains("summary"), "{}", shown());
    call("finish", json!({"session": session, "summary": "b is there"}));
    assert!(shown().contains("\nsummary   b is there\n"), "{}", shown());
    let summary = || world.ok(&["review", &id, "--json"]).json()["summary"].clone();
    assert_eq!(summary(), "b is there");
    world.ok(&["approve", &id, "-m", "fine"]);
    assert_eq!(summary(), "b is there", "a verdict has no summary of its own");
    assert!(shown().contains("\nsummary   b is there\n"), "{}", shown());
}

#[test]
fn a_patch_holds_what_is_committed_and_what_is_not() {
    let world = project();
    let (id, place) = worked_on(&world, "Add b");
    world.write(&place.join("new"), "three\nfour\n");
    let patch = world.ok(&["diff", &id]).stdout;
    for line in ["+more\n", "+two\n", "+four\n", "diff --git a/new b/new\n"] {
        assert!(patch.contains(line), "{patch}");
    }
    let clone = world.home().join("clone");
    world.run_git(&world.home(), &["clone", "-q", &world.root().display().to_string(), "clone"]);
    world.write(&world.home().join("patch"), &patch);
    world.run_git(&clone, &["apply", "../patch"]);
    assert_eq!(std::fs::read_to_string(clone.join("new")).expect("a file"), "three\nfour\n");

    assert_eq!(world.ok(&["diff", &id, "--stat"]).stdout, "+1  -0  a\n+1  -0  b\n+2  -0  new\n");
    let stat = world.ok(&["diff", &id, "--stat", "--json"]).json();
    let repo = &stat["repos"][0];
    assert_eq!((&repo["patch"], &repo["target"]), (&json!(null), &json!("main")));
    let new = json!({"path": "new", "was": null, "insertions": 2, "deletions": 0});
    assert_eq!(repo["files"][2], new);

    let bare = world.task(&["nobody began it"]);
    let nothing = world.run(&["diff", &bare, "--json"]);
    assert_eq!((nothing.code, nothing.error_code()), (3, "WORKSPACE_NOT_FOUND".into()));
    assert!(nothing.stderr.contains("callboard task show"), "{}", nothing.stderr);
    assert_eq!(world.run(&["diff", "SHOP-404"]).code, 3);
    assert_eq!(world.run(&["diff", "job_1"]).code, 3);
    let shown = world.ok(&["review", &bare]).stdout;
    assert!(shown.ends_with("merge     nothing: there is no workspace on this machine\n"));
}

#[test]
fn what_conflicts_is_approved_and_not_merged() {
    let world = project();
    let (id, _) = in_review(&world, "Change a");
    world.write(&world.root().join("a"), "uno\n");
    world.run_git(&world.root(), &["commit", "-qam", "uno"]);
    let refused = world.run(&["approve", &id, "--merge", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "MERGE_FAILED".into()));
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).expect("one error");
    assert_eq!(error["error"]["details"]["conflict_files"], json!(["a"]));
    let again =
        format!("resolve the conflicts in these files, then callboard approve {id} --merge");
    assert_eq!(error["error"]["hint"], again);
    let shown = world.ok(&["review", &id]).stdout;
    let outlook = "\nmerge     2 commits into main, 1 behind it, conflicts in a\n";
    assert!(shown.contains(outlook), "{shown}");
    assert!(shown.contains("\nreview    approved by human:ana, "), "{shown}");
    assert_eq!(std::fs::read_to_string(world.root().join("a")).expect("a file"), "uno\n");
}

#[test]
fn what_is_rejected_goes_back_with_what_was_said() {
    let world = project();
    let (id, _) = in_review(&world, "Add b");
    assert_eq!(world.run(&["reject", &id]).code, 2, "what is wrong with it?");
    let back = world.ok(&["reject", &id, "-m", "No test", "--json"]).json();
    assert_eq!(back["status"], "in_progress");
    let shown = world.ok(&["review", &id]).stdout;
    assert!(shown.contains("\nfeedback  No test\n"), "{shown}");
    let early = world.run(&["reject", &id, "-m", "again", "--json"]);
    assert_eq!((early.code, early.error_code()), (5, "REVIEW_NOT_READY".into()));
    let early = world.run(&["approve", &id]).stderr;
    assert!(early.ends_with("\nhint: callboard task show SHOP-1\n"), "{early}");
    board(&world, "request_review", &format!(r#"{{"task_id": "{id}", "summary": "tested"}}"#));
    let back = world.ok(&["reject", &id, "-m", "Not now", "--to", "backlog", "--json"]).json();
    assert_eq!((&back["status"], &back["assignee"]), (&json!("backlog"), &json!(null)));
    assert_eq!(world.run(&["reject", &id, "-m", "x", "--to", "done"]).code, 2);
}

/// Git's message about a repository of another user.
const DUBIOUS: &str = "#!/bin/sh
echo \"fatal: detected dubious ownership in repository at '$PWD'\" >&2
echo 'To add an exception for this directory, call:' >&2
printf '\\n\\tgit config --global --add safe.directory %s\\n' \"$PWD\" >&2
exit 128
";

/// Only root can make such a repository; any user can have a git that says so.
#[test]
fn a_repository_that_git_does_not_trust_is_not_an_empty_one() {
    let world = project();
    let (id, place) = in_review(&world, "Add b");
    let bin = world.home().join("bin");
    world.write(&bin.join("git"), DUBIOUS);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("git"), mode).expect("makes it a program");
    let path = std::env::var("PATH").expect("a PATH");
    let world = world.with("PATH", &format!("{}:{path}", bin.display()));
    nothing_is_decided(&world, &id);
    let world = world.with("PATH", &path);
    let top = world.root();
    let own = |owner| std::os::unix::fs::chown(&top, Some(owner), None);
    if rustix::process::geteuid().is_root() {
        own(4711).expect("gives it away");
        nothing_is_decided(&world, &id);
        own(0).expect("takes it back");
    }
    world.ok(&["approve", &id, "--merge"]);
    assert_eq!(world.ok(&["task", "show", &id, "--json"]).json()["status"], "done");
    assert!(!place.exists(), "its work is merged");
}

fn nothing_is_decided(world: &World, id: &str) {
    let trusts_it = |words: &str| {
        assert!(words.contains("detected dubious ownership"), "{words}");
        assert!(words.contains("git config --global --add safe.directory"), "{words}");
    };
    let approved = world.run(&["approve", id, "--json"]);
    assert_eq!((approved.code, approved.error_code()), (1, "GIT_FAILED".into()));
    trusts_it(&approved.stderr);
    trusts_it(&world.ok(&["review", id]).stdout);
    let diff = world.run(&["diff", id, "--json"]);
    assert_eq!((diff.code, diff.error_code()), (1, "DIFF_FAILED".into()));
    trusts_it(&diff.stderr);
    trusts_it(&world.run(&["doctor"]).stdout);
    let deleted = format!(r#"{{"task_id": "{id}"}}"#);
    let deleted = world.run(&["call", "tasks_delete", &deleted, "--toolsets", "board"]).json();
    assert_eq!((&deleted["success"], &deleted["code"]), (&json!(false), &json!("DELETE_FAILED")));
    let shown = world.ok(&["task", "show", id, "--json"]).json();
    assert_eq!(shown["status"], "in_review", "{shown}");
}

#[test]
fn settings_of_callboard_are_merged_by_somebody_who_saw_them() {
    let world = project();
    world.run_git(&world.root(), &["add", ".callboard/config.toml"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "settings"]);
    let (id, place) = worked_on(&world, "Add b");
    world.write(&place.join(".callboard/config.toml"), "[graph]\ncheck_shell = \"./mine\"\n");
    board(&world, "request_review", &format!(r#"{{"task_id": "{id}", "summary": "done"}}"#));
    let shown = world.ok(&["review", &id]).stdout;
    assert!(shown.contains("settings  read .callboard/config.toml with care"), "{shown}");
    let merge = format!(r#"{{"task_id": "{id}", "action": "preview"}}"#);
    let preview = ["call", "review", &merge, "--toolsets", "board"];
    let preview = world.ok(&preview).json();
    assert_eq!(preview["settings_files"], json!([".callboard/config.toml"]), "{preview}");
    let refused = world.run(&["approve", &id, "--merge", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "MERGE_FAILED".into()));
    assert!(refused.stderr.contains("--settings"), "{}", refused.stderr);
    let failed = world.ok(&["review", &id, "--json"]).json();
    assert_eq!(failed["review"]["conflictFiles"], json!([]), "no agent is sent to settle it");
    assert!(!world.root().join("b").exists(), "nothing of it is merged");
    world.ok(&["approve", &id, "--merge", "--settings"]);
    assert!(world.root().join("b").exists());
    let shell = world.ok(&["config", "get", "graph.check_shell"]).stdout;
    assert_eq!(shell, "sh\n", "merged settings wait for trust like any others");
}
