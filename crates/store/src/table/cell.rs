//! Values to write.

use std::borrow::Cow;

use callboard_domain::actor::Actor;
use callboard_domain::ids::{AttemptId, Id, TaskId};
use callboard_domain::runs::job::JobId;
use callboard_domain::time::Timestamp;
use serde::Serialize;

/// The value of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    // These kinds are enough: a time is a number of microseconds, a word of an enum is text, and so is JSON.
    Null,
    Int(i64),
    Flag(bool),
    Text(Cow<'a, str>),
    /// A blob in SQLite, a uuid in PostgreSQL.
    Id([u8; 16]),
}

/// A table with the columns that are written.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    pub name: &'static str,
    /// In the order of `Values::cells`. The order in the database is of no account: every statement names its columns.
    pub columns: &'static [&'static str],
    /// The INSERT of one row, as SQLite reads it. Every command runs several, so the text is made by the compiler.
    pub insert: &'static str,
}

/// The values of one row, in the order of the table's columns.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pub table: &'static Table,
    pub cells: Vec<Cell<'a>>,
}

impl Table {
    /// The ON CONFLICT clause that replaces the row with this key.
    pub fn again(&self, key: &[&str]) -> String {
        let others = self.columns.iter().filter(|column| !key.contains(column));
        let set: Vec<String> =
            others.map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({}) DO UPDATE SET {}", key.join(", "), set.join(", "))
    }
}

impl<'a> Values<'a> {
    /// The values of these columns, in their order.
    /// Panics for a column that the table does not declare: names of columns are constants of this crate.
    pub fn of(&self, columns: &[&str]) -> Vec<&Cell<'a>> {
        let value = |column: &&str| {
            let place = self.table.columns.iter().position(|known| known == column);
            place.and_then(|place| self.cells.get(place)).expect("the table has this column")
        };
        columns.iter().map(value).collect()
    }

    /// Those of these columns whose values differ from `before`, each with its value.
    /// Both must be values of one table, because cells are compared by their place.
    pub fn changed(&self, before: &Self, columns: &[&str]) -> Vec<(&'static str, &Cell<'a>)> {
        let differ = self.pairs().zip(&before.cells).filter(|((_, after), before)| after != before);
        differ.map(|(after, _)| after).filter(|(column, _)| columns.contains(column)).collect()
    }

    /// Each column with its value.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &Cell<'a>)> {
        self.table.columns.iter().copied().zip(&self.cells)
    }
}

/// Declares a table and the function that makes the values of its rows, each column beside its value.
macro_rules! table {
    (
        $table:ident = $name:literal;
        $(#[$doc:meta])*
        fn $values:ident($($argument:ident: $type:ty),* $(,)?) {
            // The first column stands apart, because the list of `?` needs a comma before every column but the first.
            $first:ident: $first_value:expr,
            $($column:ident: $value:expr,)*
        }
    ) => {
        pub(crate) const $table: $crate::table::Table = $crate::table::Table {
            name: $name,
            columns: &[stringify!($first), $(stringify!($column)),*],
            insert: concat!(
                "INSERT INTO ", $name, " (", stringify!($first), $(", ", stringify!($column),)*
                ") VALUES (?", $($crate::table::cell::place!($column),)* ")"
            ),
        };

        $(#[$doc])*
        pub(crate) fn $values<'a>($($argument: $type),*) -> $crate::table::Values<'a> {
            let cells = vec![
                $crate::table::Cell::from($first_value),
                $($crate::table::Cell::from($value)),*
            ];
            $crate::table::Values { table: &$table, cells }
        }
    };
}
pub(crate) use table;

/// The place of a further column in `VALUES`.
macro_rules! place {
    ($column:ident) => {
        ", ?"
    };
}
pub(crate) use place;

/// Plain data as JSON text.
/// Values that no query looks into are kept so: an optional field more needs no migration.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("rows are plain data")
}

impl<'a, T> From<Option<T>> for Cell<'a>
where
    Cell<'a>: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::from)
    }
}

impl<'a> From<&'a Option<String>> for Cell<'a> {
    fn from(text: &'a Option<String>) -> Self {
        text.as_deref().into()
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a Actor> for Cell<'a> {
    fn from(actor: &'a Actor) -> Self {
        actor.as_str().into()
    }
}

/// Numbers that fit, and those of which the schema keeps the range.
macro_rules! integers {
    ($($type:ty),*) => {
        $(impl From<$type> for Cell<'_> {
            fn from(number: $type) -> Self {
                // A u64 above i64::MAX would wrap. Fences and event numbers count up from 0 and never come near.
                Self::Int(number as i64)
            }
        })*
    };
}
integers!(i64, i32, u64, u32, u16, u8);

impl From<Timestamp> for Cell<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Int(at.0)
    }
}

impl From<bool> for Cell<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Id> for Cell<'_> {
    fn from(id: Id) -> Self {
        Self::Id(id.to_bytes())
    }
}

/// A row refers to a task without its prefix.
impl From<TaskId> for Cell<'_> {
    fn from(task: TaskId) -> Self {
        task.id.into()
    }
}

impl From<AttemptId> for Cell<'_> {
    fn from(attempt: AttemptId) -> Self {
        attempt.0.into()
    }
}

impl From<JobId> for Cell<'_> {
    fn from(job: JobId) -> Self {
        job.0.into()
    }
}
