//! SQLite's errors in words that a caller can act on.

use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_SHORT_READ};

use crate::StoreError;

/// `Unavailable` asks the caller to try again or to mend the machine, `Corrupt` to restore a backup; `Internal` is a
/// fault of this program.
pub(crate) fn from_sqlite(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    let unavailable = |words: &str| StoreError::Unavailable(format!("{words} ({error})"));
    match code {
        Some(ErrorCode::DiskFull) => {
            unavailable("the disk is full; nothing was written, free some space and try again")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unavailable("the database cannot be written; check the permissions of its folder")
        }
        Some(ErrorCode::CannotOpen) => unavailable(
            "the database cannot be opened; check that its folder exists and is writable",
        ),
        // SQLite's own message says no more, and readers take it for a fault of callboard.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(
            "another program is writing to the database and does not end; close it and try again"
                .into(),
        ),
        Some(ErrorCode::SystemIoFailure) if is_damage(&error) => damaged(&error),
        Some(ErrorCode::SystemIoFailure) => unavailable("reading or writing the database failed"),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => damaged(&error),
        _ if is_unreadable(&error) => {
            StoreError::Corrupt(format!("a row of the database cannot be read ({error})"))
        }
        _ => StoreError::Internal(error.to_string()),
    }
}

fn damaged(error: &rusqlite::Error) -> StoreError {
    StoreError::Corrupt(format!(
        "the database file is damaged or is no database; restore a backup ({error})"
    ))
}

/// Whether a file ends too early, or the file system itself calls it damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_IOERR_SHORT_READ | SQLITE_IOERR_CORRUPTFS))
}

/// Whether a row holds a value that the schema does not allow there.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_lock_of_another_program_is_told_in_words_of_our_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Connection::open(folder.path().join("test.db")).expect("opens");
        let (holder, other) = (open(), open());
        holder.execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE").expect("locks");
        other.busy_timeout(std::time::Duration::ZERO).expect("does not wait");
        let refused = other.execute("INSERT INTO t VALUES (1)", []).expect_err("is refused");
        assert!(refused.to_string().contains("locked"), "SQLite's words: {refused}");
        let said = from_sqlite(refused);
        assert!(matches!(said, StoreError::Unavailable(_)), "{said:?}");
        assert!(!said.to_string().contains("locked"), "{said}");
    }
}
