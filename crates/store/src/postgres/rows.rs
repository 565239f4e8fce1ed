//! A row of PostgreSQL as cells, and its ids.

use callboard_domain::ids::Id;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::StoreError;
use crate::postgres::errors::{Result, Trouble};
use crate::table::{Cells, Damaged};

impl Cells for Row {
    type Error = Trouble;

    fn id_at(&self, column: usize) -> Result<Option<Id>> {
        Ok(self.try_get::<_, Option<Uuid>>(column)?.map(|id| Id(id.as_u128())))
    }

    fn text_at(&self, column: usize) -> Result<Option<&str>> {
        Ok(self.try_get(column)?)
    }

    fn int_at(&self, column: usize) -> Result<Option<i64>> {
        Ok(self.try_get::<_, Option<Integer>>(column)?.map(|Integer(number)| number))
    }

    fn flag_at(&self, column: usize) -> Result<Option<bool>> {
        Ok(self.try_get(column)?)
    }

    fn bytes_at(&self, column: usize) -> Result<Option<&[u8]>> {
        Ok(self.try_get(column)?)
    }
}

impl From<Damaged> for Trouble {
    fn from(Damaged { what, .. }: Damaged) -> Self {
        damaged(what)
    }
}

/// A number from a column of any integer type.
/// Columns are `integer` or `bigint`, and the driver reads each only as its own type. Readers ask for i64 of both.
struct Integer(i64);

impl<'a> FromSql<'a> for Integer {
    fn from_sql(
        column: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(match *column {
            Type::INT2 => i16::from_sql(column, raw)?.into(),
            Type::INT4 => i32::from_sql(column, raw)?.into(),
            _ => i64::from_sql(column, raw)?,
        }))
    }

    fn accepts(column: &Type) -> bool {
        matches!(*column, Type::INT2 | Type::INT4 | Type::INT8)
    }
}

pub(crate) fn uuid(id: Id) -> Uuid {
    Uuid::from_u128(id.0)
}

/// The error for a value that violates the schema: the row is damaged, the caller is not at fault.
pub(crate) fn damaged(what: &str) -> Trouble {
    StoreError::Corrupt(format!("a row is damaged: its {what} cannot be read")).into()
}
