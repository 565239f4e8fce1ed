//! The identity of the database file. A path can come to name another file while a process still has the first one
//! open; whatever that process writes afterwards is lost with the first file.
//!
//! A write-ahead log has the same problem: SQLite applies the log that lies beside a database, even when the log
//! was written for another file, and the database is malformed from then on.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::UNIX_EPOCH;

use crate::StoreError;
use crate::sqlite::bell::{Bell, Memory};

/// Device and inode of a file. No other file gets this inode while a process has the file open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    pub inode: u64,
}

impl FileId {
    pub fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }

    /// The id of the file at a path; `None` where there is none.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        Ok(look(path)?.map(|found| Self::of(&found)))
    }
}

/// The metadata of the file at a path; `None` where there is none.
pub(crate) fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The birth time of a file in nanoseconds; 0 on a file system that does not keep it. A file that is deleted and
/// created anew often gets the old inode, but not the old birth time.
pub(crate) fn born(file: &Metadata) -> u64 {
    let made = file.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    made.map_or(0, |made| made.as_nanos() as u64)
}

pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The path without symbolic links. SQLite keeps its log beside the file that a link names, and the locks must lie
/// there too.
pub(crate) fn real(path: &Path) -> PathBuf {
    let found = path.canonicalize().ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// Watches over the files of an open database: the database, its log and the log's index.
pub(crate) struct Guard {
    files: Vec<(PathBuf, FileId)>,
    /// The words of the first loss, which every later call repeats.
    lost: OnceLock<String>,
}

impl Guard {
    /// Records the open files. Call this after the first read, which makes SQLite open the log.
    pub fn over(database: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for suffix in ["", "-wal", "-shm"] {
            let path = beside(database, suffix);
            if let Some(id) = FileId::at(&path)? {
                files.push((path, id));
            }
        }
        Ok(Self { files, lost: OnceLock::new() })
    }

    /// Checks that the paths still name the opened files. A process that lost a file stays without it, even when a
    /// file comes back: other processes may have written meanwhile.
    pub fn check(&self) -> Result<(), StoreError> {
        if let Some(words) = self.lost.get() {
            return Err(StoreError::Unavailable(words.clone()));
        }
        for (path, id) in &self.files {
            match FileId::at(path) {
                Ok(Some(found)) if found == *id => {}
                Ok(Some(_)) => return Err(self.lose(path, "replaced")),
                Ok(None) => return Err(self.lose(path, "deleted")),
                Err(error) => {
                    let words = format!("the database file cannot be found: {error}");
                    return Err(StoreError::Unavailable(words));
                }
            }
        }
        Ok(())
    }

    /// Notes the loss once and for all. The words say what a person has to do, because no retry helps.
    fn lose(&self, path: &Path, how: &str) -> StoreError {
        let what = match path.to_string_lossy() {
            name if name.ends_with("-wal") => "the database's log (-wal)",
            name if name.ends_with("-shm") => "the index of the database's log (-shm)",
            _ => "the database file",
        };
        let words = self.lost.get_or_init(|| {
            tracing::error!(path = %path.display(), how, "a file of the open database is gone");
            format!(
                "{what} was {how} while this process had it open, so this process reads and writes \
                 nothing any more; stop every callboard of this board, put a backup back with \
                 callboard restore FILE, then start again"
            )
        });
        StoreError::Unavailable(words.clone())
    }
}

/// Databases that this process has open. When a process closes any descriptor of a file, the kernel drops all locks
/// of that process on the file, SQLite's included. So only SQLite ever opens a file in this list.
static OPEN_HERE: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

fn open_here() -> MutexGuard<'static, Vec<FileId>> {
    OPEN_HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database that passed `look` and may be opened; in the list until this is dropped.
pub(crate) struct Admitted(pub FileId);

impl Admitted {
    /// Refuses an empty file, and a database with a log that was written for another file.
    pub fn look(database: &Path, bell: &Bell) -> Result<Self, StoreError> {
        let unreadable = |error: io::Error| {
            StoreError::Unavailable(format!("cannot open {}: {error}", database.display()))
        };
        let found = look(database).map_err(unreadable)?;
        let found = found.ok_or_else(|| unreadable(ErrorKind::NotFound.into()))?;
        if found.is_file() && found.len() == 0 {
            return Err(StoreError::Corrupt(format!(
                "{} is empty (0 bytes) and is no Callboard database; delete the file to begin a \
                 new board, or put a backup back with callboard restore FILE",
                database.display()
            )));
        }
        // The list stays locked over the look at the header: no other thread may open the file in between.
        let id = FileId::of(&found);
        let mut open = open_here();
        if !open.contains(&id) && has_foreign_log(database, &found, bell).map_err(unreadable)? {
            return Err(foreign_log(database));
        }
        open.push(id);
        Ok(Self(id))
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = open_here();
        if let Some(place) = open.iter().position(|id| *id == self.0) {
            open.swap_remove(place);
        }
    }
}

/// Whether the log beside a database was written for another file. There are two signs: the database's header says
/// that it has no log, as every backup does; or the bell remembers this log with another database.
pub(crate) fn has_foreign_log(database: &Path, found: &Metadata, bell: &Bell) -> io::Result<bool> {
    let log = look(&beside(database, "-wal"))?;
    let Some(log) = log.filter(|log| log.len() > 0) else { return Ok(false) };
    let kept = bell.memory();
    let of_another =
        bell.knows_files(&kept) && kept.log == log.ino() && !Memory::is_database(&kept, found);
    Ok(of_another || (found.is_file() && !keeps_a_log(database)?))
}

/// Reads the header's "read version": 2 for a database with a write-ahead log, 1 for one without.
fn keeps_a_log(database: &Path) -> io::Result<bool> {
    let mut header = [0; 20];
    match File::open(database)?.read_exact_at(&mut header, 0) {
        // A file that is too short or has no header is no database; SQLite has the message for it.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
        Err(error) => Err(error),
        Ok(()) => Ok(!header.starts_with(b"SQLite format 3\0") || header[19] == 2),
    }
}

fn foreign_log(database: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "the log {0}-wal belongs to another database file than {0}: the database was replaced by \
         hand, and opening it with this log would damage it; stop every callboard of this board, \
         then run callboard restore FILE with the backup, or with {0} itself",
        database.display()
    ))
}
