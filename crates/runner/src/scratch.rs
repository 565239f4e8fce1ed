//! A place for git to work without writing to a repository: a copy of the index, with its cached facts of unchanged
//! files, and a temporary folder for new objects.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::git::{Git, GitFault};

pub(crate) struct Scratch {
    folder: TempDir,
    /// The objects of the repository, which are only read.
    known: PathBuf,
}

impl Scratch {
    /// `index` and `objects` are the repository's; without an index git begins with an empty one.
    pub(crate) async fn beside(index: Option<PathBuf>, objects: PathBuf) -> Result<Self, GitFault> {
        let folder = off_runtime(move || {
            let folder = tempfile::Builder::new().prefix("callboard-tree-").tempdir()?;
            std::fs::create_dir(folder.path().join("objects"))?;
            let Some(index) = index else { return Ok(folder) };
            // An agent can place a pipe there, and opening a pipe would block forever.
            if index.metadata().is_ok_and(|facts| !facts.is_file()) {
                return Err(io::Error::other("the index is no file"));
            }
            match File::open(index) {
                Ok(original) => copy_with_time(original, &folder.path().join("index"))?,
                // No file was ever added.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            Ok(folder)
        });
        Ok(Self { folder: folder.await?, known: objects })
    }

    pub(crate) fn used_by<'a>(&self, git: Git<'a>) -> Git<'a> {
        git.with("GIT_INDEX_FILE", self.folder.path().join("index"))
            .with("GIT_OBJECT_DIRECTORY", self.folder.path().join("objects"))
            // Git follows the alternates of this folder by itself.
            .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.known))
            .may_write([self.folder.path().to_owned()])
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn close(self) -> Result<(), GitFault> {
        off_runtime(move || self.folder.close()).await
    }
}

/// Copies the index with its modification time, because git compares it: a file as young as the index is read again, an
/// older one is trusted. With a younger index, an edit of the same instant would be missed.
fn copy_with_time(mut original: File, to: &Path) -> io::Result<()> {
    let written = original.metadata()?.modified()?;
    let mut copy = File::create_new(to)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_modified(written)
}

async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, GitFault> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    done.flatten().map_err(|error| GitFault::Failed(format!("cannot copy the git index: {error}")))
}

/// Quotes a path for a list separated by `:`; a quoted path may hold one.
fn quoted(path: &Path) -> OsString {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if b"\"\\".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}
