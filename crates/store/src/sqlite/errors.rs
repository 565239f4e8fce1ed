//! SQLite's errors in words that a caller can act on.

use rusqlite::ErrorCode;

use crate::StoreError;

pub(super) fn from_sqlite(error: rusqlite::Error) -> StoreError {
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
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            unavailable("another program keeps the database locked; close it and try again")
        }
        Some(ErrorCode::SystemIoFailure) => unavailable("reading or writing the database failed"),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(format!(
            "the database file is damaged or is no database; restore a backup ({error})"
        )),
        _ => StoreError::Internal(error.to_string()),
    }
}
