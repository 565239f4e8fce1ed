//! A worktree is removed; work is not.

use std::fs;

use callboard_engine::ports::{Removal, TaskWorktree, Worktree, WorktreeRemoved, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, make, merge, write};
use crate::fixture::{Repo, git_in, task};

async fn remove(worktree: &Worktree) -> WorktreeRemoved {
    let of = TaskWorktree { worktree: worktree.clone(), task: task(), slug: "cb-1".into() };
    LocalWorktrees::default().worktree_remove(&of, "main").await.expect("an answer")
}

fn kept(why: &str) -> Removal {
    Removal::Kept(why.into())
}

#[tokio::test]
async fn what_was_not_committed_keeps_both() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        write(&worktree, name, "work\n");
    }
    let removed = remove(&worktree).await;
    assert_eq!(removed.folder, kept("not committed (4): a.txt, b.txt, c.txt, …"));
    assert_eq!(removed.branch, kept("its worktree still exists"));
    assert!(worktree.path.join("d.txt").exists());
}

/// What keeps a worktree from `callboard gc` keeps it from every other removal, too.
#[tokio::test]
async fn work_that_git_does_not_name_keeps_both() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["update-index", "--skip-worktree", "a.txt"]);
    write(&worktree, "a.txt", "only here\n");
    assert_eq!(remove(&worktree).await.folder, kept("not committed (1): a.txt"));
    git_in(&worktree.path, &["update-index", "--no-skip-worktree", "a.txt"]);
    git_in(&worktree.path, &["checkout", "-q", "a.txt"]);
    git_in(&worktree.path, &["init", "-q", "x.o"]);
    assert_eq!(remove(&worktree).await.folder, kept("it holds the repository x.o"));
    fs::remove_dir_all(worktree.path.join("x.o")).expect("removes a folder");
    let modules = git_in(&worktree.path, &["rev-parse", "--git-path", "modules"]);
    fs::create_dir_all(modules.trim()).expect("a folder");
    assert_eq!(remove(&worktree).await.folder, kept("it has submodules"));
}

#[tokio::test]
async fn commits_keep_the_branch_alone() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let work = commit(&worktree, "login.txt", "form\n");
    write(&worktree, "x.o", "built\n");
    write(&worktree, ".callboard/session.json", "{}\n");
    let removed = remove(&worktree).await;
    assert_eq!(removed.folder, Removal::Removed);
    assert_eq!(removed.branch, kept("it has commits that main lacks"));
    assert!(!worktree.path.exists());
    assert_eq!(repo.commit_of("callboard/CB-1"), work);
    assert_eq!(remove(&worktree).await.folder, Removal::Absent);
}

#[tokio::test]
async fn without_work_both_go_and_asking_again_is_fine() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let both = WorktreeRemoved { folder: Removal::Removed, branch: Removal::Removed };
    assert_eq!(remove(&worktree).await, both);
    let neither = WorktreeRemoved { folder: Removal::Absent, branch: Removal::Absent };
    assert_eq!(remove(&worktree).await, neither);
    assert_eq!(repo.git(&["branch", "--list", "callboard/*"]), "");
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn merged_work_goes_however_it_was_merged() {
    let repo = Repo::with_origin();
    let ours = make(&repo, "CB-1").await;
    commit(&ours, "login.txt", "form\n");
    merge(&ours).await.expect("merges");
    repo.write("login.txt", "changed since\n");
    repo.commit("later");
    assert_eq!(remove(&ours).await.branch, Removal::Removed, "by our own squash");

    let forge = make(&repo, "CB-2").await;
    commit(&forge, "more.txt", "more\n");
    repo.git(&["merge", "-q", "--squash", "callboard/CB-2"]);
    repo.commit("squashed by somebody");
    assert_eq!(remove(&forge).await.branch, Removal::Removed, "by its content");

    let plain = make(&repo, "CB-3").await;
    commit(&plain, "third.txt", "third\n");
    repo.git(&["merge", "-q", "--no-ff", "--no-edit", "callboard/CB-3"]);
    assert_eq!(remove(&plain).await.branch, Removal::Removed, "by its commits");

    let undone = make(&repo, "CB-4").await;
    commit(&undone, "fourth.txt", "an idea worth keeping\n");
    git_in(&undone.path, &["revert", "--no-edit", "HEAD"]);
    assert_eq!(remove(&undone).await.branch, kept("it has commits that main lacks"));
}

#[tokio::test]
async fn commits_on_no_branch_and_other_peoples_locks_keep_the_folder() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    commit(&worktree, "login.txt", "form\n");
    assert_eq!(remove(&worktree).await.folder, kept("its commits are on no branch"));
    git_in(&worktree.path, &["checkout", "-q", "callboard/CB-1"]);
    repo.git(&["worktree", "lock", "--reason", "on a stick", ".callboard/worktrees/CB-1"]);
    assert_eq!(remove(&worktree).await.folder, kept("it is locked: on a stick"));
    repo.git(&["worktree", "unlock", ".callboard/worktrees/CB-1"]);
    fs::remove_dir_all(&worktree.path).expect("removes a folder");
    assert_eq!(remove(&worktree).await.folder, Removal::Removed, "git forgets it");
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
}
