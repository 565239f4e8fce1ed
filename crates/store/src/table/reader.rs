//! Values that were read.

use callboard_domain::actor::Actor;
use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::time::Timestamp;
use serde::de::DeserializeOwned;

/// A value that violates the schema: the row is damaged, the caller is not at fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damaged {
    /// Counted from 0 in the SELECT. SQLite's error shows the number; PostgreSQL's message has only `what`.
    pub column: usize,
    pub what: &'static str,
}

/// A row of either database, read by column. `None` is NULL.
pub(crate) trait Cells {
    /// The backend's own error, so that a reader's `?` needs no conversion.
    type Error: From<Damaged>;

    fn id_at(&self, column: usize) -> Result<Option<Id>, Self::Error>;
    fn text_at(&self, column: usize) -> Result<Option<&str>, Self::Error>;
    fn int_at(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn flag_at(&self, column: usize) -> Result<Option<bool>, Self::Error>;
    fn bytes_at(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;

    /// A reader at the first column.
    fn reader(&self) -> RowReader<'_, Self>
    where
        Self: Sized,
    {
        RowReader { row: self, next: 0 }
    }
}

/// Reads the columns of a row from left to right, in the order of the SELECT. Methods that end in `_if` read NULL as
/// `None`; the others call the row damaged then.
pub(crate) struct RowReader<'r, R> {
    row: &'r R,
    /// The column that is read next.
    next: usize,
}

type Read<T, R> = Result<T, <R as Cells>::Error>;

impl<'r, R: Cells> RowReader<'r, R> {
    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Leaves columns out.
    /// Where a LEFT JOIN found no row, the columns of that row are skipped, so that those behind them are read right.
    pub fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    /// The error for the column that was read last.
    pub fn damaged(&self, what: &'static str) -> R::Error {
        Damaged { column: self.next.saturating_sub(1), what }.into()
    }

    pub fn id_if(&mut self) -> Read<Option<Id>, R> {
        let column = self.step();
        self.row.id_at(column)
    }

    pub fn id(&mut self) -> Read<Id, R> {
        self.id_if()?.ok_or_else(|| self.damaged("id"))
    }

    pub fn str_if(&mut self) -> Read<Option<&'r str>, R> {
        let column = self.step();
        self.row.text_at(column)
    }

    pub fn str(&mut self) -> Read<&'r str, R> {
        self.str_if()?.ok_or_else(|| self.damaged("text"))
    }

    pub fn text_if(&mut self) -> Read<Option<String>, R> {
        Ok(self.str_if()?.map(str::to_owned))
    }

    pub fn text(&mut self) -> Read<String, R> {
        self.str().map(str::to_owned)
    }

    pub fn int_if(&mut self) -> Read<Option<i64>, R> {
        let column = self.step();
        self.row.int_at(column)
    }

    pub fn int(&mut self) -> Read<i64, R> {
        self.int_if()?.ok_or_else(|| self.damaged("number"))
    }

    /// A number of a smaller or unsigned type. The databases have none; CHECKs of the schema keep the range.
    pub fn count_if<T: TryFrom<i64>>(&mut self) -> Read<Option<T>, R> {
        let number = self.int_if()?;
        number.map(|number| T::try_from(number).map_err(|_| self.damaged("count"))).transpose()
    }

    pub fn count<T: TryFrom<i64>>(&mut self) -> Read<T, R> {
        self.count_if()?.ok_or_else(|| self.damaged("count"))
    }

    pub fn flag(&mut self) -> Read<bool, R> {
        let column = self.step();
        self.row.flag_at(column)?.ok_or_else(|| self.damaged("flag"))
    }

    /// Bytes of a fixed length.
    /// The only such column is the hash of a token, which the schema keeps at 32 bytes.
    pub fn bytes<const N: usize>(&mut self, what: &'static str) -> Read<[u8; N], R> {
        let column = self.step();
        let bytes = self.row.bytes_at(column)?.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| self.damaged(what))
    }

    pub fn time_if(&mut self) -> Read<Option<Timestamp>, R> {
        Ok(self.int_if()?.map(Timestamp))
    }

    pub fn time(&mut self) -> Read<Timestamp, R> {
        self.time_if()?.ok_or_else(|| self.damaged("time"))
    }

    /// Reads a word with the `parse` of its type.
    /// An unknown word is damage: a store of a newer version, which may have new words, is refused before this.
    pub fn word_if<T>(
        &mut self,
        what: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Read<Option<T>, R> {
        let word = self.str_if()?;
        word.map(|word| parse(word).ok_or_else(|| self.damaged(what))).transpose()
    }

    pub fn word<T>(
        &mut self,
        what: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Read<T, R> {
        self.word_if(what, parse)?.ok_or_else(|| self.damaged(what))
    }

    pub fn json_if<T: DeserializeOwned>(&mut self, what: &'static str) -> Read<Option<T>, R> {
        self.word_if(what, |text| serde_json::from_str(text).ok())
    }

    pub fn json<T: DeserializeOwned>(&mut self, what: &'static str) -> Read<T, R> {
        self.json_if(what)?.ok_or_else(|| self.damaged(what))
    }

    pub fn actor_if(&mut self) -> Read<Option<Actor>, R> {
        self.word_if("actor", |text| text.parse().ok())
    }

    pub fn actor(&mut self) -> Read<Actor, R> {
        self.actor_if()?.ok_or_else(|| self.damaged("actor"))
    }

    /// A task, from its id and the prefix in the next column.
    pub fn task_if(&mut self) -> Read<Option<TaskId>, R> {
        let id = self.id_if()?;
        let prefix = self.word_if("prefix", Prefix::parse)?;
        id.map(|id| Ok(TaskId { id, prefix: prefix.ok_or_else(|| self.damaged("prefix"))? }))
            .transpose()
    }

    pub fn task(&mut self) -> Read<TaskId, R> {
        self.task_if()?.ok_or_else(|| self.damaged("task"))
    }

    /// A task whose row may be gone, and the prefix with it; from its id and the prefix in the next column.
    pub fn task_or_gone(&mut self) -> Read<Option<TaskId>, R> {
        let (id, prefix) = (self.id_if()?, self.str_if()?.and_then(Prefix::parse));
        Ok(id.map(|id| TaskId { id, prefix: prefix.unwrap_or_else(Prefix::fallback) }))
    }
}
