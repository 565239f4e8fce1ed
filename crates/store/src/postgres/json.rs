//! Sets of rows as one JSON array of objects, keyed by column: a form that needs no type per column.

use serde_json::Value;
use tokio_postgres::Error;
use uuid::Uuid;

use crate::postgres::db::{Db, Statement};
use crate::table::{Cell, Table, Values};

/// A row as an object.
pub(crate) fn object(values: &Values<'_>) -> Value {
    let value = |cell: &Cell<'_>| match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => (*number).into(),
        Cell::Flag(flag) => (*flag).into(),
        Cell::Text(text) => (&**text).into(),
        Cell::Id(id) => Uuid::from_bytes(*id).to_string().into(),
    };
    values.pairs().map(|(column, cell)| (column.to_owned(), value(cell))).collect()
}

/// `INSERT INTO table …` for every object in the one parameter. `otherwise` is the ON CONFLICT clause, if any.
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
    if rows.is_empty() {
        return Ok(());
    }
    db.execute(statement, &[&Value::Array(rows).to_string()]).await.map(|_| ())
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
