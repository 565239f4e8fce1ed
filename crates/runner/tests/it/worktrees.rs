//! The folder in which a task's checks run, and its branch and tree.

use std::fs;

use callboard_engine::ports::{CheckRunner, Head};
use callboard_runner::LocalChecks;

use crate::fixture::{Repo, files_at, git_in};

#[tokio::test]
async fn only_a_registered_worktree_of_the_repo_becomes_the_root() {
    let repo = Repo::committed();
    let checks = LocalChecks::new(true);
    repo.git(&["worktree", "add", "-q", "-b", "side", ".callboard/worktrees/side"]);
    repo.git(&["worktree", "add", "-q", "-b", "far", "../far away"]);
    repo.git(&["worktree", "add", "-q", "-b", "gone", "../gone"]);
    fs::remove_dir_all(repo.path.with_file_name("gone")).expect("removes a folder");
    let stranger = Repo::committed();

    let side = repo.path.join(".callboard/worktrees/side");
    let far = repo.path.with_file_name("far away");
    for (worktree, root) in [
        (Some(".callboard/worktrees/side"), &side),
        (Some(".callboard/../.callboard/worktrees/side/"), &side),
        (Some(side.to_str().expect("UTF-8")), &side),
        (Some("../far away"), &far),
        (Some("../gone"), &repo.path),
        (Some("sub"), &repo.path),
        (Some("nowhere"), &repo.path),
        (Some(stranger.path.to_str().expect("UTF-8")), &repo.path),
        (Some("/"), &repo.path),
        (Some(""), &repo.path),
        (None, &repo.path),
    ] {
        assert_eq!(checks.root(&repo.path, worktree).await.as_ref(), Ok(root), "{worktree:?}");
    }
    let plain = Repo::plain();
    assert_eq!(checks.root(&plain.path, Some(".")).await, Ok(plain.path.clone()));
    repo.write(".git/config", "[\n");
    let fault = checks.root(&repo.path, Some("../far away")).await;
    let fault = fault.expect_err("not the repository itself, where another branch is");
    assert!(fault.to_string().contains("bad config line 1"), "{fault}");
}

#[tokio::test]
async fn a_worktree_has_its_own_branch_head_and_tree() {
    let repo = Repo::committed();
    repo.git(&["worktree", "add", "-q", "-b", "feature/x", "../side"]);
    let side = repo.path.with_file_name("side");
    assert_eq!(files_at(&side).await, repo.files().await);

    fs::write(side.join("a.txt"), "edited in the worktree\n").expect("writes a file");
    let edited = files_at(&side).await;
    assert_ne!(edited, repo.files().await);
    git_in(&side, &["commit", "-q", "-a", "-m", "edit"]);
    let committed = files_at(&side).await;
    assert_eq!(committed.tree, edited.tree);
    assert_ne!(committed.head, edited.head);

    let checks = LocalChecks::new(true);
    let branch = Some("feature/x".to_owned());
    assert_eq!(checks.head(&repo.path, &side).await, Head { branch, head: committed.head.clone() });
    git_in(&side, &["checkout", "-q", "--detach"]);
    assert_eq!(checks.head(&repo.path, &side).await, Head { branch: None, head: committed.head });
    assert_eq!(checks.head(&repo.path, &repo.path.with_file_name("gone")).await, Head::default());
}

/// Agents like to keep their worktrees in the repository, often without ignoring them.
#[tokio::test]
async fn worktrees_inside_the_repo_are_not_its_files() {
    let repo = Repo::committed();
    let before = repo.tree().await;
    repo.git(&["worktree", "add", "-q", "-b", "side", ".agents/[side]"]);
    assert_eq!(repo.tree().await, before);
    let side = repo.path.join(".agents/[side]");
    fs::write(side.join("a.txt"), "edited\n").expect("writes a file");
    git_in(&side, &["commit", "-q", "-a", "-m", "edit"]);
    assert_eq!(repo.tree().await, before);
    repo.write(".agents/notes.txt", "mine\n");
    assert_ne!(repo.tree().await, before, "its neighbours are");
}
