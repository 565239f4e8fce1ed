//! A row of SQLite as cells, and the statements that write one.

use std::borrow::Cow;

use callboard_domain::ids::Id;
use rusqlite::types::{FromSqlError, Null, ToSqlOutput, Type};
use rusqlite::{Connection, Error, Result, Row, ToSql, params_from_iter};

use crate::kept::RowWrite;
use crate::table::{Cell, Cells, Damaged, Values};

impl Cells for Row<'_> {
    type Error = Error;

    // A blob of another length than 16 bytes is an error of the conversion, and so damage.
    fn id_at(&self, column: usize) -> Result<Option<Id>> {
        Ok(self.get::<_, Option<[u8; 16]>>(column)?.map(Id::from_bytes))
    }

    fn text_at(&self, column: usize) -> Result<Option<&str>> {
        Ok(self.get_ref(column)?.as_str_or_null()?)
    }

    fn int_at(&self, column: usize) -> Result<Option<i64>> {
        self.get(column)
    }

    fn flag_at(&self, column: usize) -> Result<Option<bool>> {
        self.get(column)
    }

    fn bytes_at(&self, column: usize) -> Result<Option<&[u8]>> {
        Ok(self.get_ref(column)?.as_blob_or_null()?)
    }
}

impl From<Damaged> for Error {
    fn from(Damaged { column, what }: Damaged) -> Self {
        // `from_sqlite` calls this kind of error `Corrupt`.
        Self::FromSqlConversionFailure(column, Type::Text, FromSqlError::Other(what.into()).into())
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::from(Null),
            Self::Int(number) => ToSqlOutput::from(*number),
            Self::Flag(flag) => ToSqlOutput::from(*flag),
            Self::Text(text) => ToSqlOutput::from(&**text),
            Self::Id(id) => ToSqlOutput::from(&id[..]),
        })
    }
}

/// Carries out the write of one row.
pub(crate) fn write(db: &Connection, write: &RowWrite<'_>) -> Result<()> {
    match write {
        RowWrite::Insert(values) => insert(db, values, ""),
        RowWrite::Put(values, key) => insert(db, values, &values.table.again(key)),
        RowWrite::Update(values, columns) => update(db, values, "id", columns),
        RowWrite::Delete(values, key) => delete(db, values, key),
    }
}

/// Inserts a row. `otherwise` is the ON CONFLICT clause, if any.
pub(crate) fn insert(db: &Connection, values: &Values<'_>, otherwise: &str) -> Result<()> {
    let sql = match otherwise {
        "" => Cow::Borrowed(values.table.insert),
        _ => Cow::Owned(format!("{} {otherwise}", values.table.insert)),
    };
    // The cache is keyed by the text, so a command with these columns finds its statement prepared.
    db.prepare_cached(&sql)?.execute(params_from_iter(&values.cells))?;
    Ok(())
}

/// Updates these columns of the row with this key.
pub(crate) fn update(
    db: &Connection,
    values: &Values<'_>,
    key: &str,
    columns: &[&str],
) -> Result<()> {
    let cells: Vec<_> = columns.iter().copied().zip(values.of(columns)).collect();
    update_cells(db, values, key, &cells)
}

/// Updates these columns, given with their values, of the row with this key.
pub(crate) fn update_cells(
    db: &Connection,
    values: &Values<'_>,
    key: &str,
    cells: &[(&str, &Cell<'_>)],
) -> Result<()> {
    // One allocation instead of one per column: every command updates a row or two.
    let mut sql = String::with_capacity(512);
    // OR FAIL: without these words SQLite copies each page that a statement with a trigger changes, so that a failure
    // undoes the statement alone. The writer undoes the whole command or batch anyway.
    sql.push_str("UPDATE OR FAIL ");
    sql.push_str(values.table.name);
    for (n, (column, _)) in cells.iter().enumerate() {
        sql.push_str(if n == 0 { " SET " } else { ", " });
        sql.push_str(column);
        sql.push_str(" = ?");
    }
    sql.push_str(" WHERE ");
    sql.push_str(key);
    sql.push_str(" = ?");
    let cells = cells.iter().map(|(_, cell)| *cell).chain(values.of(&[key]));
    db.prepare_cached(&sql)?.execute(params_from_iter(cells))?;
    Ok(())
}

/// Deletes the row with this key.
fn delete(db: &Connection, values: &Values<'_>, key: &[&str]) -> Result<()> {
    let same: Vec<String> = key.iter().map(|column| format!("{column} = ?")).collect();
    let sql = format!("DELETE FROM {} WHERE {}", values.table.name, same.join(" AND "));
    db.prepare_cached(&sql)?.execute(params_from_iter(values.of(key)))?;
    Ok(())
}
