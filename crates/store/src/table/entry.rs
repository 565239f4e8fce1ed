//! Lines of a task's history.

use callboard_domain::desk::EntryRow;
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::task::Entry;

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of a line.
pub(crate) const ENTRY: &str = "number, at, who, did, text, attempt";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<EntryRow, R::Error> {
    let (number, at) = (row.count()?, row.time()?);
    let who = row.str()?.parse();
    // One unreadable actor does not hide the history of a task, so the line is shown as of an unknown one.
    let who =
        who.unwrap_or_else(|_| "system:unknown".parse().expect("a constant actor is well formed"));
    let entry = Entry { who, at, did: row.text()?, text: row.text_if()? };
    Ok(EntryRow { number, entry, attempt: row.id_if()?.map(AttemptId) })
}

table! {
    ENTRIES = "entries";
    fn values(task: TaskId, number: u32, entry: &'a Entry, attempt: Option<AttemptId>) {
        task: task,
        number: number,
        who: &entry.who,
        at: entry.at,
        did: &entry.did,
        text: &entry.text,
        attempt: attempt,
    }
}
