//! A store as a file: moved into a database that gets its name only when it is whole.

use std::path::Path;
use std::sync::Arc;

use super::{Moved, TransferError, Whole, copy};
use crate::StoreError;
use crate::clock::SystemClock;
use crate::part::Part;
use crate::sqlite::SqliteStore;

/// Writes a copy to a new file. Nothing is left behind when it fails.
pub(crate) async fn into_file(from: &dyn Whole, to: &Path) -> Result<(), StoreError> {
    let part = Part::of(to);
    let moved = fill(from, part.path()).await?;
    part.put_in_place().map_err(|error| {
        StoreError::Unavailable(format!("cannot write {}: {error}", to.display()))
    })?;
    for finding in moved.findings {
        tracing::warn!(what = finding.what, "the copy has damage that came with the store");
    }
    Ok(())
}

/// Moves into a database under the name of the part. The store is closed before the file gets its own name.
async fn fill(from: &dyn Whole, part: &Path) -> Result<Moved, StoreError> {
    let to = SqliteStore::open(part, Arc::new(SystemClock))?;
    let moved = copy(from, &to, Arc::new(|_| {})).await.map_err(|error| match error {
        TransferError::Source(error) | TransferError::Target(error) => error,
        other => StoreError::Internal(other.to_string()),
    })?;
    to.close_into_one_file()?;
    Ok(moved)
}
