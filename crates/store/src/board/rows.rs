//! Rows of tasks with few columns: for names in lists, and for the number of reviews.

use std::fmt::Debug;

use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::task::contract::Verification;
use callboard_domain::time::Timestamp;

use crate::table::{Cells, RowReader};

/// A task as lists name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTitle {
    pub id: TaskId,
    pub name: TaskName,
    pub title: String,
}

impl TaskTitle {
    pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Self, R::Error> {
        let id = row.task()?;
        let name = TaskName { prefix: id.prefix, number: row.count()? };
        Ok(Self { id, name, title: row.text()? })
    }
}

/// The columns of `TaskTitle::read`.
pub(crate) const TITLE: &str = "t.id, t.prefix, t.number, t.title";

/// A task in review, as its count needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewRow {
    pub id: TaskId,
    pub name: TaskName,
    pub phase_at: Timestamp,
    pub verification: Option<Verification>,
}

impl ReviewRow {
    fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Self, R::Error> {
        let id = row.task()?;
        let name = TaskName { prefix: id.prefix, number: row.count()? };
        let (phase_at, verification) = (row.time()?, row.json_if("verification")?);
        Ok(Self { id, name, phase_at, verification })
    }

    pub(crate) fn read_sound<R: Cells>(row: &mut RowReader<'_, R>) -> Option<Self>
    where
        R::Error: Debug,
    {
        let damaged = |error: &R::Error| {
            tracing::error!(?error, "a task's row is damaged; run callboard doctor");
        };
        Self::read(row).inspect_err(damaged).ok()
    }
}
