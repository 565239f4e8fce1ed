//! PostgreSQL as one end of a move: every row out of one snapshot, or into one transaction by COPY.

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::hex::hex;
use futures_util::TryStreamExt;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as PostgresRow};
use uuid::Uuid;

use crate::StoreError;
use crate::migrations::refuse_newer;
use crate::postgres::address::Address;
use crate::postgres::connections::{Connections, MIGRATION, SNAPSHOT, STATEMENTS};
use crate::postgres::db::Db;
use crate::postgres::errors::{Result, Trouble};
use crate::postgres::{PostgresStore, log, read, schema};
use crate::table::Cells;
use crate::transfer::{
    Cell, FillError, Inbox, MovedTable, Outbox, Parcel, Row, TABLES, TableSum, UNFINISHED, Whole,
};

impl From<Trouble> for FillError {
    fn from(trouble: Trouble) -> Self {
        Self::Store(trouble.into())
    }
}

impl From<tokio_postgres::Error> for FillError {
    fn from(error: tokio_postgres::Error) -> Self {
        Trouble::from(error).into()
    }
}

const MARK: i32 = UNFINISHED as i32;

impl PostgresStore {
    /// Whether there is a store; does not create one.
    pub(crate) async fn is_at(url: &str) -> Result<bool, StoreError> {
        let connections = Connections::open(Address::parse(url)?).await?;
        let version = |db: Arc<Db>| async move { schema::version(&db).await };
        Ok(connections.run(&STATEMENTS, version).await? > 0)
    }
}

#[async_trait]
impl Whole for PostgresStore {
    async fn read_all(&self, outbox: Outbox) -> Result<Vec<TableSum>, StoreError> {
        // Few events are left to be numbered by the copy itself then.
        self.shared.number_all().await?;
        let db = self.shared.connections.begun(&SNAPSHOT).await?;
        let sums = read_all(db.client(), outbox).await?;
        db.commit().await?;
        Ok(sums)
    }

    async fn write_all(&self, inbox: Inbox) -> Result<(), FillError> {
        let db = self.shared.connections.begun(&MIGRATION).await?;
        write_all(db.client(), inbox).await?;
        Ok(db.commit().await?)
    }

    async fn take_mark_away(&self) -> Result<(), StoreError> {
        self.shared
            .read(|db| async move {
                read::one(&db, "DELETE FROM migrations WHERE version = $1", &[&MARK]).await?;
                Ok(())
            })
            .await
    }
}

/// Sends every table, in an order that does not depend on the database, with a checksum of each.
async fn read_all(db: &Client, mut outbox: Outbox) -> Result<Vec<TableSum>> {
    let newest = "SELECT coalesce(max(version), 0) FROM migrations";
    let version = db.query_one(newest, &[]).await?.reader().count()?;
    if !outbox.reads_back() {
        refuse_newer(version)?;
    }
    for table in TABLES {
        outbox.start(table);
        let types = types(db, table).await?;
        // Texts sort by their bytes everywhere, whatever the collation of the database.
        let order: Vec<String> = table
            .key()
            .zip(&types)
            .map(|(column, kind)| match *kind {
                Type::TEXT => format!("{column} COLLATE \"C\""),
                _ => column.to_owned(),
            })
            .collect();
        let from = match table.name {
            "events" if log::is_parked(db).await? => format!("{} e", log::EVENTS),
            name => name.to_owned(),
        };
        let sql =
            format!("SELECT {} FROM {from} ORDER BY {}", table.column_list(), order.join(", "));
        let mut rows = pin!(db.query_raw(&sql, std::iter::empty::<&str>()).await?);
        while let Some(row) = rows.try_next().await? {
            let cells = types.iter().enumerate().map(|(column, kind)| cell(&row, column, kind));
            if outbox.push(cells.collect::<Result<Row>>()?) {
                outbox.send().await?;
            }
        }
        outbox.end_table().await?;
    }
    Ok(outbox.sums())
}

/// The types of a table's columns here.
async fn types(db: &Client, table: &MovedTable) -> Result<Vec<Type>> {
    let sql = format!("SELECT {} FROM {}", table.column_list(), table.name);
    let statement = db.prepare(&sql).await?;
    Ok(statement.columns().iter().map(|column| column.type_().clone()).collect())
}

/// A value in the form that both databases share: booleans are integers and ids are bytes, as SQLite stores them.
fn cell(row: &PostgresRow, column: usize, kind: &Type) -> Result<Cell> {
    fn or_null<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or(Cell::Null, cell)
    }
    Ok(match *kind {
        Type::TEXT => or_null(row.try_get(column)?, Cell::Text),
        Type::INT8 => or_null(row.try_get(column)?, Cell::Integer),
        Type::INT4 => {
            or_null(row.try_get::<_, Option<i32>>(column)?, |n| Cell::Integer(i64::from(n)))
        }
        Type::BOOL => {
            or_null(row.try_get::<_, Option<bool>>(column)?, |b| Cell::Integer(i64::from(b)))
        }
        Type::UUID => or_null(row.try_get::<_, Option<Uuid>>(column)?, |id| {
            Cell::Bytes(id.into_bytes().to_vec())
        }),
        Type::BYTEA => or_null(row.try_get(column)?, Cell::Bytes),
        _ => return Err(StoreError::Internal(format!("columns of type {kind} do not move")).into()),
    })
}

/// Fills an empty store. Every table is looked at before the first row is written.
async fn write_all(tx: &Client, mut inbox: Inbox) -> Result<(), FillError> {
    alone(tx).await?;
    for table in TABLES {
        if tx.query_opt(&table.find_row(), &[]).await?.is_some() {
            return Err(FillError::NotEmpty(table.name));
        }
    }
    for table in TABLES {
        copy_in(tx, table, &mut inbox).await?;
    }
    Ok(settle_down(tx).await?)
}

/// Keeps all other writers out until the commit.
async fn alone(tx: &Client) -> Result<()> {
    tx.batch_execute(schema::ALONE).await?;
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    tx.batch_execute(&format!("LOCK TABLE {} IN EXCLUSIVE MODE", names.join(", "))).await?;
    Ok(())
}

/// Copies one table in. Rows that a migration seeded are deleted first: they come with the move.
async fn copy_in(tx: &Client, table: &MovedTable, inbox: &mut Inbox) -> Result<(), FillError> {
    tx.execute(&table.delete_seed(), &[]).await?;
    let types = types(tx, table).await?;
    let sql = format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, table.column_list());
    let sink = tx.copy_in(&sql).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    while let Parcel::Rows(rows) = inbox.recv().await.ok_or(FillError::SourceEnded)? {
        for row in rows {
            let values = row
                .iter()
                .zip(&types)
                .zip(table.columns())
                .map(|((cell, kind), column)| {
                    value(cell, kind).map_err(|words| unstorable(table, &row, column, words))
                })
                .collect::<Result<Vec<_>, StoreError>>()?;
            writer.as_mut().write_raw(values).await?;
        }
    }
    writer.as_mut().finish().await?;
    Ok(())
}

type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A cell as a value for a column of this type, or why it does not fit.
fn value<'a>(cell: &'a Cell, kind: &Type) -> Result<Value<'a>, &'static str> {
    const MISFIT: &str = "is of another kind than its column";
    let integer = || match cell {
        Cell::Null => Ok(None),
        Cell::Integer(number) => Ok(Some(*number)),
        Cell::Text(_) | Cell::Bytes(_) => Err(MISFIT),
    };
    let bytes = || match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes.as_slice())),
        Cell::Text(_) | Cell::Integer(_) => Err(MISFIT),
    };
    Ok(match *kind {
        Type::TEXT => match cell {
            Cell::Null => Box::new(None::<&str>),
            Cell::Text(text) if text.contains('\0') => {
                return Err("holds U+0000, which PostgreSQL cannot keep");
            }
            Cell::Text(text) => Box::new(text.as_str()),
            Cell::Integer(_) | Cell::Bytes(_) => return Err(MISFIT),
        },
        Type::INT8 => Box::new(integer()?),
        Type::INT4 => {
            let narrow = integer()?.map(i32::try_from).transpose();
            Box::new(narrow.map_err(|_| "is too large for PostgreSQL's column")?)
        }
        Type::BOOL => Box::new(integer()?.map(|number| number != 0)),
        Type::UUID => {
            let id = bytes()?.map(Uuid::from_slice).transpose();
            Box::new(id.map_err(|_| "is no id of 16 bytes")?)
        }
        Type::BYTEA => Box::new(bytes()?),
        _ => return Err(MISFIT),
    })
}

fn unstorable(table: &MovedTable, row: &Row, column: &str, words: &str) -> StoreError {
    let shown = |(name, cell): (&str, &Cell)| match cell {
        Cell::Null => format!("{name} null"),
        Cell::Integer(number) => format!("{name} {number}"),
        Cell::Text(text) => format!("{name} {text:?}"),
        Cell::Bytes(bytes) => format!("{name} {}", hex(bytes)),
    };
    let which: Vec<String> = table.key().zip(row).map(shown).collect();
    StoreError::Unavailable(format!(
        "{column} of table {} {words} (the row with {}); change it in the source and move again",
        table.name,
        which.join(", ")
    ))
}

/// Sets the state that PostgreSQL keeps beside the rows: counters, statistics; and the mark of an unfinished move.
async fn settle_down(tx: &Client) -> Result<()> {
    let counted = tx
        .query(
            "SELECT table_name::text, column_name::text FROM information_schema.columns
             WHERE table_schema = current_schema() AND is_identity = 'YES'",
            &[],
        )
        .await?;
    for row in counted {
        let (table, column): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column}))
             FROM {table} HAVING max({column}) > 0"
        );
        tx.batch_execute(&sql).await?;
    }
    // Without statistics the first reads would be planned for empty tables.
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    tx.batch_execute(&format!("ANALYZE {}", names.join(", "))).await?;
    let sql = "INSERT INTO migrations (version, name, checksum) VALUES ($1, 'unfinished move', '')";
    tx.execute(sql, &[&MARK]).await?;
    Ok(())
}
