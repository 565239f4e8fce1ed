//! Sets of rows as one JSON array of objects, keyed by column: a form that needs no type per column.

use serde_json::Value;
use tokio_postgres::Error;
use uuid::Uuid;

use crate::kept::RowWrite;
use crate::postgres::db::{Db, Statement};
use crate::table::{Cell, Table, Values};

/// A row as an object.
pub(crate) fn object(values: &Values<'_>) -> Value {
    let value = |cell: &Cell<'_>| match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => (*number).into(),
        Cell::Flag(flag) => (*flag).into(),
        Cell::Text(text) => (&**text).into(),
        // JSON has no ids; the cast of `json_populate_recordset` reads the text of a uuid.
        Cell::Id(id) => Uuid::from_bytes(*id).to_string().into(),
    };
    values.pairs().map(|(column, cell)| (column.to_owned(), value(cell))).collect()
}

/// `INSERT INTO table …` for every object in the one parameter. `otherwise` is the ON CONFLICT clause, if any.
/// The table itself gives the types of the columns, so a new column needs no change here. `$1::text::json`: the driver
/// sends text, and the server parses it.
pub(crate) fn insert_sql(table: &Table, otherwise: &str) -> String {
    let (name, columns) = (table.name, table.columns.join(", "));
    format!(
        "INSERT INTO {name} ({columns}) SELECT {columns} \
         FROM json_populate_recordset(NULL::{name}, $1::text::json) {otherwise}"
    )
}

/// `UPDATE table SET column = …` for every object in the one parameter, by this key.
pub(crate) fn update_sql(table: &Table, key: &str, columns: &[&str]) -> String {
    let set = columns.iter().map(|column| format!("{column} = n.{column}"));
    update_set(table, key, set.collect())
}

/// As `update_sql`. The `live` columns keep their values where the column `ended` gets one.
/// The values of an ended attempt know no heartbeat any more, so the stored one must stay.
pub(crate) fn update_until_ended(
    table: &Table,
    key: &str,
    ended: &str,
    columns: &[&str],
    live: &[&str],
) -> String {
    let set = columns.iter().map(|column| format!("{column} = n.{column}"));
    let keep = live.iter().map(|column| {
        format!("{column} = CASE WHEN n.{ended} IS NULL THEN n.{column} ELSE o.{column} END")
    });
    update_set(table, key, set.chain(keep).collect())
}

fn update_set(table: &Table, key: &str, set: Vec<String>) -> String {
    let (name, set) = (table.name, set.join(", "));
    format!(
        "UPDATE {name} o SET {set} FROM json_populate_recordset(NULL::{name}, $1::text::json) n \
         WHERE o.{key} = n.{key}"
    )
}

/// `DELETE FROM table` for every object in the one parameter, by this key.
pub(crate) fn delete_sql(table: &Table, key: &[&str]) -> String {
    let name = table.name;
    let same: Vec<String> = key.iter().map(|column| format!("o.{column} = n.{column}")).collect();
    format!(
        "DELETE FROM {name} o USING json_populate_recordset(NULL::{name}, $1::text::json) n \
         WHERE {}",
        same.join(" AND ")
    )
}

/// Runs a statement for these objects, unless there are none.
pub(crate) async fn run(db: &Db, statement: &Statement, rows: Vec<Value>) -> Result<(), Error> {
    // An empty array would cost a round trip for nothing.
    if rows.is_empty() {
        return Ok(());
    }
    db.execute(statement, &[&Value::Array(rows).to_string()]).await.map(|_| ())
}

/// Carries out the write of one row.
pub(crate) async fn write(db: &Db, write: &RowWrite<'_>) -> Result<(), Error> {
    match write {
        RowWrite::Insert(values) => insert(db, values, "").await,
        RowWrite::Put(values, key) => insert(db, values, &values.table.again(key)).await,
        RowWrite::Update(values, columns) => update(db, values, "id", columns).await,
        RowWrite::Delete(values, key) => {
            let statement = db.prepare_cached(&delete_sql(values.table, key)).await?;
            run(db, &statement, vec![object(values)]).await
        }
    }
}

/// Inserts one row.
pub(crate) async fn insert(db: &Db, values: &Values<'_>, otherwise: &str) -> Result<(), Error> {
    let statement = db.prepare_cached(&insert_sql(values.table, otherwise)).await?;
    run(db, &statement, vec![object(values)]).await
}

/// Updates these columns of one row.
pub(crate) async fn update(
    db: &Db,
    values: &Values<'_>,
    key: &str,
    columns: &[&str],
) -> Result<(), Error> {
    let statement = db.prepare_cached(&update_sql(values.table, key, columns)).await?;
    run(db, &statement, vec![object(values)]).await
}
