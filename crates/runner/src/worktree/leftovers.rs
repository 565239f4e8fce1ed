//! What stands in a worktree and is in no commit.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::{Worktree, WorktreeFault};

use super::hold::{Hold, must_stand_on_its_branch};
use super::{signing, text};
use crate::git::{Git, GitFault};

/// A build that goes on meanwhile may delete a file between git's finding and reading it.
const ADD_TRIES: usize = 5;

pub(crate) struct Uncommitted {
    pub(crate) path: OsString,
    pub(crate) is_new: bool,
}

/// Ignored files are not among them, nor what is ours, nor repositories that somebody cloned into
/// this one: git could keep no more of such a one than the id of a commit.
pub(crate) async fn uncommitted(root: &Path) -> Result<Vec<Uncommitted>, GitFault> {
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
    ];
    let answer = Git::at(root).ask(&status).await?;
    let entries = answer.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
    let entries = entries.map(|entry| Uncommitted {
        path: OsStr::from_bytes(&entry[3..]).to_owned(),
        is_new: entry.starts_with(b"??"),
    });
    Ok(entries.filter(|entry| !(entry.is_new && is_not_work(&entry.path))).collect())
}

fn is_not_work(path: &OsStr) -> bool {
    path.as_bytes().ends_with(b"/") || Path::new(path).starts_with(".callboard")
}

/// The new commit.
pub(crate) async fn commit(
    worktree: &Worktree,
    message: &str,
) -> Result<Option<String>, WorktreeFault> {
    let hold = Hold::take(worktree).await?;
    must_stand_on_its_branch(worktree).await?;
    hold.begin_commit()?;
    let made = commit_all(worktree, message).await;
    hold.end_commit()?;
    made
}

async fn commit_all(worktree: &Worktree, message: &str) -> Result<Option<String>, WorktreeFault> {
    if !add(&worktree.path, || Git::writing(&worktree.path)).await? {
        return Ok(None);
    }
    let same = ["diff-index", "--cached", "--quiet", "--ignore-submodules=dirty", "HEAD"];
    if Git::at(&worktree.path).asks_yes(&same).await? {
        return Ok(None);
    }
    let git = signing(&worktree.path).await?.input(message);
    git.ask(&["commit", "-q", "--no-verify", "--cleanup=whitespace", "-F", "-"]).await?;
    let head = Git::at(&worktree.path).ask(&["rev-parse", "HEAD"]).await?;
    Ok(Some(text(&head)))
}

/// Whether there was anything.
pub(super) async fn add<'a>(root: &Path, git: impl Fn() -> Git<'a>) -> Result<bool, WorktreeFault> {
    let mut tries = 0;
    loop {
        let found = uncommitted(root).await?;
        if found.is_empty() {
            return Ok(false);
        }
        let paths: Vec<&[u8]> = found.iter().map(|entry| entry.path.as_bytes()).collect();
        let git = git().with("GIT_LITERAL_PATHSPECS", "1").input(paths.join(&0));
        let add = ["add", "-A", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"];
        tries += 1;
        match git.ask(&add).await {
            Ok(_) => return Ok(true),
            Err(GitFault::Failed(words)) if tries < ADD_TRIES && is_gone(&words) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
}

fn is_gone(words: &str) -> bool {
    words.contains("No such file") || words.contains("did not match any files")
}
