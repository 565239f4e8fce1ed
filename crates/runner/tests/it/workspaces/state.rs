//! The reported state of a worktree.

use callboard_engine::ports::{DiffStats, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, head, make, merge, order, try_make, write};
use crate::fixture::Repo;

#[tokio::test]
async fn changes_are_counted_against_the_base() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let worktrees = LocalWorktrees::default();
    let base = repo.commit_of("main");
    let fresh = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    assert!(!fresh.has_changes() && fresh.holds_target);
    assert_eq!((fresh.commits, fresh.diff), (0, DiffStats::default()));
    assert_eq!((&fresh.head, &fresh.base), (&base, &base));

    commit(&worktree, "login.txt", "one\ntwo\n");
    write(&worktree, "a.txt", "edited\n");
    write(&worktree, "new.txt", "1\n2\n3");
    write(&worktree, "picture.png", "\0\0\0\n");
    write(&worktree, "x.o", "ignored\n");
    let state = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    assert_eq!(state.stands_on.as_deref(), Some("callboard/CB-1"));
    assert_eq!((state.commits, state.base.clone()), (1, base));
    assert_eq!(state.uncommitted, ["a.txt", "new.txt", "picture.png"]);
    assert_eq!(state.changed, ["a.txt", "login.txt", "new.txt", "picture.png"]);
    assert_eq!(state.diff, DiffStats { files: 4, insertions: 6, deletions: 1 });
    assert!(state.has_changes());
}

/// Changes of others to the target are not the task's.
#[tokio::test]
async fn a_target_that_moves_on_changes_nothing_but_the_need_for_a_rebase() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    let worktrees = LocalWorktrees::default();
    let before = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    repo.write("ours.txt", "ours\n");
    repo.commit("ours");
    let mut after = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    assert!(before.holds_target && !after.holds_target);
    after.holds_target = true;
    assert_eq!(after, before);

    // Now local and remote each have a commit that the other lacks.
    repo.pushed_by_another("theirs.txt", "theirs\n");
    repo.git(&["fetch", "-q", "origin"]);
    let mut after = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    after.holds_target = true;
    assert_eq!(after, before);
    let theirs = make(&repo, "CB-2").await;
    let state = worktrees.worktree_state(&theirs, "main").await.expect("a state");
    assert_eq!((state.commits, state.changed), (0, Vec::new()), "a base that only origin has");
}

#[tokio::test]
async fn after_its_merge_a_branch_has_nothing_new_until_it_goes_on() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "first\n");
    let merged_head = commit(&worktree, "login.txt", "second\n");
    merge(&worktree).await.expect("merges");
    let worktrees = LocalWorktrees::default();
    let state = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    assert_eq!((state.commits, state.has_changes()), (0, false));
    assert_eq!(
        (state.head.clone(), state.base.clone()),
        (merged_head.clone(), merged_head.clone())
    );

    commit(&worktree, "login.txt", "third\n");
    let state = worktrees.worktree_state(&worktree, "main").await.expect("a state");
    assert_eq!((state.commits, state.base), (1, merged_head));
    assert_eq!(state.diff, DiffStats { files: 1, insertions: 1, deletions: 1 });
    assert_eq!(state.head, head(&worktree.path));
}

#[tokio::test]
async fn without_its_target_it_says_so() {
    let repo = Repo::with_origin();
    let made = try_make(order(&repo, "CB-1")).await.expect("makes one").worktree;
    let state = LocalWorktrees::default().worktree_state(&made, "nope").await;
    assert_eq!(
        state.expect_err("no target").to_string(),
        "there is neither a branch nope nor origin/nope"
    );
}
