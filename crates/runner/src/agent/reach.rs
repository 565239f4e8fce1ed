//! What an agent may write of a repository so that it can commit in its worktree. Computed from our record
//! of the worktree: the repository it was made of, its folder and its branch. What stands in the worktree
//! itself, and in the part of the repository that is the worktree's own, is the agent's to change, so
//! nothing there is believed.

use std::fs;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{Worktree, WorktreeFault};

use super::quiet_git::GitDirs;
use crate::worktree::common_dir;

/// Objects, the worktree's own part of the repository, and the folder its branch is in: neither the
/// settings nor the branches that people work on.
pub(super) async fn what_a_commit_writes(
    worktree: &Worktree,
) -> Result<(Vec<PathBuf>, GitDirs), String> {
    let common = common_dir(&worktree.repo).await.map_err(|fault| match fault {
        WorktreeFault::Failed(words) => words,
        other => other.to_string(),
    })?;
    let own = own_part(&common, &worktree.path)?;
    let branch = Path::new("refs/heads").join(&worktree.branch);
    let kept = branch.parent().unwrap_or(Path::new("refs/heads")).to_owned();
    let folders = [common.join(&kept), common.join("logs").join(&kept)];
    for folder in &folders {
        // What does not exist cannot be opened for writing either.
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    for place in folders.iter().chain([&own]) {
        // An agent can put a link into the folders that it may write.
        if !place.canonicalize().is_ok_and(|real| real == *place) {
            return Err(format!("{} leads elsewhere", place.display()));
        }
    }
    let writes = [own.clone(), common.join("objects")].into_iter().chain(folders).collect();
    Ok((writes, GitDirs { own, common }))
}

/// The folder in which git keeps what belongs to this worktree alone. Git names it as the worktree, with a
/// number behind that when the name is taken; the name alone decides between two that claim the worktree.
fn own_part(common: &Path, worktree: &Path) -> Result<PathBuf, String> {
    let missing = || format!("git has no record of the worktree {}", worktree.display());
    let name = worktree.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
    let is_of = |found: &&PathBuf| {
        let leads_to = fs::read_to_string(found.join("gitdir")).unwrap_or_default();
        let leads_to = found.join(leads_to.trim_end());
        let leads_to = leads_to.parent().and_then(|folder| folder.canonicalize().ok());
        leads_to.is_some_and(|folder| folder == worktree)
    };
    let entries = fs::read_dir(common.join("worktrees")).map_err(|_| missing())?;
    let is_named = |entry: &fs::DirEntry| {
        let rest = entry.file_name();
        let rest = rest.to_str().and_then(|of| of.strip_prefix(name).map(str::to_owned));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut named: Vec<PathBuf> =
        entries.flatten().filter(is_named).map(|entry| entry.path()).collect();
    named.sort_by_key(|path| path.as_os_str().len());
    named.iter().find(is_of).cloned().ok_or_else(missing)
}
