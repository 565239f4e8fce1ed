//! Git's folders of a worktree that an agent writes, and the places in them that a commit writes. Computed from our
//! record of the worktree: the repository it was made of, its folder and its branch. The agent can change the worktree
//! itself and the worktree's own part of the repository, so nothing there is trusted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use callboard_engine::ports::WorktreeFault;

use crate::worktree::{common_dir, failed};
use crate::worktree_file;

/// Refs of a single worktree that git deletes after a commit. For any deletion git locks `packed-refs`, whose folder is
/// closed to a confined git, so these files stay behind.
pub(crate) const AFTER_COMMIT: [&str; 3] = ["AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD"];
const AFTER_REBASE: &str = "REBASE_HEAD";

const RECORD_BYTES_MAX: u64 = 16_384;

pub(crate) struct WorktreeDirs {
    /// The worktree's own part of its repository.
    pub(crate) own: PathBuf,
    /// The part that all worktrees share.
    pub(crate) common: PathBuf,
}

impl WorktreeDirs {
    pub(crate) async fn of(repo: &Path, path: &Path) -> Result<Self, WorktreeFault> {
        let common = common_dir(repo).await?;
        let own = own_part(&common, path)?;
        let shared = worktree_file::read(&own, "commondir", RECORD_BYTES_MAX).unwrap_or_default();
        let leads_to = own.join(shared.trim_end()).canonicalize();
        // Git finds refs by this file, even when `GIT_COMMON_DIR` is set.
        if !is_real(&own) || !leads_to.is_ok_and(|leads_to| leads_to == common) {
            return Err(leads_elsewhere(&own));
        }
        Ok(Self { own, common })
    }

    /// The places that a commit writes: objects, the worktree's own part of the repository, and the folder of its
    /// branch. Neither the settings nor the branches of people are among them.
    pub(crate) fn what_a_commit_writes(&self, branch: &str) -> Result<Vec<PathBuf>, WorktreeFault> {
        let branch = Path::new("refs/heads").join(branch);
        let kept = branch.parent().unwrap_or(Path::new("refs/heads"));
        let folders = [self.common.join(kept), self.common.join("logs").join(kept)];
        for folder in &folders {
            // A folder that does not exist cannot be opened for writing either.
            fs::create_dir_all(folder).map_err(failed("cannot make the folder of a branch"))?;
            // An agent can place a link in the folders that it may write.
            if !is_real(folder) {
                return Err(leads_elsewhere(folder));
            }
        }
        Ok([self.own.clone(), self.common.join("objects")].into_iter().chain(folders).collect())
    }

    /// Deletes refs that a confined git could not delete.
    pub(crate) fn clear_left_behind(&self) -> Result<(), WorktreeFault> {
        for name in AFTER_COMMIT.into_iter().chain([AFTER_REBASE]) {
            match fs::remove_file(self.own.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed("cannot remove a ref of the worktree")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_real(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real == *path)
}

fn leads_elsewhere(path: &Path) -> WorktreeFault {
    WorktreeFault::Failed(format!("{} is a link to another place", path.display()))
}

/// The folder in which git keeps this worktree's own files. Git names it after the worktree, with a number appended
/// when the name is taken; the name alone decides between two that claim the worktree.
fn own_part(common: &Path, worktree: &Path) -> Result<PathBuf, WorktreeFault> {
    let missing = || {
        WorktreeFault::Failed(format!("git has no record of the worktree {}", worktree.display()))
    };
    let name = worktree.file_name().ok_or_else(missing)?.as_encoded_bytes();
    let mut named: Vec<PathBuf> =
        own_parts(common).into_iter().filter(|own| is_named(own, name)).collect();
    let is_other = |own: &Path| own.file_name().is_none_or(|own| own.as_encoded_bytes() != name);
    named.sort_by_key(|own| (is_other(own), own.as_os_str().len()));
    let leads_here = |own: &&PathBuf| leads_to(own).is_some_and(|folder| folder == worktree);
    named.iter().find(leads_here).cloned().ok_or_else(missing)
}

/// Whether git would give this name to the own part of a worktree called `name`.
fn is_named(own: &Path, name: &[u8]) -> bool {
    // Git replaces characters that a branch name cannot have by a dash.
    let plain = |name: &[u8]| -> Vec<u8> {
        name.iter()
            .map(|byte| if byte.is_ascii_punctuation() || *byte == b' ' { b'-' } else { *byte })
            .collect()
    };
    let own = plain(own.file_name().unwrap_or_default().as_encoded_bytes());
    own.strip_prefix(&*plain(name)).is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
}

fn own_parts(common: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The worktree that an own part claims to belong to. The agent may write the own part, so the claim is not trusted.
fn leads_to(own: &Path) -> Option<PathBuf> {
    let record = worktree_file::read(own, "gitdir", RECORD_BYTES_MAX).ok()?;
    own.join(record.trim_end()).parent()?.canonicalize().ok()
}

/// The worktree of a task below `worktrees` whose own part claims to belong to `place`.
pub(super) fn claimed_by(common: &Path, worktrees: &Path, place: &Path) -> Option<PathBuf> {
    let claims = own_parts(common).into_iter();
    let mut claims = claims.filter(|own| leads_to(own).is_some_and(|folder| folder == place));
    claims.find_map(|own| {
        let tasks = fs::read_dir(worktrees).into_iter().flatten().flatten();
        let mut tasks = tasks.map(|entry| entry.path());
        tasks.find(|task| is_named(&own, task.file_name().unwrap_or_default().as_encoded_bytes()))
    })
}

/// The working tree in which a branch is being rebased, by the records of all working trees of a repository.
pub(crate) fn rebased_in(common: &Path, main: &Path, branch: &str) -> Option<PathBuf> {
    let name = format!("refs/heads/{branch}");
    let is_rebasing = |git_dir: &Path| {
        ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|record| {
            let head = worktree_file::read(git_dir, record, RECORD_BYTES_MAX);
            head.is_ok_and(|head| head.trim_end() == name)
        })
    };
    if is_rebasing(common) {
        return Some(main.to_owned());
    }
    own_parts(common).iter().find(|own| is_rebasing(own)).and_then(|own| leads_to(own))
}
