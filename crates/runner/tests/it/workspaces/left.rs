//! What would be lost without a worktree and its branch.

use callboard_domain::board::gc::WorkFact;
use callboard_engine::ports::{ListedWork, Worktree, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, make, merge, write};
use crate::fixture::{Repo, git_in};

async fn left(repo: &Repo, worktree: &Worktree) -> WorkFact {
    let listed =
        ListedWork { path: Some(worktree.path.clone()), branch: Some(worktree.branch.clone()) };
    LocalWorktrees::default().work_left(&repo.path, &listed, "main").await
}

fn unmerged() -> WorkFact {
    WorkFact::Unmerged { target: "main".into() }
}

#[tokio::test]
async fn every_kind_of_work_is_seen() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "nothing was done");
    write(&worktree, "ignored.o", "built\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "an ignored file is no work");
    write(&worktree, "new.txt", "work\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(1));
    write(&worktree, "a.txt", "changed\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(2));
    commit(&worktree, "new.txt", "work\n");
    assert_eq!(left(&repo, &worktree).await, unmerged());
    merge(&worktree).await.expect("merges");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "a squash of it is in main");
    commit(&worktree, "more.txt", "more\n");
    assert_eq!(left(&repo, &worktree).await, unmerged(), "it went on after its merge");
}

/// A clone inside the worktree has commits of its own, which git's status of the worktree does not name.
#[tokio::test]
async fn a_nested_clone_is_work() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let inner = worktree.path.join("inner");
    git_in(&worktree.path, &["init", "-q", "inner"]);
    std::fs::write(inner.join("x"), "x").expect("writes");
    git_in(&inner, &["add", "x"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(1));
}

#[tokio::test]
async fn a_worktree_in_use_or_unknown_to_git_is_no_waste() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let path = worktree.path.display().to_string();
    repo.git(&["worktree", "lock", "--reason", "mine", &path]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Busy("it is locked: mine".into()));
    repo.git(&["worktree", "unlock", &path]);
    git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Busy("it is on no branch".into()));
    let stray = worktree.path.with_file_name("stray");
    std::fs::create_dir(&stray).expect("a folder");
    let stray = Worktree { path: stray, ..worktree.clone() };
    let unknown = "git does not know this folder as a worktree";
    assert_eq!(left(&repo, &stray).await, WorkFact::Unreadable(unknown.into()));
    git_in(&worktree.path, &["checkout", "-q", &worktree.branch]);
    let none = LocalWorktrees::default();
    let listed = ListedWork { path: Some(worktree.path.clone()), branch: None };
    let fact = none.work_left(&repo.path, &listed, "no-such-target").await;
    assert!(matches!(fact, WorkFact::Unmerged { .. } | WorkFact::Unreadable(_)), "{fact:?}");
}

#[tokio::test]
async fn worktrees_and_branches_without_one_are_listed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    repo.git(&["branch", "callboard/CB-2-old", "main"]);
    repo.git(&["branch", "callboard/CB-3", "main"]);
    repo.git(&["branch", "mine", "main"]);
    std::fs::create_dir(worktree.path.with_file_name(".merge-CB-1")).expect("a folder");
    std::fs::create_dir(worktree.path.with_file_name("stray")).expect("a folder");
    let all = LocalWorktrees::default();
    let listed = all.worktrees_listed(&repo.path, &["callboard/".into()]).await.expect("lists");
    let shown: Vec<String> = listed
        .iter()
        .map(|one| {
            let name = one.path.as_ref().and_then(|path| path.file_name());
            let name = name.map(|name| name.to_string_lossy().into_owned());
            format!("{} {}", name.as_deref().unwrap_or("-"), one.branch.as_deref().unwrap_or("-"))
        })
        .collect();
    let wanted = ["CB-1 callboard/CB-1", "stray -", "- callboard/CB-2-old", "- callboard/CB-3"];
    assert_eq!(shown, wanted);
    let branch = ListedWork { path: None, branch: Some("callboard/CB-3".into()) };
    assert_eq!(all.work_left(&repo.path, &branch, "main").await, WorkFact::Merged);
}
