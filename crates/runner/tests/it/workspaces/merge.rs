//! The prepared merge, before anything moves.

use std::fs;
use std::future::Future;
use std::task::{Context, Waker};

use callboard_engine::ports::{MergeFault, MergePlan, Merges, PreparedPart};
use callboard_runner::LocalWorktrees;

use super::{commit, head, make, merge, merge_order, prepare, publish, status, write};
use crate::fixture::{Repo, git_in};

fn planned(part: &PreparedPart) -> (&str, &[String]) {
    match &part.plan {
        MergePlan::Commit { commit, files } => (commit, files),
        other => panic!("no commit: {other:?}"),
    }
}

#[tokio::test]
async fn one_commit_on_top_of_the_target_holds_all_of_the_branch() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "one\n");
    commit(&worktree, "login.txt", "two\n");
    write(&worktree, "left.txt", "nobody committed this\n");
    let before = repo.commit_of("main");
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let part = prepared.parts[0].clone();
    let (squash, files) = planned(&part);
    assert_eq!(files, ["left.txt", "login.txt"]);
    assert_eq!(repo.commit_of("main"), before, "nothing moved");
    assert_eq!(repo.commit_of(&format!("{squash}^")), before);
    assert_eq!(repo.file_in(squash, "login.txt"), "two\n");
    let head = head(&worktree.path);
    let message = repo.git(&["log", "-1", "--format=%B", squash]);
    assert_eq!(
        message.trim_end(),
        format!(
            "Add login (callboard CB-1)\n\nWith a form.\n\nCallboard-Task: CB-1\nCallboard-Head: {head}"
        )
    );
    let left = repo.git(&["log", "-1", "--format=%s", "callboard/CB-1"]);
    assert_eq!(left.trim(), "chore: adding uncommitted agent changes (CB-1)");

    let merged = publish(prepared, true).await.expect("publishes");
    assert_eq!(merged.commit.as_deref(), Some(squash));
    assert_eq!(merged.pushed, Some(Ok(())));
    assert_eq!(repo.commit_of("main"), squash);
    let origin = git_in(&repo.path.with_file_name("origin.git"), &["rev-parse", "main"]);
    assert_eq!(origin.trim(), squash);
    assert_eq!(repo.read("login.txt"), "two\n", "main is checked out here");
    assert_eq!(status(&repo.path), "");
}

#[tokio::test]
async fn merging_again_finds_the_same_commit() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    let first = merge(&worktree).await.expect("merges").commit;
    assert!(first.is_some());
    let again = merge(&worktree).await.expect("merges");
    assert_eq!((&again.commit, again.pushed), (&first, Some(Ok(()))));

    repo.write("login.txt", "changed since\n");
    repo.commit("later");
    let main = repo.commit_of("main");
    assert_eq!(merge(&worktree).await.expect("merges").commit, first);
    assert_eq!(repo.commit_of("main"), main);

    commit(&worktree, "more.txt", "more\n");
    let second = merge(&worktree).await.expect("merges what came later").commit;
    assert_ne!(second, first);
    assert_eq!(repo.read("login.txt"), "changed since\n", "and only that");
    assert_eq!(repo.read("more.txt"), "more\n");
}

/// A server that died after the ref had moved and before the push.
#[tokio::test]
async fn merging_again_pushes_what_was_not_pushed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let merged = publish(prepared, false).await.expect("publishes");
    assert_eq!(merged.pushed, None);
    let again = merge(&worktree).await.expect("merges");
    assert_eq!((again.commit, again.pushed), (merged.commit, Some(Ok(()))));
    let origin = git_in(&repo.path.with_file_name("origin.git"), &["rev-parse", "main"]);
    assert_eq!(origin.trim(), repo.commit_of("main"));
}

#[tokio::test]
async fn a_branch_without_work_has_nothing_to_merge() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let main = repo.commit_of("main");
    let merged = merge(&worktree).await.expect("merges");
    assert_eq!((merged.commit, merged.pushed), (None, None));
    commit(&worktree, "a.txt", "tried\n");
    git_in(&worktree.path, &["revert", "--no-edit", "HEAD"]);
    assert_eq!(merge(&worktree).await.expect("merges").commit, None);
    assert_eq!(repo.commit_of("main"), main);
}

#[tokio::test]
async fn a_conflict_names_the_files_and_changes_nothing() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "fine.txt", "fine\n");
    let work = commit(&worktree, "a.txt", "ours\n");
    let theirs = repo.pushed_by_another("a.txt", "theirs\n");
    let main = repo.commit_of("main");
    let fault = prepare(merge_order(&worktree, "main")).await.err().expect("a conflict");
    assert_eq!(fault.files(), ["a.txt"]);
    assert!(matches!(fault, MergeFault::Conflict { .. }), "{fault}");
    assert_eq!((repo.commit_of("main"), head(&worktree.path)), (main, work));
    assert_eq!(repo.commit_of("origin/main"), theirs);
    assert_eq!(status(&worktree.path), "");
}

/// Under the strategy `remote` work starts at origin's commit, which local `main` may lack.
#[tokio::test]
async fn a_target_behind_its_origin_is_brought_along_not_squashed_in() {
    let repo = Repo::with_origin();
    let theirs = repo.pushed_by_another("theirs.txt", "theirs\n");
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    let newer = repo.pushed_by_another("newer.txt", "newer\n");
    let merged = merge(&worktree).await.expect("merges");
    let squash = merged.commit.expect("a commit");
    assert_eq!(merged.pushed, Some(Ok(())));
    assert_eq!(repo.commit_of("main~1"), newer);
    assert_eq!(repo.commit_of("main~2"), theirs);
    let files = repo.git(&["show", "--format=", "--name-only", &squash]);
    assert_eq!(files, "login.txt\n");
    assert_eq!(repo.read("newer.txt"), "newer\n");
}

#[tokio::test]
async fn targets_that_diverged_take_only_what_is_not_mixed_up_with_the_other() {
    let repo = Repo::with_origin();
    let before = make(&repo, "CB-1").await;
    commit(&before, "login.txt", "form\n");
    repo.pushed_by_another("theirs.txt", "theirs\n");
    let after = make(&repo, "CB-2").await;
    commit(&after, "more.txt", "more\n");
    repo.write("ours.txt", "ours\n");
    repo.commit("ours");

    let fault = merge(&after).await.expect_err("it would squash what others did");
    assert_eq!(fault, MergeFault::Diverged("main".into()));
    let merged = merge(&before).await.expect("merges");
    let why = merged.pushed.expect("an origin").expect_err("origin has more");
    assert!(why.contains("rejected"), "{why}");
    assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"), "the merge stands");
    assert!(!repo.path.join("theirs.txt").exists());
}

#[tokio::test]
async fn targets_that_are_no_local_branch_are_refused() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    for (target, words) in [
        ("origin/main", "origin/main is a branch of a remote: merge into a local branch"),
        ("nope", "there is neither a branch nope nor origin/nope"),
        ("main~1", "\"main~1\" is not a valid branch name"),
        ("--all", "\"--all\" is not a valid branch name"),
    ] {
        let fault = prepare(merge_order(&worktree, target)).await.err().expect("refused");
        assert_eq!(fault.to_string(), words);
    }
}

/// Part of the work is in the target already, by another commit.
#[tokio::test]
async fn what_conflicts_as_a_whole_may_go_commit_by_commit() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let picked = commit(&worktree, "a.txt", "first\n");
    commit(&worktree, "a.txt", "second\n");
    repo.git(&["cherry-pick", &picked]);
    merge(&worktree).await.expect("merges");
    assert_eq!(repo.read("a.txt"), "second\n");
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).trim(), "3");
}

#[tokio::test]
async fn the_result_can_be_looked_at_before_it_is_published() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    write(&worktree, "x.o", "built\n");
    let worktrees = LocalWorktrees::default();
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let place = worktrees.merge_look(&prepared.parts[0]).await.expect("a folder");
    assert_eq!(place, worktree.path, "its own worktree is the same, and has what was built");
    worktrees.merge_abandon(prepared).await;
    assert!(worktree.path.join("x.o").exists());

    repo.write("ours.txt", "ours\n");
    repo.commit("ours");
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let place = worktrees.merge_look(&prepared.parts[0]).await.expect("a folder");
    assert_ne!(place, worktree.path);
    assert_eq!(fs::read_to_string(place.join("ours.txt")).expect("a file"), "ours\n");
    assert_eq!(fs::read_to_string(place.join("login.txt")).expect("a file"), "form\n");
    assert!(!worktree.path.join("ours.txt").exists());
    assert_eq!(status(&repo.path), "");
    fs::write(place.join("built.o"), "built\n").expect("writes a file");
    // The caller of a look may be gone without closing it.
    drop(prepared);
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    assert!(!place.exists(), "the next one cleans up");
    assert_eq!(worktrees.merge_look(&prepared.parts[0]).await.expect("a folder"), place);
    publish(prepared, true).await.expect("publishes");
    assert!(!place.exists());
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 2);
}

#[tokio::test]
async fn merges_in_one_repository_wait_for_each_other() {
    let repo = Repo::with_origin();
    let (one, two) = (make(&repo, "CB-1").await, make(&repo, "CB-2").await);
    commit(&one, "one.txt", "one\n");
    commit(&two, "two.txt", "two\n");
    let prepared = prepare(merge_order(&one, "main")).await.expect("prepares");
    let mut next = Box::pin(prepare(merge_order(&two, "main")));
    // A merge that may run beside others takes the same steps. Several of them end while the next one waits.
    for _ in 0..3 {
        let mut freely = merge_order(&two, "main");
        freely.one_at_a_time = false;
        freely.task = "CB-2".into();
        tokio::select! {
            biased;
            _ = next.as_mut() => panic!("two at once"),
            free = prepare(freely) => drop(free.expect("does not wait")),
        }
    }
    let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    publish(prepared, true).await.expect("publishes");
    let prepared = next.await.expect("its turn");
    publish(prepared, true).await.expect("publishes");
    assert_eq!((repo.read("one.txt"), repo.read("two.txt")), ("one\n".into(), "two\n".into()));
}
