//! The worktrees of a repository, by git's own list.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::{Git, GitFault};

/// The reason of the lock that git holds while it makes a worktree.
pub(super) const HALF_MADE: &str = "initializing";

#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The path as git knows it; it may not exist.
    pub(crate) path: PathBuf,
    pub(crate) branch: Option<String>,
    /// The reason of a lock against removal.
    pub(crate) locked: Option<String>,
    is_bare: bool,
}

impl Listed {
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        match (self.path.canonicalize(), path.canonicalize()) {
            (Ok(known), Ok(wanted)) => known == wanted,
            _ => self.path == path,
        }
    }

    /// Whether git was killed while it made this worktree.
    pub(crate) fn is_half_made(&self) -> bool {
        self.locked.as_deref() == Some(HALF_MADE)
    }
}

/// All worktrees, the main one first.
pub(crate) async fn listed(repo: &Path) -> Result<Vec<Listed>, GitFault> {
    let answer = Git::at(repo).ask(&["worktree", "list", "--porcelain", "-z"]).await?;
    let mut found: Vec<Listed> = Vec::new();
    for line in answer.split(|byte| *byte == 0) {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => (line, &b""[..]),
        };
        let rest = OsStr::from_bytes(rest);
        let text = || rest.to_string_lossy().into_owned();
        match (word, found.last_mut()) {
            (b"worktree", _) => {
                found.push(Listed { path: PathBuf::from(rest), ..Listed::default() });
            }
            (b"branch", Some(last)) => {
                last.branch = text().strip_prefix("refs/heads/").map(str::to_owned);
            }
            (b"locked", Some(last)) => last.locked = Some(text()),
            (b"bare", Some(last)) => last.is_bare = true,
            _ => {}
        }
    }
    found.retain(|listed| !listed.is_bare);
    Ok(found)
}
