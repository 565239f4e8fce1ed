//! Branches without a worktree, such as the branch into which the tasks of an epic are merged.

use std::path::Path;

use callboard_domain::board::branch::is_branch_name;
use callboard_engine::ports::{BranchMade, BranchOrder, WorktreeFault};

use super::make::base;
use super::target::Tips;
use super::{fetch, is_ancestor};
use crate::git::Git;

/// Makes a branch; an existing one stays as it is.
pub(super) async fn make(order: &BranchOrder) -> Result<BranchMade, WorktreeFault> {
    let BranchOrder { repo, branch, base: from, base_from, fetch: sync } = order;
    if !is_branch_name(branch) {
        return Err(WorktreeFault::BadBranch(branch.clone()));
    }
    if let Some(commit) = Tips::of(repo, branch).await?.local {
        return Ok(BranchMade { commit, base: None });
    }
    if *sync {
        fetch(repo, from).await;
    }
    let base = base(repo, from, *base_from).await?;
    let name = format!("refs/heads/{branch}");
    // An empty old value: only if the branch does not exist.
    let set = ["update-ref", "-m", "callboard: new branch", &name, &base.commit, ""];
    match Git::writing(repo).ask(&set).await {
        Ok(_) => Ok(BranchMade { commit: base.commit.clone(), base: Some(base) }),
        // Another process made the branch first.
        Err(fault) => match Tips::of(repo, branch).await?.local {
            Some(commit) => Ok(BranchMade { commit, base: None }),
            None => Err(fault.into()),
        },
    }
}

/// Whether `whole` contains all commits of `part`; both are local branches.
pub(super) async fn contains(repo: &Path, whole: &str, part: &str) -> Result<bool, WorktreeFault> {
    let head = async |branch: &str| {
        let local = Tips::of(repo, branch).await?.local;
        local.ok_or_else(|| WorktreeFault::NoBranch(branch.into()))
    };
    let (whole, part) = (head(whole).await?, head(part).await?);
    Ok(is_ancestor(repo, &part, &whole).await?)
}
