//! Moves a whole store into an empty one, between any two databases: out of one snapshot, into one transaction,
//! then read back and compared.
//!
//! The transaction that fills the target also marks it as unfinished, and only a comparison without differences
//! removes the mark. A marked store cannot be opened, so a move that ends early, at any moment, leaves a target
//! that is empty or says what it is.

mod backup;
mod rows;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::postgres::PostgresStore;
use crate::sqlite::SqliteStore;
use crate::{Finding, Store, StoreError};
pub(crate) use backup::into_file;
pub(crate) use rows::{Cell, Inbox, Outbox, Parcel, Row};
pub use rows::{Progress, Step, TableSum, Tell};
pub use tables::{LEFT_OUT, MovedTable, TABLES};

/// The schema version of a store that is being filled: newer than any callboard will ever know.
pub(crate) const UNFINISHED: u32 = i32::MAX as u32;
pub(crate) const UNFINISHED_WORDS: &str = "this database is the target of a move that did not \
     finish, and nothing in it may be relied on; delete it (the file, or the schema in PostgreSQL) \
     and move again";

/// The address of a store. It may hold a password, so it cannot be printed.
#[derive(Clone)]
pub enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

/// The content of the target, equal to the source's snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub tables: Vec<TableSum>,
    /// Damage that the source had and the copy has as well.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    #[error("there is no callboard store to move")]
    NoSource,
    #[error("the store is not empty, its table {0} has rows; nothing was changed")]
    NotEmpty(&'static str),
    #[error(
        "table {0} is not what was copied; the store stays marked as unfinished, and nobody opens it"
    )]
    Differs(&'static str),
    #[error("the source: {0}")]
    Source(StoreError),
    #[error("the target: {0}")]
    Target(StoreError),
}

/// Why a store was not filled.
#[derive(Debug)]
pub(crate) enum FillError {
    NotEmpty(&'static str),
    /// The reader stopped, and reports the reason itself.
    SourceEnded,
    Store(StoreError),
}

impl From<StoreError> for FillError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A store that can be read and filled as a whole.
#[async_trait]
pub(crate) trait Whole: Store {
    /// Puts every row of every table into the outbox, out of one snapshot.
    async fn read_all(&self, outbox: Outbox) -> Result<Vec<TableSum>, StoreError>;
    /// Writes every row and marks the store as unfinished, in one transaction.
    async fn write_all(&self, inbox: Inbox) -> Result<(), FillError>;
    async fn take_mark_away(&self) -> Result<(), StoreError>;
}

/// Moves the store at `from` into the empty or new one at `to`. An older schema at either end is
/// brought up to date first, a newer one refused.
pub async fn transfer(
    from: &Address,
    to: &Address,
    clock: Arc<dyn Clock>,
    tell: Tell,
) -> Result<Moved, TransferError> {
    // Opening would create a store where there is none.
    if !holds_store(from).await.map_err(TransferError::Source)? {
        return Err(TransferError::NoSource);
    }
    let from = open(from, clock.clone()).await.map_err(TransferError::Source)?;
    let to = open(to, clock).await.map_err(TransferError::Target)?;
    copy(&*from, &*to, tell).await
}

async fn holds_store(address: &Address) -> Result<bool, StoreError> {
    match address {
        Address::Sqlite(path) => SqliteStore::is_at(path),
        Address::Postgres(url) => PostgresStore::is_at(url).await,
    }
}

async fn open(address: &Address, clock: Arc<dyn Clock>) -> Result<Box<dyn Whole>, StoreError> {
    Ok(match address {
        Address::Sqlite(path) => Box::new(SqliteStore::open(path, clock)?),
        Address::Postgres(url) => Box::new(PostgresStore::open(url, None).await?),
    })
}

/// Reader and writer run side by side, joined by a channel of a few parcels: memory stays small at any size.
async fn copy(from: &dyn Whole, to: &dyn Whole, tell: Tell) -> Result<Moved, TransferError> {
    let (outbox, inbox) = rows::pipe(tell.clone());
    // When one side stops, its end of the channel closes and the other side stops as well.
    let (read, written) = tokio::join!(from.read_all(outbox), to.write_all(inbox));
    match written {
        // The side that stopped first reports the reason.
        Ok(()) | Err(FillError::SourceEnded) => {}
        Err(FillError::NotEmpty(table)) => return Err(TransferError::NotEmpty(table)),
        Err(FillError::Store(error)) => return Err(TransferError::Target(error)),
    }
    let tables = read.map_err(TransferError::Source)?;
    let found = to.read_all(Outbox::to_nobody(tell)).await.map_err(TransferError::Target)?;
    let same = |(sent, found): &(&TableSum, &TableSum)| sent == found;
    // The target stays marked, so no process opens a copy that differs.
    if let Some((sent, _)) = tables.iter().zip(&found).find(|pair| !same(pair)) {
        return Err(TransferError::Differs(sent.name));
    }
    // Damage does not stop a move. It came with the source, and a refusal would keep it where it is.
    let findings = to.verify().await.map_err(TransferError::Target)?;
    to.take_mark_away().await.map_err(TransferError::Target)?;
    Ok(Moved { tables, findings })
}
