//! The rows around tasks: bodies, history, edges, and the state of the store's clock. One statement reads all of it
//! in rows of one shape, because a statement costs the server and the wire more than the few rows it brings.

use callboard_domain::desk::EntryRow;
use callboard_domain::ids::Id;
use callboard_domain::limits::ENTRIES_SHOWN_MAX;
use callboard_domain::task::Dep;
use tokio_postgres::Row;

use crate::postgres::clock::NOW;
use crate::postgres::errors::Trouble;
use crate::postgres::log::END;
use crate::table::Cells;
use crate::table::entry::{self, ENTRY};
use crate::table::task::{self, DEP};

/// The state of the whole store.
pub(crate) struct State {
    /// The server's time.
    pub now: i64,
    /// The newest time in the store.
    pub last_at: i64,
    /// When a process last reported that it watches the leases.
    pub ticked_at: i64,
    pub version: u32,
}

/// One row of the statement, about one task.
pub(crate) enum Part {
    /// About no task.
    State(State),
    /// The body with its execution contract.
    Body(String, Option<String>),
    /// A line of history.
    Line(EntryRow),
    /// A dep with its position.
    Dep(i32, Dep),
    Dependent(Id),
}

/// The array comes out of a subquery, so that its length is no reason to plan the statement anew each time:
/// planning costs several times as much as executing.
pub(crate) const IDS: &str = "SELECT unnest((SELECT $1::uuid[]))";

/// The parts of the tasks `$1`, with dependents for those in `$2`, in no particular order. Behind kind and task a row
/// has the columns of a line of history and a time, into which the other parts are fitted.
pub(crate) fn sql() -> String {
    format!(
        "SELECT 0::smallint, NULL::uuid, (SELECT coalesce(max(version), 0) FROM migrations),
             {NOW}, coalesce((SELECT at FROM ticks WHERE one), 0)::text, NULL::text, NULL::text,
             NULL::uuid, last_at
         FROM ({END}) p
         UNION ALL
         SELECT 1::smallint, task, NULL, NULL, body, execution_contract, NULL, NULL, NULL
         FROM bodies WHERE task = ANY (ARRAY({IDS}))
         UNION ALL
         SELECT 2::smallint, n.task, {ENTRY}, NULL
         FROM ({IDS}) AS s (id) CROSS JOIN LATERAL (
             SELECT * FROM entries e WHERE e.task = s.id
             ORDER BY e.number DESC LIMIT {ENTRIES_SHOWN_MAX}) n
         UNION ALL
         SELECT 3::smallint, e.task, e.position, {DEP}
         FROM deps e JOIN tasks d ON d.id = e.dep WHERE e.task = ANY (ARRAY({IDS}))
         UNION ALL
         SELECT 4::smallint, dep, NULL, NULL, NULL, NULL, NULL, task, NULL
         FROM deps WHERE dep = ANY (ARRAY(SELECT unnest((SELECT $2::uuid[]))))"
    )
}

/// The task of a part; `None` for the state.
pub(crate) fn owner(row: &Row) -> Result<Option<Id>, Trouble> {
    row.id_at(1)
}

pub(crate) fn part(row: &Row) -> Result<Part, Trouble> {
    let mut row = row.reader();
    let kind = row.int()?;
    row.skip(1);
    Ok(match kind {
        0 => {
            let (version, now) = (row.count()?, row.int()?);
            // The row shape has no third number, so this one is text.
            let ticked_at = row.word("ticks", |text| text.parse().ok())?;
            row.skip(3);
            Part::State(State { now, last_at: row.int()?, ticked_at, version })
        }
        1 => {
            row.skip(2);
            Part::Body(row.text()?, row.text_if()?)
        }
        2 => Part::Line(entry::read(&mut row)?),
        3 => Part::Dep(row.count()?, task::read_dep(&mut row)?),
        _ => {
            row.skip(5);
            Part::Dependent(row.id()?)
        }
    })
}
