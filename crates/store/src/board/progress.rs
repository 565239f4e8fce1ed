//! How far epics are: the number of their tasks and of those that are closed.

use callboard_domain::board::column::COUNT_MAX;
use callboard_domain::ids::{TaskId, TaskName};

use crate::table::{Cells, RowReader};

/// An epic with the number of its tasks, counted up to `COUNT_MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpicProgress {
    pub id: TaskId,
    pub name: TaskName,
    pub title: String,
    pub closed: usize,
    pub tasks: usize,
}

/// The number of an epic's tasks and of those that are closed, up to `COUNT_MAX`; `epic` is the epic's id.
pub(crate) fn progress_sql(epic: &str) -> String {
    format!(
        "SELECT count(*) AS tasks, count(*) FILTER (WHERE k.phase IN ('closed_done', 'closed_canceled')) \
             AS closed \
         FROM (SELECT c.phase FROM tasks c WHERE c.parent = {epic} AND c.removed_at IS NULL \
             LIMIT {COUNT_MAX}) k"
    )
}

impl EpicProgress {
    /// An epic from its number and title, not counted yet.
    pub(crate) fn read<R: Cells>(id: TaskId, row: &mut RowReader<'_, R>) -> Result<Self, R::Error> {
        let name = TaskName { prefix: id.prefix, number: row.count()? };
        Ok(Self { id, name, title: row.text()?, closed: 0, tasks: 0 })
    }

    /// Takes the columns of `progress_sql`.
    pub(crate) fn count<R: Cells>(&mut self, row: &mut RowReader<'_, R>) -> Result<(), R::Error> {
        (self.tasks, self.closed) = (row.count()?, row.count()?);
        Ok(())
    }
}
