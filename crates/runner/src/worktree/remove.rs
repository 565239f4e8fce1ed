//! Removes a worktree, but no work that exists nowhere else.

use std::ffi::OsStr;
use std::path::Path;

use callboard_engine::ports::{Removal, Worktree, WorktreeFault, WorktreeRemoved};

use super::hold::{Hold, stands_on};
use super::left::{Lost, lost_with};
use super::placed::Record;
use super::target::Tips;
use super::{common_dir, failed, fork, is_ancestor, listed, repo_lock, text};
use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;

pub(super) async fn remove(
    worktree: &Worktree,
    target: &str,
) -> Result<WorktreeRemoved, WorktreeFault> {
    // Held over the look and the removal: no other process makes or removes a worktree in between.
    let _turn = repo_lock(&worktree.repo, "worktrees").await?;
    let folder = remove_folder(worktree).await?;
    if folder == Removal::Removed {
        let common = common_dir(&worktree.repo).await?;
        let forgotten = Record::forget(&common, &worktree.path);
        forgotten.map_err(failed("cannot forget a worktree"))?;
    }
    let branch = match &folder {
        Removal::Kept(_) => Removal::Kept("its worktree still exists".into()),
        Removal::Removed | Removal::Absent => {
            remove_branch(&worktree.repo, &worktree.branch, target).await?
        }
    };
    Ok(WorktreeRemoved { folder, branch })
}

/// Whether a worktree exists and holds nothing that keeps it.
pub(super) async fn is_free(worktree: &Worktree) -> Result<bool, WorktreeFault> {
    let known = listed(&worktree.repo).await?.into_iter();
    let known = known.into_iter().find(|listed| listed.is_at(&worktree.path));
    let Some(known) = known.filter(|_| worktree.path.join(".git").exists()) else {
        return Ok(false);
    };
    if known.locked.is_some() {
        return Ok(false);
    }
    let tree = AgentTree::of(worktree).await?;
    let _hold = Hold::take(&tree).await?;
    Ok(work_in(&tree).await?.is_none())
}

async fn remove_folder(worktree: &Worktree) -> Result<Removal, WorktreeFault> {
    let path = &worktree.path;
    let known = listed(&worktree.repo).await?.into_iter().find(|listed| listed.is_at(path));
    let Some(known) = known else {
        let kept = || Removal::Kept("git does not know this folder as a worktree".into());
        return Ok(if path.exists() { kept() } else { Removal::Absent });
    };
    if path.join(".git").exists() && !known.is_half_made() {
        let tree = AgentTree::of(worktree).await?;
        let _hold = Hold::take(&tree).await?;
        if let Some(why) = work_in(&tree).await? {
            return Ok(Removal::Kept(why));
        }
    } else if path.exists() && !known.is_half_made() {
        return Ok(Removal::Kept("it has no .git file any more".into()));
    }
    if let Some(why) = known.locked.as_deref().filter(|_| !known.is_half_made()) {
        return Ok(Removal::Kept(format!("it is locked: {why}")));
    }
    // A half-made worktree is locked by git, so the flag is given twice.
    let force: &[&str] = if known.is_half_made() { &["-f", "-f"] } else { &["-f"] };
    let mut args = vec![OsStr::new("worktree"), OsStr::new("remove")];
    args.extend(force.iter().map(OsStr::new));
    args.push(known.path.as_os_str());
    Git::writing(&worktree.repo).patiently().ask(&args).await?;
    Ok(Removal::Removed)
}

/// Work that would be lost with the folder.
async fn work_in(tree: &AgentTree) -> Result<Option<String>, WorktreeFault> {
    match lost_with(tree).await? {
        Some(Lost::Files(files)) => {
            let some: Vec<_> = files.iter().take(3).map(|path| path.to_string_lossy()).collect();
            let more = if files.len() > some.len() { ", …" } else { "" };
            let count = files.len();
            return Ok(Some(format!("not committed ({count}): {}{more}", some.join(", "))));
        }
        Some(Lost::Repository(folder)) => {
            return Ok(Some(format!("it holds the repository {folder}")));
        }
        Some(Lost::State(words)) => return Ok(Some(words.into())),
        None => {}
    }
    if stands_on(tree).await?.is_none() {
        // A detached HEAD: its commits are safe only if a branch holds them.
        let containing = ["for-each-ref", "--count=1", "--contains", "HEAD", "refs/heads"];
        if tree.git().ask(&containing).await?.is_empty() {
            return Ok(Some("its commits are on no branch".into()));
        }
    }
    Ok(None)
}

/// Removes a branch that has no worktree.
pub(super) async fn branch_alone(
    repo: &Path,
    branch: &str,
    target: &str,
) -> Result<Removal, WorktreeFault> {
    let _turn = repo_lock(repo, "worktrees").await?;
    remove_branch(repo, branch, target).await
}

async fn remove_branch(repo: &Path, branch: &str, target: &str) -> Result<Removal, WorktreeFault> {
    let Some(head) = Tips::of(repo, branch).await?.local else { return Ok(Removal::Absent) };
    let elsewhere = listed(repo).await?.into_iter();
    let elsewhere = elsewhere.into_iter().find(|listed| listed.branch.as_deref() == Some(branch));
    if let Some(place) = elsewhere {
        return Ok(Removal::Kept(format!("it is checked out in {}", place.path.display())));
    }
    if !merged_into(repo, &head, target).await? {
        return Ok(Removal::Kept(format!("it has commits that {target} lacks")));
    }
    let name = format!("refs/heads/{branch}");
    Git::writing(repo).ask(&["update-ref", "-d", &name, &head]).await?;
    Ok(Removal::Removed)
}

/// Whether nothing is lost without these commits: the target has them, or a squash of them that says so, or all of
/// their changes.
pub(super) async fn merged_into(
    repo: &Path,
    head: &str,
    target: &str,
) -> Result<bool, WorktreeFault> {
    let tips = Tips::of(repo, target).await?;
    for tip in [tips.local, tips.remote].into_iter().flatten() {
        if is_ancestor(repo, head, &tip).await? {
            return Ok(true);
        }
        let fork = fork(repo, head, &tip).await?;
        if fork.merged_as.is_some() || adds_nothing(repo, &fork.base, head, &tip).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the target has all changes, as after a squash by another tool, perhaps on a forge. Commits that undo each
/// other are kept.
async fn adds_nothing(repo: &Path, base: &str, head: &str, tip: &str) -> Result<bool, GitFault> {
    let git = Git::writing(repo);
    let trees = [base, head, tip].map(|commit| format!("{commit}^{{tree}}"));
    let trees = text(&git.ask(&["rev-parse", &trees[0], &trees[1], &trees[2]]).await?);
    let trees: Vec<&str> = trees.lines().collect();
    let [of_base, of_head, of_tip] = trees.as_slice() else { return Ok(false) };
    // No change at all: the commits undo each other, and are kept as they are.
    if of_base == of_head {
        return Ok(false);
    }
    let merged = git.look(&["merge-tree", "--write-tree", "--no-messages", tip, head]).await?;
    Ok(merged.is_some_and(|tree| text(&tree) == *of_tip))
}
