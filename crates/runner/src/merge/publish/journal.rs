//! The moves that a merge is about to make in a repository, recorded before git makes them. The next merge finds there
//! what a dead process left half done.
//!
//! The record stands in the file that is locked meanwhile. A running git holds the lock too, even after the server that
//! started it is gone: a process that gets the lock knows that no git of ours is running.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_engine::ports::{PreparedPart, WorktreeFault};
use serde::{Deserialize, Serialize};

use super::heal::heal;
use crate::worktree::{common_dir, failed, repo_lock};

pub(super) struct Journal {
    /// Git's folder that all worktrees of the repository share.
    pub(super) common: PathBuf,
    /// The folder of tasks' worktrees.
    pub(super) worktrees: PathBuf,
    pub(super) lock: Arc<File>,
}

/// The move of one target from a commit to another. Paths are bytes: they need not be text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) target: String,
    /// `None` when the branch did not exist.
    pub(super) from: Option<String>,
    pub(super) to: String,
    /// The checkout that moves with the target.
    pub(super) place: Option<Vec<u8>>,
    /// Files that had the merge's content before it began: they are not the merge's.
    pub(super) same: Vec<Vec<u8>>,
}

/// The journals of these repositories, after repairs, empty. Locks are taken in one global order, so that two merges
/// never deadlock.
pub(super) async fn open(
    folder: &Path,
    parts: &[PreparedPart],
) -> Result<Vec<Journal>, WorktreeFault> {
    let mut places = Vec::new();
    for part in parts {
        let repo = part.from.repo();
        places.push((common_dir(repo).await?, repo.join(folder)));
    }
    places.sort();
    places.dedup_by(|one, other| one.0 == other.0);
    let mut journals = Vec::new();
    for (common, worktrees) in places {
        let lock = Arc::new(repo_lock(&common, "publish").await?);
        let journal = Journal { common, worktrees, lock };
        for begun in journal.read().map_err(failed("cannot read the journal of merges"))? {
            tracing::info!(?begun, "a merge was interrupted: its checkout is repaired");
            heal(&journal, &begun, true).await?;
        }
        journal.clear()?;
        journals.push(journal);
    }
    Ok(journals)
}

impl Journal {
    pub(super) fn write(&self, begun: &[Begun]) -> Result<(), WorktreeFault> {
        let cannot = "cannot write the journal of merges";
        let text = serde_json::to_vec(begun).map_err(io::Error::other).map_err(failed(cannot))?;
        let write = || {
            self.lock.set_len(0)?;
            self.lock.write_all_at(&text, 0)?;
            self.lock.sync_data()
        };
        write().map_err(failed(cannot))
    }

    /// Clears the journal: no move is half done any more.
    pub(super) fn clear(&self) -> Result<(), WorktreeFault> {
        self.lock.set_len(0).map_err(failed("cannot clear the journal of merges"))
    }

    /// Reads the recorded moves. A truncated record means that no move began.
    fn read(&self) -> io::Result<Vec<Begun>> {
        let mut text = Vec::new();
        let mut file: &File = &self.lock;
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    pub(super) fn is_of(&self, common: &Path) -> bool {
        self.common == common
    }
}
