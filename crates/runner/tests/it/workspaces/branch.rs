//! Branches into which work is merged.

use std::process::Command;

use callboard_domain::board::branch::is_branch_name;
use callboard_engine::ports::{BaseFrom, BranchMade, BranchOrder, WorktreeFault, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, merge_order, order, prepare, publish, try_make};
use crate::fixture::Repo;

fn epic(repo: &Repo, branch: &str) -> BranchOrder {
    BranchOrder {
        repo: repo.path.clone(),
        branch: branch.into(),
        base: "main".into(),
        base_from: BaseFrom::Remote,
        fetch: true,
    }
}

/// Whether git itself accepts the name.
fn git_accepts(name: &str) -> bool {
    let mut git = Command::new("git");
    let output = git.args(["check-ref-format", "--branch", name]).current_dir("/").output();
    output.expect("git runs").status.success()
}

#[test]
fn names_of_branches_are_those_of_git() {
    let names = "main|callboard/CB-1|a/b/c|rel/1.x|v1.2|ümlaut|no\u{a0}break|a@b|x-|a./b|a/-b|a/HEAD|\
         head|lock|refs/heads/x||-x|/x|x/|a//b|.x|a/.b|x.|x.lock|a.lock/b|a..b|a b|a\tb|a\u{7f}b|a~1|\
         a^|a:b|a?|a*|a[|a\\b|@{-1}|a@{1}|HEAD";
    for name in names.split('|') {
        assert_eq!(is_branch_name(name), git_accepts(name), "{name:?}");
    }
    // `@` is short for HEAD, and a terminal may obey the other one.
    for name in ["@", "a\u{85}b"] {
        assert!(!is_branch_name(name) && git_accepts(name), "{name:?}");
    }
}

#[tokio::test]
async fn a_branch_is_made_once() {
    let repo = Repo::with_origin();
    let theirs = repo.pushed_by_another("theirs.txt", "theirs\n");
    let worktrees = LocalWorktrees::default();
    let made = worktrees.branch_make(epic(&repo, "callboard/epic-1")).await.expect("makes it");
    assert_eq!((&made.commit, made.base.is_some()), (&theirs, true));
    repo.pushed_by_another("more.txt", "more\n");
    let again = worktrees.branch_make(epic(&repo, "callboard/epic-1")).await;
    assert_eq!(again, Ok(BranchMade { commit: theirs, base: None }), "as it is");
    for (branch, base, wanted) in [
        ("a b", "main", WorktreeFault::BadBranch("a b".into())),
        ("epic", "nope", WorktreeFault::NoBranch("nope".into())),
    ] {
        let order = BranchOrder { base: base.into(), ..epic(&repo, branch) };
        assert_eq!(worktrees.branch_make(order).await, Err(wanted));
    }
}

/// Two tasks of an epic: the second has to be rebased after the first is merged.
#[tokio::test]
async fn tasks_of_an_epic_start_from_its_branch_and_go_there() {
    let repo = Repo::committed();
    let worktrees = LocalWorktrees::default();
    worktrees.branch_make(epic(&repo, "epic")).await.expect("makes it");
    let mut made = Vec::new();
    for name in ["task-1", "task-2"] {
        let mut order = order(&repo, name);
        order.base = "epic".into();
        made.push(try_make(order).await.expect("makes one").worktree);
        commit(&made[made.len() - 1], &format!("{name}.txt"), "work\n");
    }
    let lacks = async |task: &str| {
        !worktrees.branch_contains(&repo.path, task, "epic").await.expect("an answer")
    };
    assert!(!lacks("callboard/task-1").await && !lacks("callboard/task-2").await);
    let prepared = prepare(merge_order(&made[0], "epic")).await.expect("prepares");
    let merged = publish(prepared, true).await.expect("publishes");
    assert_eq!(repo.commit_of("epic"), merged.commit.expect("a commit"));
    assert!(lacks("callboard/task-2").await);
    worktrees.worktree_rebase(&made[1], "epic", true).await.expect("rebases");
    assert!(!lacks("callboard/task-2").await);
    let nobody = worktrees.branch_contains(&repo.path, "epic", "nope").await;
    assert_eq!(nobody, Err(WorktreeFault::NoBranch("nope".into())));
}
