//! Branches into which work is merged.

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
