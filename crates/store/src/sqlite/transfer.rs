//! SQLite as one end of a move: every row out of one read transaction, or into one write transaction.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Result, Row as SqliteRow, ToSql, TransactionBehavior,
    params_from_iter,
};

use crate::StoreError;
use crate::migrations::{latest, refuse_newer};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, schema};
use crate::transfer::{
    Cell, FillError, Inbox, MovedTable, Outbox, Parcel, Row, TABLES, TableSum, UNFINISHED, Whole,
};

impl SqliteStore {
    /// Whether there is a store; does not create one.
    pub(crate) fn is_at(path: &Path) -> Result<bool, StoreError> {
        if !path.exists() {
            return Ok(false);
        }
        // Read-only: a look must not create an empty database, which would then be taken for a store.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let version = Connection::open_with_flags(path, flags).and_then(|db| schema::version(&db));
        Ok(version.map_err(from_sqlite)? > 0)
    }

    /// Closes the store with everything in its one file and nothing in a log beside it.
    pub(crate) fn close_into_one_file(self) -> Result<(), StoreError> {
        let path = self.shared.path.clone();
        drop(self);
        let db = Connection::open(path).map_err(from_sqlite)?;
        // The last connection to close was a reader's, and readers leave the log as it is.
        let mode: String = db
            .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))
            .map_err(from_sqlite)?;
        match mode.as_str() {
            "delete" => Ok(()),
            mode => Err(StoreError::Internal(format!("the log of the copy is still {mode}"))),
        }
    }
}

#[async_trait]
impl Whole for SqliteStore {
    async fn read_all(&self, outbox: Outbox) -> Result<Vec<TableSum>, StoreError> {
        self.read(move |db, _| read_all(db, outbox)).await
    }

    async fn write_all(&self, inbox: Inbox) -> Result<(), FillError> {
        // The writer's thread passes only `StoreError`, so the result of the filling is nested inside.
        self.on_writer(move |db| Ok(write_all(db, inbox))).await?
    }

    /// The version in the place of the mark makes the store one that can be opened.
    async fn take_mark_away(&self) -> Result<(), StoreError> {
        self.on_writer(|db| db.pragma_update(None, "user_version", latest()).map_err(from_sqlite))
            .await
    }
}

fn read_all(db: &Connection, mut outbox: Outbox) -> Result<Vec<TableSum>, StoreError> {
    // One read transaction for every table, so that rows that refer to each other are of one moment.
    let snapshot = db.unchecked_transaction().map_err(from_sqlite)?;
    let version = schema::version(&snapshot).map_err(from_sqlite)?;
    // A target that is read back still has the mark of an unfinished move, which looks newer than any version.
    if !outbox.reads_back() {
        refuse_newer(version)?;
    }
    for table in TABLES {
        outbox.start(table);
        // Both databases hash rows in the order of the key, so that equal content gives equal sums.
        let key: Vec<&str> = table.key().collect();
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {}",
            table.column_list(),
            table.name,
            key.join(", ")
        );
        let mut select = snapshot.prepare(&sql).map_err(from_sqlite)?;
        let columns = select.column_count();
        let mut rows = select.query([]).map_err(from_sqlite)?;
        while let Some(row) = rows.next().map_err(from_sqlite)? {
            let cells: Result<Row> = (0..columns).map(|column| cell(row, column)).collect();
            if outbox.push(cells.map_err(|error| unreadable(table, &error))?) {
                outbox.send_blocking()?;
            }
        }
        outbox.end_table_blocking()?;
    }
    Ok(outbox.sums())
}

fn cell(row: &SqliteRow<'_>, column: usize) -> Result<Cell> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        value @ ValueRef::Text(_) => Cell::Text(value.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_owned()),
        // No column of the schema is a real number.
        ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType.into()),
    })
}

fn unreadable(table: &MovedTable, error: &rusqlite::Error) -> StoreError {
    StoreError::Corrupt(format!("a row of table {} cannot be read: {error}", table.name))
}

fn write_all(db: &mut Connection, mut inbox: Inbox) -> Result<(), FillError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(from_sqlite)?;
    for table in TABLES {
        // All tables are looked at before the first row is written: a target with rows is left as it was.
        let found = tx.query_row(&table.find_row(), [], |_| Ok(())).optional();
        if found.map_err(from_sqlite)?.is_some() {
            return Err(FillError::NotEmpty(table.name));
        }
    }
    for table in TABLES {
        // Rows that the migrations themselves insert would clash with those of the source.
        tx.execute(&table.delete_seed(), []).map_err(from_sqlite)?;
        let signs: Vec<&str> = table.columns().map(|_| "?").collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            table.name,
            table.column_list(),
            signs.join(", ")
        );
        let mut insert = tx.prepare(&sql).map_err(from_sqlite)?;
        while let Parcel::Rows(rows) = inbox.blocking_recv().ok_or(FillError::SourceEnded)? {
            for row in rows {
                insert.execute(params_from_iter(row)).map_err(|error| refused(table, error))?;
            }
        }
    }
    // The mark is part of the transaction that brings the rows: there is no moment with rows and without the mark.
    tx.pragma_update(None, "user_version", UNFINISHED).map_err(from_sqlite)?;
    tx.commit().map_err(from_sqlite)?;
    Ok(())
}

/// Messages about a full disk and the like are complete; others need the name of the table.
fn refused(table: &MovedTable, error: rusqlite::Error) -> StoreError {
    match from_sqlite(error) {
        StoreError::Internal(words) => {
            StoreError::Internal(format!("a row of table {} is refused: {words}", table.name))
        }
        other => other,
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
