//! A merge that is killed midway together with git, as when its container is killed. The next merge finds the user's
//! checkout half moved, and repairs it first.

use std::fs;
use std::path::PathBuf;

use crate::fixture::World;

/// Kills git and the program that started it while git writes the file that the trap names.
const TRIP: &str = r#"#!/bin/sh
if test "$(cat "$0.armed" 2>/dev/null)" = "$1"; then
    rm "$0.armed"
    git=$(ps -o pgid= -p $$ | tr -d ' ')
    kill -s KILL $(ps -o ppid= -p "$git") 0
fi
exec cat
"#;

struct Killed {
    world: World,
    task: String,
    trip: PathBuf,
}

impl Killed {
    /// A task in review whose work changes, adds and removes files in the checkout of main.
    fn new() -> Self {
        let world = World::project();
        let trip = world.home().join("trip");
        world.write(&trip, TRIP);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&trip, mode).expect("makes it a program");
        let top = world.root();
        let smudge = format!("{} %f", trip.display());
        world.run_git(&top, &["config", "filter.trip.smudge", &smudge]);
        world.run_git(&top, &["config", "filter.trip.clean", "cat"]);
        world.write(&top.join(".gitattributes"), "*.txt filter=trip\n");
        for name in ["a", "c", "e", "gone"] {
            world.write(&top.join(format!("{name}.txt")), &format!("{name} before\n"));
        }
        world.run_git(&top, &["add", "-A"]);
        world.run_git(&top, &["commit", "-q", "-m", "first"]);
        let task = world.task(&["Change them"]);
        let board = |tool: &str, more: &str| {
            let arguments = format!(r#"{{"task_id": "{task}"{more}}}"#);
            world.ok(&["call", tool, &arguments, "--toolsets", "board"]);
        };
        board("tasks_update", r#", "terminal_backend": "vscode""#);
        board("sessions_create", "");
        let place = world.callboard("worktrees").join(&task);
        for name in ["a", "b/new", "c", "d/new", "e"] {
            world.write(&place.join(format!("{name}.txt")), &format!("{name} after\n"));
        }
        fs::remove_file(place.join("gone.txt")).expect("removes a file");
        board("request_review", r#", "summary": "done""#);
        Self { world, task, trip }
    }

    /// Merges until git writes this file.
    fn kill_at(&self, name: &str) {
        self.world.write(&self.trip.with_extension("armed"), name);
        let top = self.world.root();
        let ended = self.world.command(&top, &["approve", &self.task, "--merge"]).output();
        assert_eq!(ended.expect("it runs").status.code(), None, "a signal ended it at {name}");
        assert!(top.join(".git/index.lock").exists(), "git was in the middle of it: {name}");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.world.root().join(name)).unwrap_or_default()
    }

    fn merges(&self) {
        self.world.ok(&["approve", &self.task, "--merge"]);
        for name in ["a", "b/new", "c", "d/new", "e"] {
            assert_eq!(self.read(&format!("{name}.txt")), format!("{name} after\n"));
        }
        assert!(!self.world.root().join("gone.txt").exists());
        self.world.run_git(&self.world.root(), &["diff", "--exit-code", "HEAD"]);
        self.world.run_git(&self.world.root(), &["diff", "--exit-code", "--cached", "HEAD"]);
    }
}

#[test]
fn a_merge_that_was_killed_with_its_git_is_merged_by_the_next_call() {
    for at in ["a.txt", "c.txt", "e.txt"] {
        let killed = Killed::new();
        killed.kill_at(at);
        // Of a large file git may have written the beginning.
        killed.world.write(&killed.world.root().join(at), &format!("{} af", &at[..1]));
        killed.merges();
    }
}

/// The merge is repeated until it is no longer killed.
#[test]
fn a_merge_that_is_killed_twice_is_merged_by_the_third_call() {
    let killed = Killed::new();
    killed.kill_at("c.txt");
    killed.kill_at("e.txt");
    killed.merges();
}

#[test]
fn what_the_user_wrote_since_is_named_and_stays() {
    let killed = Killed::new();
    let top = killed.world.root();
    killed.kill_at("e.txt");
    killed.world.write(&top.join("a.txt"), "by the user\n");
    killed.world.write(&top.join("d/new.txt"), "by the user too\n");
    let refused = killed.world.run(&["approve", &killed.task, "--merge", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "MERGE_FAILED".into()));
    assert!(refused.stderr.contains("are in the way: a.txt"), "{}", refused.stderr);
    assert_eq!(killed.read("a.txt"), "by the user\n");
    assert_eq!(killed.read("d/new.txt"), "by the user too\n");
    assert_eq!(killed.read("c.txt"), "c before\n", "nothing else of the merge is left");
    fs::write(top.join("a.txt"), "a after\n")
        .expect("what the merge would write is not in its way");
    fs::remove_file(top.join("d/new.txt")).expect("makes way");
    killed.merges();
}

/// The lock of a git that may be running must not be removed.
#[test]
fn a_lock_of_another_git_is_named() {
    let killed = Killed::new();
    let lock = killed.world.root().join(".git/index.lock");
    killed.world.write(&lock, "");
    let refused = killed.world.run(&["approve", &killed.task, "--merge", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "MERGE_FAILED".into()));
    assert!(refused.stderr.contains(".git/index.lock has existed for"), "{}", refused.stderr);
    assert_eq!(killed.read("a.txt"), "a before\n");
    fs::remove_file(lock).expect("it is done");
    // Git takes the lock of a branch last, when the files have moved.
    let lock = killed.world.root().join(".git/refs/heads/main.lock");
    killed.world.write(&lock, "");
    let refused = killed.world.run(&["approve", &killed.task, "--merge", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "MERGE_FAILED".into()));
    assert!(refused.stderr.contains("main.lock"), "{}", refused.stderr);
    assert_eq!(killed.read("a.txt"), "a before\n", "the files are back");
    killed.world.run_git(&killed.world.root(), &["diff", "--exit-code", "HEAD"]);
    assert!(lock.exists());
    fs::remove_file(lock).expect("it is done");
    killed.merges();
}
