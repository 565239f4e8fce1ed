//! The changes of a task's work as a patch, and a preview of its merge. Looking writes nothing.

use std::fs;

use callboard_domain::review::conflict::{ConflictHunk, FileConflict};
use callboard_engine::ports::{
    FileDiff, MergeOutlook, Merges, Worktree, WorktreeDiff, WorktreeFault, Worktrees,
};
use callboard_runner::LocalWorktrees;

use super::{commit, make, merge, status, write};
use crate::fixture::{Repo, git_in};

async fn diff(worktree: &Worktree, below: Option<&str>) -> WorktreeDiff {
    let diff = LocalWorktrees::default().worktree_diff(worktree, "main", below).await;
    diff.expect("a diff")
}

async fn outlook(worktree: &Worktree) -> MergeOutlook {
    let head = git_in(&worktree.path, &["rev-parse", "HEAD"]);
    let looked = LocalWorktrees::default().merge_outlook(&worktree.repo, head.trim(), "main").await;
    looked.expect("an outlook")
}

fn file(path: &str, lines: Option<(u64, u64)>) -> FileDiff {
    FileDiff { path: path.into(), was: None, lines }
}

#[tokio::test]
async fn a_patch_holds_everything_and_stages_nothing() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    assert_eq!(diff(&worktree, Some("")).await.patch.as_deref(), Some(""));
    commit(&worktree, "long.txt", &"line\n".repeat(20));
    merge(&worktree).await.expect("merges");
    fs::rename(worktree.path.join("long.txt"), worktree.path.join("moved.txt")).expect("moves");
    write(&worktree, "new.txt", "1\n2\n");
    write(&worktree, "picture.png", "\0\0\0\n");
    write(&worktree, "x.o", "ignored\n");
    write(&worktree, ".callboard/start_prompt.md", "ours\n");
    let objects = || git_in(&repo.path, &["count-objects"]);
    let (known, before) = (objects(), status(&worktree.path));
    let found = diff(&worktree, Some("shop/")).await;
    assert_eq!((objects(), status(&worktree.path)), (known, before));
    let moved = FileDiff { was: Some("long.txt".into()), ..file("moved.txt", Some((0, 0))) };
    let new = [moved, file("new.txt", Some((2, 0))), file("picture.png", None)];
    assert_eq!(found.files, new, "against what is merged");
    let patch = found.patch.expect("asked for");
    assert!(patch.contains("diff --git a/shop/new.txt b/shop/new.txt\n"), "{patch}");
    assert!(patch.contains("GIT binary patch\n"), "{patch}");
    assert_eq!(diff(&worktree, None).await.patch, None);
}

#[tokio::test]
async fn an_outlook_says_what_a_merge_would_meet() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let clear = |behind| MergeOutlook { behind, conflicts: Vec::new() };
    assert_eq!(outlook(&worktree).await, clear(0));
    commit(&worktree, "a.txt", "ours\n");
    repo.write("other.txt", "theirs\n");
    repo.commit("theirs");
    let known = git_in(&repo.path, &["count-objects"]);
    assert_eq!(outlook(&worktree).await, clear(1));
    assert_eq!(git_in(&repo.path, &["count-objects"]), known);
    repo.write("a.txt", "theirs\n");
    repo.commit("theirs too");
    let meets = MergeOutlook { behind: 2, conflicts: vec!["a.txt".into()] };
    assert_eq!(outlook(&worktree).await, meets);
    let of_branch = LocalWorktrees::default();
    let of_branch = of_branch.merge_outlook(&worktree.repo, &worktree.branch, "main").await;
    assert_eq!(of_branch.expect("an outlook"), meets);
}

#[tokio::test]
async fn a_conflict_has_the_lines_of_both_sides_or_the_words_of_git() {
    let repo = Repo::with_origin();
    for file in ["gone.txt", "list.txt", "both.txt"] {
        repo.write(file, "1\n2\n3\n4\n5\n");
    }
    repo.commit("three files");
    git_in(&repo.path, &["push", "--quiet", "origin", "main"]);
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "list.txt", "1\n2\nours\n4\n5\n");
    write(&worktree, "gone.txt", "ours\n");
    commit(&worktree, "both.txt", "1\n2\n3\n4\n5\nours\n");
    repo.write("list.txt", "1\n2\ntheirs\nand more\n4\n5\n");
    repo.write("both.txt", "theirs\n1\n2\n3\n4\n5\n");
    git_in(&repo.path, &["rm", "--quiet", "gone.txt"]);
    repo.commit("theirs");
    let head = git_in(&worktree.path, &["rev-parse", "HEAD"]);
    let known = git_in(&repo.path, &["count-objects"]);
    let found = async |file: &str| {
        let merges = LocalWorktrees::default();
        let found = merges.merge_conflict(&worktree.repo, head.trim(), "main", file).await;
        found.expect("git can tell")
    };
    let lines = |lines: &str| lines.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let hunk = ConflictHunk {
        before: lines("1 2"),
        target: vec!["theirs".into(), "and more".into()],
        work: lines("ours"),
        after: lines("4 5"),
    };
    assert_eq!(found("list.txt").await, FileConflict { hunks: vec![hunk], words: Vec::new() });
    let gone = found("gone.txt").await;
    assert!(gone.hunks.is_empty(), "{gone:?}");
    let [words] = gone.words.as_slice() else { panic!("one message: {gone:?}") };
    assert!(words.contains("deleted in main and modified in the work"), "{words}");
    for file in ["both.txt", "nothing-like-it", ""] {
        assert_eq!(found(file).await, FileConflict::default(), "{file}");
    }
    assert_eq!(git_in(&repo.path, &["count-objects"]), known, "looking writes nothing");
}

#[tokio::test]
async fn a_branch_has_what_is_committed_since_it_left_its_target() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "a.txt", "ours\n");
    write(&worktree, "new.txt", "not committed\n");
    repo.write("other.txt", "theirs\n");
    repo.commit("theirs");
    let diff = async |branch: &str, patch: bool| {
        LocalWorktrees::default().branch_diff(&repo.path, branch, "main", patch).await
    };
    let found = diff(&worktree.branch, true).await.expect("a diff");
    let paths: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a.txt"]);
    let patch = found.patch.expect("asked for");
    assert!(patch.contains("\n+ours\n") && !patch.contains("theirs"), "{patch}");
    assert_eq!(diff(&worktree.branch, false).await.expect("a diff").patch, None);
    assert!(matches!(diff("gone", false).await, Err(WorktreeFault::NoBranch(_))));
    assert!(matches!(diff("--output=x", false).await, Err(WorktreeFault::BadBranch(_))));
}
