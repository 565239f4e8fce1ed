//! A database file that gets its name only when it is whole. A process that is killed on the way leaves
//! `NAME.part-PID`, which is never taken for a database.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The suffixes of the files that an open database keeps beside its own.
const BESIDE: [&str; 6] = ["-gate", "-turn", "-bell", "-wal", "-shm", "-journal"];

/// An unfinished database. It is removed, with everything beside it, unless it got its name.
pub(crate) struct Part {
    path: PathBuf,
    /// The name that the file gets when it is whole.
    to: PathBuf,
}

impl Part {
    pub fn of(to: &Path) -> Self {
        let path = with_suffix(to, &format!(".part-{}", std::process::id()));
        let part = Self { path, to: to.to_owned() };
        // An earlier process with this number may have been killed.
        part.remove();
        part
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a closed database its name. An existing file of that name stays as it is.
    pub fn put_in_place(&self) -> io::Result<()> {
        self.seal()?;
        match renameat_with(CWD, &self.path, CWD, &self.to, RenameFlags::NOREPLACE) {
            // Some file systems cannot rename in this way; a hard link never replaces a file either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                std::fs::hard_link(&self.path, &self.to)?;
                std::fs::remove_file(&self.path)?;
            }
            renamed => renamed?,
        }
        sync_folder(&self.to)
    }

    /// Gives a closed database its name and replaces the file that has it now.
    pub fn replace(&self) -> io::Result<()> {
        self.seal()?;
        std::fs::rename(&self.path, &self.to)?;
        sync_folder(&self.to)
    }

    /// Flushes the file and makes it readable by its owner alone. SQLite gives the files beside a database its
    /// mode.
    fn seal(&self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.sync_all()
    }

    fn remove(&self) {
        // Errors are ignored: a missing file need not be removed.
        let _ = std::fs::remove_file(&self.path);
        for suffix in BESIDE {
            let _ = std::fs::remove_file(with_suffix(&self.path, suffix));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Flushes the folder: a new name is on disk only when its folder is.
pub(crate) fn sync_folder(of: &Path) -> io::Result<()> {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
