//! The rows around tasks: bodies, history, edges, and the state of the store's clock. One statement reads all of it
//! in rows of one shape, because a statement costs the server and the wire more than the few rows it brings.

use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::limits::ENTRIES_SHOWN_MAX;
use callboard_domain::policy::Phase;
use callboard_domain::task::{Dep, Entry};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;

use super::clock::NOW;
use super::errors::Trouble;
use super::rows;

/// The state of the whole store.
pub(super) struct State {
    /// The server's time.
    pub now: i64,
    /// The newest time in the store.
    pub last_at: i64,
    /// When a process last reported that it watches the leases.
    pub ticked_at: i64,
    pub version: i32,
}

/// One row of the statement, about one task.
pub(super) enum Part {
    /// About no task.
    State(State),
    /// The body with its execution contract.
    Body(String, Option<String>),
    /// A line of history with its number and attempt.
    Line(u32, Entry, Option<AttemptId>),
    /// A dep with its position.
    Dep(i32, Dep),
    Dependent(Id),
}

/// The array comes out of a subquery, so that its length is no reason to plan the statement anew each time:
/// planning costs several times as much as executing.
pub(super) const IDS: &str = "SELECT unnest((SELECT $1::uuid[]))";

/// The parts of the tasks `$1`, with dependents for those in `$2`, in no particular order.
pub(super) fn sql() -> String {
    format!(
        "SELECT 0::smallint, NULL::uuid, (SELECT coalesce(max(version), 0) FROM migrations),
             {NOW}, last_at, coalesce((SELECT at FROM ticks WHERE one), 0)::text, NULL::text,
             NULL::text, NULL::uuid
         FROM log_position WHERE one
         UNION ALL
         SELECT 1::smallint, task, NULL, NULL, NULL, body, execution_contract, NULL, NULL
         FROM bodies WHERE task = ANY (ARRAY({IDS}))
         UNION ALL
         SELECT 2::smallint, n.task, n.number, n.at, NULL, n.who, n.did, n.text, n.attempt
         FROM ({IDS}) AS s (id) CROSS JOIN LATERAL (
             SELECT * FROM entries e WHERE e.task = s.id
             ORDER BY e.number DESC LIMIT {ENTRIES_SHOWN_MAX}) n
         UNION ALL
         SELECT 3::smallint, e.task, e.position, d.removed_at, (SELECT l.lease_expires_at
                 FROM attempts l WHERE l.task = d.id AND l.ended_at IS NULL),
             d.prefix, d.label, d.phase, d.id
         FROM deps e JOIN tasks d ON d.id = e.dep WHERE e.task = ANY (ARRAY({IDS}))
         UNION ALL
         SELECT 4::smallint, dep, NULL, NULL, NULL, NULL, NULL, NULL, task
         FROM deps WHERE dep = ANY (ARRAY(SELECT unnest((SELECT $2::uuid[]))))"
    )
}

/// The task of a part; `None` for the state.
pub(super) fn owner(row: &Row) -> Result<Option<Id>, Trouble> {
    rows::optional_id(row, 1)
}

pub(super) fn part(row: &Row) -> Result<Part, Trouble> {
    Ok(match row.try_get::<_, i16>(0)? {
        0 => Part::State(State {
            now: row.try_get(3)?,
            last_at: row.try_get(4)?,
            // The row shape has no third number, so this one is text.
            ticked_at: row.try_get::<_, &str>(5)?.parse().map_err(|_| rows::damaged("ticks"))?,
            version: row.try_get(2)?,
        }),
        1 => Part::Body(row.try_get(5)?, row.try_get(6)?),
        2 => {
            let attempt = rows::optional_id(row, 8)?.map(AttemptId);
            Part::Line(rows::count(row, 2)?, rows::entry(row, [5, 3, 6, 7])?, attempt)
        }
        3 => {
            let prefix = Prefix::parse(row.try_get(5)?).ok_or_else(|| rows::damaged("prefix"))?;
            let phase = Phase::parse(row.try_get(7)?).ok_or_else(|| rows::damaged("phase"))?;
            let dep = Dep {
                id: TaskId { id: rows::id(row, 8)?, prefix },
                label: row.try_get(6)?,
                phase,
                removed: row.try_get::<_, Option<i64>>(3)?.is_some(),
                lease_expires_at: row.try_get::<_, Option<i64>>(4)?.map(Timestamp),
            };
            Part::Dep(row.try_get(2)?, dep)
        }
        _ => Part::Dependent(rows::id(row, 8)?),
    })
}
