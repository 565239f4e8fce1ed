//! Locks for writers: one process at a time makes or removes worktrees of a repository, merges in it, or works in one
//! of the worktrees. The locks are kernel locks on files in git's own folders; a process that dies drops them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_engine::ports::{Worktree, WorktreeFault};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::{failed, text};
use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;

/// How often to poll for a lock that another process holds.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Locks a repository. `what` names the lock; locks of different names are independent.
pub(crate) async fn repo_lock(repo: &Path, what: &str) -> Result<File, WorktreeFault> {
    let folder = common_dir(repo).await?.join("callboard");
    let cannot = "cannot lock the repository";
    fs::create_dir_all(&folder).map_err(failed(cannot))?;
    lock(&folder.join(format!("{what}.lock"))).await.map_err(failed(cannot))
}

/// The folder that all worktrees of a repository share.
pub(crate) async fn common_dir(repo: &Path) -> Result<PathBuf, WorktreeFault> {
    let answer = Git::at(repo).ask(&["rev-parse", "--git-common-dir"]).await?;
    repo.join(text(&answer)).canonicalize().map_err(failed("cannot find the repository"))
}

async fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // An agent can replace the lock file of its worktree by a link.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The lock of a commit or rebase in a worktree.
pub(crate) struct Hold {
    /// The file holds a word during a rebase or a commit of ours, so that a rebase of ours that died is told from one
    /// that the agent began.
    file: File,
    pub(super) git_dir: PathBuf,
}

const REBASING: &[u8] = b"rebasing\n";
const COMMITTING: &[u8] = b"commits\n";

impl Hold {
    /// Takes the lock, and first undoes what a dead process of ours left half done.
    pub(super) async fn take(tree: &AgentTree) -> Result<Self, WorktreeFault> {
        let git_dir = tree.dirs().own.clone();
        let cannot = "cannot lock the worktree";
        let mut file = lock(&git_dir.join("callboard.lock")).await.map_err(failed(cannot))?;
        let mut word = Vec::new();
        file.read_to_end(&mut word).map_err(failed(cannot))?;
        let hold = Self { file, git_dir };
        if word == COMMITTING {
            clear_stale(&["index.lock", "HEAD.lock"].map(|lock| hold.git_dir.join(lock)))?;
        }
        if !word.is_empty() {
            hold.end_rebase(tree).await?;
        }
        Ok(hold)
    }

    pub(super) fn begin_commit(&self) -> Result<(), WorktreeFault> {
        self.file.write_all_at(COMMITTING, 0).map_err(failed("cannot begin a commit"))
    }

    pub(super) fn end_commit(&self) -> Result<(), WorktreeFault> {
        self.file.set_len(0).map_err(failed("cannot end a commit"))
    }

    pub(super) fn begin_rebase(&self) -> Result<(), WorktreeFault> {
        self.file.write_all_at(REBASING, 0).map_err(failed("cannot begin a rebase"))
    }

    /// Ends a rebase, also one that stopped midway: the branch is then as before.
    pub(super) async fn end_rebase(&self, tree: &AgentTree) -> Result<(), WorktreeFault> {
        if is_in_a_rebase(&self.git_dir) {
            // A killed git leaves its index lock behind; under this lock no other git of ours is running.
            let _ = fs::remove_file(self.git_dir.join("index.lock"));
            tree.writing().ask(&["rebase", "--abort"]).await?;
        }
        tree.dirs().clear_left_behind()?;
        self.file.set_len(0).map_err(failed("cannot end a rebase"))
    }
}

/// Whether the worktree with this folder of git's is in the middle of a rebase.
pub(super) fn is_in_a_rebase(git_dir: &Path) -> bool {
    ["rebase-merge", "rebase-apply"].iter().any(|state| git_dir.join(state).exists())
}

/// Refuses to work when the agent, or a person, checked out something else.
pub(super) async fn must_stand_on_its_branch(
    worktree: &Worktree,
    tree: &AgentTree,
) -> Result<(), WorktreeFault> {
    match stands_on(tree).await? {
        Some(branch) if branch == worktree.branch => Ok(()),
        other => {
            let stands_on = other.unwrap_or_else(|| "no branch".into());
            Err(WorktreeFault::Elsewhere { branch: worktree.branch.clone(), stands_on })
        }
    }
}

pub(crate) async fn stands_on(tree: &AgentTree) -> Result<Option<String>, GitFault> {
    let asked = tree.git().look(&["symbolic-ref", "-q", "HEAD"]).await?;
    let full = asked.map(|name| text(&name));
    Ok(full.and_then(|full| full.strip_prefix("refs/heads/").map(str::to_owned)))
}

/// Removes locks of a git that is gone. A lock that a process has open belongs to a running git.
pub(crate) fn clear_stale(locks: &[PathBuf]) -> Result<(), WorktreeFault> {
    for lock in locks.iter().filter(|lock| lock.exists()) {
        if is_open(lock) {
            let words = format!("{} is in use by another git process", lock.display());
            return Err(WorktreeFault::Failed(words));
        }
        tracing::info!(lock = %lock.display(), "removed a lock that a killed git left");
        match fs::remove_file(lock) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("cannot remove a lock that a killed git left")(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether some process has its working folder here, as far as the system tells (Linux does).
pub(super) fn has_process_in(folder: &Path) -> bool {
    let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.any(|process| {
        let place = fs::read_link(process.path().join("cwd"));
        place.is_ok_and(|place| place.starts_with(folder))
    })
}

/// Whether some process has a file open, as far as the system tells (Linux does).
fn is_open(path: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut open = processes.flat_map(|process| {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok())
    });
    open.any(|file| file == path)
}
