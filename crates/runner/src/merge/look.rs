//! A folder with the files of a merge before it is made, for running commands on them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{
    MergeFault, MergeFrom, MergePlan, PreparedPart, Worktree, WorktreeFault,
};

use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;
use crate::worktree::{
    add_unfiltered, failed, hide_folder, listed, repo_lock, stands_on, text, uncommitted,
};

pub(super) async fn open(folder: &Path, part: &PreparedPart) -> Result<PathBuf, MergeFault> {
    let commit = match &part.plan {
        MergePlan::Commit { commit, .. } | MergePlan::AlreadyThere { commit } => commit,
        // Nothing will be merged, so the branch itself has the files.
        MergePlan::Nothing => &part.head,
    };
    if let MergeFrom::Worktree { worktree, .. } = &part.from
        && is_in_worktree(worktree, commit).await?
    {
        return Ok(worktree.path.clone());
    }
    let repo = part.from.repo();
    let place = place(folder, repo, &part.task)?;
    let _turn = repo_lock(repo, "worktrees").await?;
    remove(repo, &place).await?;
    hide_folder(repo, &place).await?;
    add_unfiltered(repo, &place, &["-f", "--detach"], OsStr::new(commit)).await?;
    Ok(place)
}

/// Whether the task's worktree has the files of the merge. It has the build caches too, so it is the better place.
async fn is_in_worktree(worktree: &Worktree, commit: &str) -> Result<bool, WorktreeFault> {
    let tree = AgentTree::to_look_at(worktree).await?;
    let trees = [commit, "HEAD"].map(|commit| format!("{commit}^{{tree}}"));
    let trees = text(&tree.git().ask(&["rev-parse", &trees[0], &trees[1]]).await?);
    let same = trees.split_once('\n').is_some_and(|(merged, here)| merged == here);
    let branch = stands_on(&tree).await?;
    Ok(same && branch.as_ref() == Some(&worktree.branch) && uncommitted(&tree).await?.is_empty())
}

/// Removes the folder, also one that a dead process left behind.
pub(super) async fn close(folder: &Path, repo: &Path, task: &str) {
    let Ok(place) = place(folder, repo, task) else { return };
    if !place.exists() {
        return;
    }
    let removed = match repo_lock(repo, "worktrees").await {
        Ok(_turn) => remove(repo, &place).await,
        Err(fault) => Err(fault),
    };
    if let Err(fault) = removed {
        tracing::warn!(%fault, place = %place.display(), "cannot remove the folder of an earlier merge");
    }
}

async fn remove(repo: &Path, place: &Path) -> Result<(), WorktreeFault> {
    if listed(repo).await?.iter().any(|listed| listed.is_at(place)) {
        let remove = ["worktree", "remove", "-f", "-f"].map(OsStr::new);
        let removed = Git::writing(repo).ask(&[&remove[..], &[place.as_os_str()]].concat()).await;
        // Files of checks may keep git from removing the folder; the folder is ours.
        if let Err(GitFault::Outside) = removed {
            return removed.map(drop).map_err(Into::into);
        }
    }
    if place.exists() {
        fs::remove_dir_all(place).map_err(failed("cannot remove the folder of a merge"))?;
    }
    Ok(())
}

/// The path of the folder. It begins with a dot, which no worktree of a task does.
fn place(folder: &Path, repo: &Path, task: &str) -> Result<PathBuf, WorktreeFault> {
    let repo = repo.canonicalize().map_err(failed("cannot find the repository"))?;
    let is_char = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if task.is_empty() || !task.chars().all(is_char) {
        return Err(WorktreeFault::BadName(task.into()));
    }
    Ok(repo.join(folder).join(format!(".merge-{task}")))
}
