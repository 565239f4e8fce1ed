//! Puts a backup back as the database of a board, safely: no process has the board open, the backup is a whole
//! Callboard database, and no log of the former database is left beside the new one.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::StoreError;
use crate::part::{Part, sync_folder, with_suffix};
use crate::sqlite::bell::Bell;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::identity::{self, FileId, beside, has_foreign_log};
use crate::sqlite::turnstile::Turnstile;
use crate::sqlite::{SqliteStore, read, schema};

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new path of the former database; `None` when there was none.
    pub kept: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    #[error("another process has this board open; nothing was changed")]
    InUse,
    #[error("this file is the board's database already; nothing was changed")]
    OwnFile,
    #[error("the backup: {0}")]
    Backup(StoreError),
    #[error(transparent)]
    Board(#[from] StoreError),
}

impl SqliteStore {
    /// Puts a copy of `file` in the place of `database`. The former database is kept beside it as
    /// `….before-restore-STAMP`. A backup of an older callboard is migrated when it is opened.
    pub fn restore(file: &Path, database: &Path, stamp: &str) -> Result<Restored, RestoreError> {
        let database = identity::real(database);
        let unavailable = |error: io::Error| {
            StoreError::Unavailable(format!("cannot write {}: {error}", database.display()))
        };
        let bell = Bell::open(&database).map_err(unavailable)?;
        if !bell.keep_others_out().map_err(unavailable)? {
            return Err(RestoreError::InUse);
        }
        let former = identity::look(&database).map_err(unavailable)?;
        let log_is_foreign = match &former {
            Some(found) => has_foreign_log(&database, found, &bell).map_err(unavailable)?,
            None => false,
        };
        let part = Part::of(&database);
        let is_own = former.as_ref().map(FileId::of) == FileId::at(file).map_err(unavailable)?;
        match is_own && former.is_some() {
            true if !log_is_foreign => return Err(RestoreError::OwnFile),
            // The file was put in place by hand. Its bytes are the backup; the log beside it belongs to another
            // database.
            true => drop(std::fs::copy(file, part.path()).map_err(unavailable)?),
            false => copy(file, part.path()).map_err(RestoreError::Backup)?,
        }
        // The copy is checked, not the file: nothing can change the copy between the check and its use.
        let events = inspect(part.path()).map_err(RestoreError::Backup)?;
        let turnstile = Turnstile::open(&database).map_err(unavailable)?;
        let _turn = turnstile.enter().map_err(unavailable)?;
        let aside = with_suffix(&database, &format!(".before-restore-{stamp}"));
        let kept = match former {
            Some(_) => {
                set_aside(&database, &aside, log_is_foreign)?;
                Some(aside)
            }
            // A server whose database was deleted leaves a log behind.
            None => {
                log_aside(&database, &aside, true)?;
                None
            }
        };
        part.replace().map_err(unavailable)?;
        // The restored log may be shorter than the former one. Without this the bell would call its missing end lost.
        bell.begin_anew(&database, events).map_err(unavailable)?;
        Ok(Restored { kept })
    }
}

fn open_existing(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Copies a backup with the log that may lie beside it.
fn copy(file: &Path, to: &Path) -> Result<(), StoreError> {
    let found = identity::look(file).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    match found {
        None => {
            let words = format!("{} is not there", file.display());
            return Err(StoreError::Unavailable(words));
        }
        Some(found) if found.len() == 0 => return Err(schema::not_ours()),
        Some(_) => {}
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(from_sqlite)?;
    schema::recognise(&db)?;
    schema::copy_into(&db, to)
}

/// Checks that a copy can be used; returns the number of its last event.
fn inspect(part: &Path) -> Result<u64, StoreError> {
    let db = open_existing(part).map_err(from_sqlite)?;
    schema::recognise(&db)?;
    let damage: String =
        db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(from_sqlite)?;
    if damage != "ok" {
        return Err(StoreError::Corrupt(format!("the file is damaged: {damage}")));
    }
    read::last_seq(&db).map_err(from_sqlite)
}

/// Keeps the former database under another name, with everything that is in its log. The name of
/// the database stays taken until the restored file replaces it.
fn set_aside(database: &Path, aside: &Path, log_is_foreign: bool) -> Result<(), RestoreError> {
    if !log_is_foreign {
        fold(database)?;
    }
    match std::fs::hard_link(database, aside) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(not_kept(aside, &error).into());
        }
        // Not every file system has hard links.
        Err(_) => std::fs::rename(database, aside).map_err(|error| not_kept(aside, &error))?,
        Ok(()) => {}
    }
    log_aside(database, aside, log_is_foreign)
}

/// Removes the log of the former database from beside the name of the database. A log that could not be folded in goes
/// along with its database. A log of another database gets a name under which SQLite never applies it.
fn log_aside(database: &Path, aside: &Path, log_is_foreign: bool) -> Result<(), RestoreError> {
    let unavailable = |error: io::Error| not_kept(aside, &error);
    let log = if log_is_foreign { ".wal" } else { "-wal" };
    for (from, to) in [("-wal", log), ("-journal", "-journal")] {
        match std::fs::rename(beside(database, from), with_suffix(aside, to)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unavailable(error))?,
            _ => {}
        }
    }
    match std::fs::remove_file(beside(database, "-shm")) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unavailable(error))?,
        _ => {}
    }
    Ok(sync_folder(database).map_err(unavailable)?)
}

fn not_kept(aside: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot keep {}: {error}", aside.display()))
}

/// Writes the log of a database into its file. A damaged database stays as it is. One that another program has open
/// is not touched: SQLite's own locks show that, also where the bell was deleted.
fn fold(database: &Path) -> Result<(), RestoreError> {
    let folded = open_existing(database).and_then(|db| {
        // Long enough for a reader that is just closing, short enough for a person who waits at a terminal.
        db.busy_timeout(Duration::from_millis(200))?;
        db.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
    });
    match folded {
        // SQLite leaves WAL only when no other connection is open.
        Ok(mode) if mode == "wal" => Err(RestoreError::InUse),
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ) =>
        {
            Err(RestoreError::InUse)
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(error = %from_sqlite(error), "the former database is kept as it is");
            Ok(())
        }
    }
}
