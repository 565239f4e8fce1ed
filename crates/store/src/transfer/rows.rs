//! Rows in transit: four kinds of values out of every database, in parcels that fit in memory, counted and hashed
//! as they are read.

use std::sync::Arc;

use callboard_domain::hex::hex;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::tables::MovedTable;
use crate::StoreError;

/// The limits of a parcel; a single row may exceed them.
const PARCEL_ROWS: usize = 1000;
const PARCEL_BYTES: usize = 1 << 20;
/// Parcels between reader and writer.
/// With parcels of 1 MiB the two sides are at most a few MiB apart.
const PARCELS: usize = 4;

/// One value. A boolean is 0 or 1, an id its 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) type Row = Vec<Cell>;

pub(crate) enum Parcel {
    Rows(Vec<Row>),
    /// The table has no more rows; the next parcel belongs to the next table.
    TableEnd,
}

pub(crate) type Inbox = Receiver<Parcel>;

/// Count and hash of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSum {
    pub name: &'static str,
    pub rows: u64,
    /// The hash of every value of every row in the order of the key, in lower-case hex.
    pub sha256: String,
}

/// The progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: Step,
    pub table: &'static str,
    pub rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Copy,
    ReadBack,
}

pub type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// The reader's end, which takes the rows of one table after another.
pub(crate) struct Outbox {
    /// `None`: rows are only counted and hashed.
    to: Option<Sender<Parcel>>,
    tell: Tell,
    rows: Vec<Row>,
    /// The size of `rows`, for `PARCEL_BYTES`.
    bytes: usize,
    /// The table that is read now: its name, the rows so far and their hash.
    table: Option<(&'static str, u64, Sha256)>,
    sums: Vec<TableSum>,
}

pub(crate) fn pipe(tell: Tell) -> (Outbox, Inbox) {
    let (to, inbox) = mpsc::channel(PARCELS);
    (Outbox::new(Some(to), tell), inbox)
}

impl Outbox {
    fn new(to: Option<Sender<Parcel>>, tell: Tell) -> Self {
        Self { to, tell, rows: Vec::new(), bytes: 0, table: None, sums: Vec::new() }
    }

    /// For the reading back: the rows are hashed and dropped.
    pub fn to_nobody(tell: Tell) -> Self {
        Self::new(None, tell)
    }

    /// Whether the target is being read back.
    pub fn reads_back(&self) -> bool {
        self.to.is_none()
    }

    pub fn start(&mut self, table: &MovedTable) {
        self.table = Some((table.name, 0, Sha256::new()));
    }

    /// Adds a row. Returns whether the parcel is full.
    /// The hash is of what was read, before the target sees the row.
    pub fn push(&mut self, row: Row) -> bool {
        let (_, rows, hash) = self.table.as_mut().expect("a table was started");
        *rows += 1;
        for cell in &row {
            self.bytes += size_of::<Cell>() + add(hash, cell);
        }
        self.rows.push(row);
        self.rows.len() >= PARCEL_ROWS || self.bytes >= PARCEL_BYTES
    }

    /// Sends the parcel. PostgreSQL is read in a task and SQLite on a thread, so there are two of each method.
    pub async fn send(&mut self) -> Result<(), StoreError> {
        let parcel = self.pack();
        match &self.to {
            Some(to) => to.send(parcel).await.map_err(|_| nobody_listens()),
            None => Ok(()),
        }
    }

    pub fn send_blocking(&mut self) -> Result<(), StoreError> {
        let parcel = self.pack();
        match &self.to {
            Some(to) => to.blocking_send(parcel).map_err(|_| nobody_listens()),
            None => Ok(()),
        }
    }

    pub async fn end_table(&mut self) -> Result<(), StoreError> {
        self.send().await?;
        self.sum_up();
        match &self.to {
            Some(to) => to.send(Parcel::TableEnd).await.map_err(|_| nobody_listens()),
            None => Ok(()),
        }
    }

    pub fn end_table_blocking(&mut self) -> Result<(), StoreError> {
        self.send_blocking()?;
        self.sum_up();
        match &self.to {
            Some(to) => to.blocking_send(Parcel::TableEnd).map_err(|_| nobody_listens()),
            None => Ok(()),
        }
    }

    pub fn sums(self) -> Vec<TableSum> {
        self.sums
    }

    /// Tells the progress once for each parcel, which is often enough for a person.
    fn pack(&mut self) -> Parcel {
        if let Some((table, rows, _)) = self.table {
            let step = if self.reads_back() { Step::ReadBack } else { Step::Copy };
            (self.tell)(Progress { step, table, rows });
        }
        self.bytes = 0;
        Parcel::Rows(std::mem::take(&mut self.rows))
    }

    fn sum_up(&mut self) {
        let (name, rows, hash) = self.table.take().expect("a table was started");
        let sha256 = hex(hash.finalize());
        self.sums.push(TableSum { name, rows, sha256 });
    }
}

/// The error after the writer stopped, which reports the reason itself.
fn nobody_listens() -> StoreError {
    StoreError::Unavailable("the target takes no more rows".into())
}

/// Adds a value to the hash. Every value begins with its kind, and a text or bytes with their length, so that no
/// two rows look alike. Returns the length of the value.
fn add(hash: &mut Sha256, cell: &Cell) -> usize {
    let (kind, bytes) = match cell {
        Cell::Null => {
            hash.update(b"n");
            return 0;
        }
        Cell::Integer(number) => {
            hash.update(b"i");
            hash.update(number.to_be_bytes());
            return 8;
        }
        Cell::Text(text) => (b"t", text.as_bytes()),
        Cell::Bytes(bytes) => (b"b", bytes.as_slice()),
    };
    hash.update(kind);
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tables::TABLES;

    fn sum(rows: &[&[Cell]]) -> String {
        let mut outbox = Outbox::to_nobody(Arc::new(|_| {}));
        outbox.start(&TABLES[0]);
        for row in rows {
            outbox.push(row.to_vec());
        }
        outbox.end_table_blocking().expect("nobody can go away");
        outbox.sums().remove(0).sha256
    }

    #[test]
    fn different_rows_have_different_sums() {
        let text = |text: &str| Cell::Text(text.into());
        let different: [&[&[Cell]]; 9] = [
            &[],
            &[&[Cell::Null]],
            &[&[Cell::Integer(0)]],
            &[&[text("")]],
            &[&[Cell::Bytes(Vec::new())]],
            &[&[text("ab"), text("c")]],
            &[&[text("a"), text("bc")]],
            &[&[Cell::Null, Cell::Integer(0)]],
            &[&[Cell::Integer(0)], &[Cell::Null]],
        ];
        let sums: std::collections::HashSet<String> =
            different.iter().map(|rows| sum(rows)).collect();
        assert_eq!(sums.len(), different.len());
    }

    #[test]
    fn a_parcel_is_full_by_rows_or_by_bytes() {
        let mut outbox = Outbox::to_nobody(Arc::new(|_| {}));
        outbox.start(&TABLES[0]);
        assert!(outbox.push(vec![Cell::Text("x".repeat(PARCEL_BYTES))]));
        outbox.send_blocking().expect("nobody can go away");
        for _ in 1..PARCEL_ROWS {
            assert!(!outbox.push(vec![Cell::Null]));
        }
        assert!(outbox.push(vec![Cell::Null]));
    }
}
