//! A store as a file: the same move, into a database beside the name it gets when it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Moved, TransferError, Whole, copy};
use crate::StoreError;
use crate::clock::SystemClock;
use crate::sqlite::SqliteStore;

/// What an open database keeps beside its file.
const BESIDE: [&str; 5] = ["-gate", "-turn", "-bell", "-wal", "-shm"];

/// Writes a copy to a file that is not there yet. Nothing is left behind when it fails.
pub(crate) async fn into_file(from: &dyn Whole, to: &Path) -> Result<(), StoreError> {
    let part = with_suffix(to, &format!(".part-{}", std::process::id()));
    let filled = fill(from, &part).await;
    let done = filled.and_then(|moved| {
        put_in_place(&part, to).map_err(|error| {
            StoreError::Unavailable(format!("cannot write {}: {error}", to.display()))
        })?;
        Ok(moved)
    });
    // What is not there need not be removed.
    let _ = std::fs::remove_file(&part);
    for suffix in BESIDE {
        let _ = std::fs::remove_file(with_suffix(&part, suffix));
    }
    for finding in done?.findings {
        tracing::warn!(what = finding.what, "the copy has damage that came with the store");
    }
    Ok(())
}

async fn fill(from: &dyn Whole, part: &Path) -> Result<Moved, StoreError> {
    let to = SqliteStore::open(part, Arc::new(SystemClock))?;
    let moved = copy(from, &to, Arc::new(|_| {})).await.map_err(|error| match error {
        TransferError::Source(error) | TransferError::Target(error) => error,
        other => StoreError::Internal(other.to_string()),
    })?;
    to.close_into_one_file()?;
    Ok(moved)
}

/// Gives a closed database its name; what has that name already stays as it is.
fn put_in_place(part: &Path, to: &Path) -> io::Result<()> {
    renameat_with(CWD, part, CWD, to, RenameFlags::NOREPLACE)?;
    match to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
