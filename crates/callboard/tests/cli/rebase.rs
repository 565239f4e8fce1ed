//! `callboard rebase`: a task's work on top of its target, or the conflicting files for a person.

use crate::notices::{in_review, project_with_origin};

#[test]
fn work_goes_on_top_of_the_newest_target() {
    let world = project_with_origin();
    let id = in_review(&world, "flag");
    world.write(&world.root().join("other"), "two\n");
    world.run_git(&world.root(), &["add", "other"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "second"]);
    world.run_git(&world.root(), &["push", "-q", "origin", "main"]);
    let rebased = world.ok(&["rebase", &id]);
    assert!(rebased.stderr.contains("rebased onto "), "{}", rebased.stderr);
    assert!(world.callboard("worktrees").join(&id).join("other").exists(), "it has the new file");
    assert!(!world.root().join("flag").exists(), "the target is as it was");
}

#[test]
fn a_conflict_names_the_files_and_changes_nothing() {
    let world = project_with_origin();
    let id = in_review(&world, "flag");
    world.write(&world.root().join("flag"), "theirs\n");
    world.run_git(&world.root(), &["add", "flag"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "theirs"]);
    world.run_git(&world.root(), &["push", "-q", "origin", "main"]);
    let refused = world.run(&["rebase", &id, "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "REBASE_FAILED".into()));
    assert!(refused.stderr.contains("flag"), "{}", refused.stderr);
    let read = std::fs::read_to_string(world.callboard("worktrees").join(&id).join("flag"));
    assert_eq!(read.expect("a file"), "new\n");
}
