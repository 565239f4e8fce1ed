//! Rebases the commits of a branch onto the newest target, in its worktree. After any failure, branch and files are as
//! before.

use callboard_engine::ports::{Rebased, Worktree, WorktreeFault};

use super::hold::{Hold, must_stand_on_its_branch};
use super::target::{Tip, Tips};
use super::{fork, is_ancestor, names, signing};
use crate::guarded::AgentTree;

pub(super) async fn rebase(worktree: &Worktree, target: &str) -> Result<Rebased, WorktreeFault> {
    let tips = Tips::of(&worktree.repo, target).await?;
    match tips.newest(&worktree.repo, target).await? {
        Tip::Local(commit) => rebase_onto(worktree, target, &commit).await,
        Tip::Remote(commit) | Tip::Diverged { remote: commit, .. } => {
            rebase_onto(worktree, &format!("origin/{target}"), &commit).await
        }
    }
}

/// Rebases onto `onto`. Leftovers must have been committed.
pub(crate) async fn rebase_onto(
    worktree: &Worktree,
    name: &str,
    onto: &str,
) -> Result<Rebased, WorktreeFault> {
    let tree = AgentTree::of(worktree).await?;
    let hold = Hold::take(&tree).await?;
    must_stand_on_its_branch(worktree, &tree).await?;
    let target = name.to_owned();
    let head = tree.head().await?;
    // Nothing to do: the branch has the newest target already.
    if is_ancestor(&worktree.repo, onto, &head).await? {
        return Ok(Rebased::Onto { target, head });
    }
    let fork = fork(&worktree.repo, &head, onto).await?;
    let mut args = vec!["rebase", "-q", "--no-fork-point", "--empty=drop"];
    // The target has the commits up to `base` as a squash. Only those after it are moved.
    if fork.is_squashed {
        args.extend(["--onto", onto, &fork.base]);
    } else {
        args.push(onto);
    }
    // Written down first, so that a process that comes after a crash here puts the branch back.
    hold.begin_rebase()?;
    let answer = signing(tree.git(), tree.writing()).await?.patiently().answer(&args).await;
    let unmerged =
        ["diff-files", "--name-only", "--diff-filter=U", "-z", "--ignore-submodules=dirty"];
    // Asked before the rebase is ended, which forgets the conflicts.
    let files = names(&tree.git().ask(&unmerged).await.unwrap_or_default());
    hold.end_rebase(&tree).await?;
    let answer = answer?;
    match answer.code {
        0 => {
            let head = tree.head().await?;
            Ok(Rebased::Onto { target, head })
        }
        _ if !files.is_empty() => Ok(Rebased::Conflict { target, files }),
        _ => Err(WorktreeFault::Failed(answer.complaint)),
    }
}
