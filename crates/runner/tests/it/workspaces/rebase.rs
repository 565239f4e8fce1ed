//! Commits go on top of the newest target, or everything stays as it was.

use std::fs;

use callboard_engine::ports::{Rebased, Worktree, WorktreeFault, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, head, make, merge, status, write};
use crate::fixture::{Repo, git_in, snapshot};

async fn rebase(worktree: &Worktree) -> Result<Rebased, WorktreeFault> {
    LocalWorktrees::default().worktree_rebase(worktree, "main", true).await
}

#[tokio::test]
async fn it_goes_onto_whichever_main_is_newer() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let first = commit(&worktree, "login.txt", "form\n");
    let same = Rebased::Onto { target: "main".into(), head: first.clone() };
    assert_eq!(rebase(&worktree).await, Ok(same), "nothing to do");

    let theirs = repo.pushed_by_another("theirs.txt", "theirs\n");
    let head_now = || head(&worktree.path);
    let done = rebase(&worktree).await.expect("rebases");
    assert_eq!(done, Rebased::Onto { target: "origin/main".into(), head: head_now() });
    assert_eq!(repo.commit_of("callboard/CB-1~1"), theirs);

    repo.git(&["merge", "-q", "--ff-only", "origin/main"]);
    repo.write("ours.txt", "ours\n");
    repo.commit("ours");
    let done = rebase(&worktree).await.expect("rebases");
    assert_eq!(done, Rebased::Onto { target: "main".into(), head: head_now() });
    assert_eq!(repo.commit_of("callboard/CB-1~1"), repo.commit_of("main"));
    assert_eq!(fs::read_to_string(worktree.path.join("ours.txt")).expect("a file"), "ours\n");
    assert_eq!(status(&worktree.path), "");

    let theirs = repo.pushed_by_another("more.txt", "more\n");
    rebase(&worktree).await.expect("rebases");
    let contains = repo.git(&["merge-base", &theirs, "callboard/CB-1"]);
    assert_eq!(contains.trim(), theirs, "of two that diverged, the remote one");
}

#[tokio::test]
async fn a_conflict_names_the_files_and_leaves_no_trace() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "fine.txt", "fine\n");
    write(&worktree, "sub/b.txt", "ours\n");
    let before = commit(&worktree, "a.txt", "ours\n");
    write(&worktree, "x.o", "built\n");
    repo.pushed_by_another("a.txt", "theirs\n");
    repo.pushed_by_another("sub/b.txt", "theirs\n");
    let files = || snapshot(&worktree.path);
    let seen = files();
    let done = rebase(&worktree).await.expect("an answer");
    let names = ["a.txt", "sub/b.txt"].map(str::to_owned).into();
    assert_eq!(done, Rebased::Conflict { target: "origin/main".into(), files: names });
    assert_eq!(head(&worktree.path), before);
    assert_eq!(git_in(&worktree.path, &["symbolic-ref", "HEAD"]), "refs/heads/callboard/CB-1\n");
    assert_eq!(status(&worktree.path), "");
    assert_eq!(files(), seen);
    let admin = repo.path.join(".git/worktrees/CB-1");
    assert!(!admin.join("rebase-merge").exists() && !admin.join("rebase-apply").exists());
}

/// The state after the server is killed midway.
#[tokio::test]
async fn a_rebase_of_ours_that_died_is_undone_but_not_one_of_the_agents() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let before = commit(&worktree, "a.txt", "ours\n");
    repo.pushed_by_another("a.txt", "theirs\n");
    repo.git(&["fetch", "-q", "origin"]);
    let stop = || {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        let ended = git.args(["rebase", "-q", "origin/main"]).current_dir(&worktree.path).output();
        assert!(!ended.expect("git runs").status.success(), "it stops at the conflict");
    };
    let worktrees = LocalWorktrees::default();
    stop();
    let words = worktrees.leftovers_commit(&worktree, "x").await.expect_err("refused").to_string();
    assert!(words.contains("but on no branch"), "{words}");
    let admin = repo.path.join(".git/worktrees/CB-1");
    assert!(admin.join("rebase-merge").exists(), "the agent goes on with it");

    fs::write(admin.join("callboard.lock"), "rebasing\n").expect("writes a file");
    fs::write(admin.join("index.lock"), "").expect("writes a file");
    assert_eq!(worktrees.leftovers_commit(&worktree, "x").await, Ok(None));
    assert!(!admin.join("rebase-merge").exists());
    assert_eq!(head(&worktree.path), before);
    assert_eq!(status(&worktree.path), "");
}

#[tokio::test]
async fn other_branches_do_not_move_along() {
    let repo = Repo::with_origin();
    repo.git(&["config", "rebase.updateRefs", "true"]);
    let worktree = make(&repo, "CB-1").await;
    let first = commit(&worktree, "one.txt", "one\n");
    repo.git(&["branch", "mine", &first]);
    commit(&worktree, "two.txt", "two\n");
    repo.pushed_by_another("theirs.txt", "theirs\n");
    rebase(&worktree).await.expect("rebases");
    assert_eq!(repo.commit_of("mine"), first);
}

/// Its first commits are in the target as one; only later commits are put on top.
#[tokio::test]
async fn a_branch_that_goes_on_after_its_merge_is_rebased_from_there() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "a.txt", "first\n");
    commit(&worktree, "a.txt", "second\n");
    merge(&worktree).await.expect("merges");
    commit(&worktree, "a.txt", "third\n");
    let done = rebase(&worktree).await.expect("an answer");
    assert!(matches!(done, Rebased::Onto { .. }), "{done:?}");
    assert_eq!(repo.commit_of("callboard/CB-1~1"), repo.commit_of("main"));
}
