//! A row of SQLite as cells, and the two statements that write one.

use callboard_domain::ids::Id;
use rusqlite::types::{FromSqlError, Null, ToSqlOutput, Type};
use rusqlite::{Connection, Error, Result, Row, ToSql, params_from_iter};

use crate::table::{Cell, Cells, Damaged, Values};

impl Cells for Row<'_> {
    type Error = Error;

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

/// Inserts a row. `otherwise` is the ON CONFLICT clause, if any.
pub(crate) fn insert(db: &Connection, values: &Values<'_>, otherwise: &str) -> Result<()> {
    let places = vec!["?"; values.cells.len()];
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({}) {otherwise}",
        values.table.name,
        values.table.columns.join(", "),
        places.join(", ")
    );
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
    let set: Vec<String> =
        (2..).zip(columns).map(|(n, column)| format!("{column} = ?{n}")).collect();
    let sql = format!("UPDATE {} SET {} WHERE {key} = ?1", values.table.name, set.join(", "));
    let cells = values.of(&[key]).into_iter().chain(values.of(columns));
    db.prepare_cached(&sql)?.execute(params_from_iter(cells))?;
    Ok(())
}
