//! Files of ours in a worktree. An agent works there, so nothing is written through its links, and a file of the agent
//! does not count as ours by its name.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use callboard_engine::ports::{PairFault, Worktree};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{PROMPT, RECORD, Record};
use crate::guarded::AgentTree;
use crate::worktree::hide;
use crate::worktree_file;

const FOLDER: &str = ".callboard";
const RECORD_BYTES_MAX: u64 = 65_536;

pub(super) struct Files<'a> {
    worktree: &'a Worktree,
}

impl<'a> Files<'a> {
    pub(super) fn of(worktree: &'a Worktree) -> Self {
        Self { worktree }
    }

    /// Hides all files to be written from git. Tracked files are taken out of `others`, and one of them is returned; a
    /// tracked prompt or record is a fault.
    pub(super) async fn hide_and_sift(
        &self,
        others: &mut Vec<(&'static str, String)>,
    ) -> Result<Option<String>, PairFault> {
        let mut names = vec![format!("{FOLDER}/{PROMPT}"), format!("{FOLDER}/{RECORD}")];
        let tree = AgentTree::to_look_at(self.worktree).await?;
        for name in &names {
            if is_tracked(&tree, name).await? {
                return Err(PairFault::Failed(format!(
                    "git tracks {name}: remove it from git first (git rm --cached {name})"
                )));
            }
        }
        let mut left_alone = None;
        let mut kept = Vec::new();
        for other in others.drain(..) {
            if is_tracked(&tree, other.0).await? {
                left_alone = Some(other.0.to_owned());
            } else {
                names.push(other.0.to_owned());
                kept.push(other);
            }
        }
        *others = kept;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        hide(tree.git(), &tree.dirs().common, &names).await?;
        Ok(left_alone)
    }

    pub(super) fn record(&self) -> Option<Record> {
        let path = format!("{FOLDER}/{RECORD}");
        let text = worktree_file::read(&self.worktree.path, &path, RECORD_BYTES_MAX).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(super) fn write_ours(&self, name: &str, text: &[u8]) -> Result<(), PairFault> {
        self.write(&format!("{FOLDER}/{name}"), text)
    }

    /// Writes `<folder>/<name>` atomically.
    pub(super) fn write(&self, path: &str, text: &[u8]) -> Result<(), PairFault> {
        let (folder, name) = path.split_once('/').unwrap_or((".", path));
        let write = || -> rustix::io::Result<()> {
            let folder = self.open_folder(folder)?;
            // Unlinked and created anew below the folder's descriptor: a link of an agent is never followed.
            let draft = format!(".{name}.new");
            match rustix::fs::unlinkat(&folder, &draft, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&folder, &draft, flags, Mode::from_raw_mode(0o644))?;
            File::from(file)
                .write_all(text)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            rustix::fs::renameat(&folder, &draft, &folder, name)
        };
        write().map_err(|error| PairFault::Failed(format!("cannot write {path}: {error}")))
    }

    /// Removes a file of ours; `true` if it existed.
    pub(super) fn remove_ours(&self, name: &str) -> Result<bool, PairFault> {
        let path = self.worktree.path.join(FOLDER);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let removed = rustix::fs::open(path, flags, Mode::empty())
            .and_then(|folder| rustix::fs::unlinkat(folder, name, AtFlags::empty()));
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(PairFault::Failed(format!("cannot remove {name}: {error}"))),
        }
    }

    /// A folder directly in the worktree, created when missing.
    fn open_folder(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.worktree.path, flags, Mode::empty())?;
        match rustix::fs::mkdirat(&root, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        rustix::fs::openat(root, name, flags, Mode::empty())
    }
}

async fn is_tracked(tree: &AgentTree, name: &str) -> Result<bool, PairFault> {
    let asked = tree.git().ask(&["ls-files", "-z", "--", name]).await;
    Ok(!asked.map_err(|fault| PairFault::Worktree(fault.into()))?.is_empty())
}
