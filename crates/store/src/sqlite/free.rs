//! What somebody looking for work could start: tasks that nobody began, tasks that somebody gave
//! up, tasks whose lease is over. Each kind by its own index, so that the number of other tasks
//! does not matter.

use callboard_domain::standing::Standing;
use callboard_domain::task::TaskRow;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, Result};

use super::{read, rows};
use crate::FreeQuery;
use crate::filter::Value;

const UNTOUCHED: &str = "t.project = ?1 AND t.phase = 'initial' AND t.open_deps = 0 \
     AND t.assignee IS NULL AND t.is_plan = 0 AND t.removed_at IS NULL";
const GIVEN_UP: &str = "t.project = ?1 AND t.phase = 'working' AND t.open_deps = 0 \
     AND t.assignee IS NULL AND t.is_plan = 0 AND t.removed_at IS NULL \
     AND a.outcome IN ('canceled', 'expired', 'released')";
const LEASE_OVER: &str = "t.project = ?1 AND t.phase IN ('initial', 'working') \
     AND t.open_deps = 0 AND t.is_plan = 0 AND t.removed_at IS NULL \
     AND a.ended_at IS NULL AND a.lease_expires_at <= ?5";
const BELOW: &str = "t.id IN (WITH RECURSIVE below (id) AS (\
         SELECT id FROM tasks WHERE parent = ?4 \
         UNION SELECT c.id FROM tasks c JOIN below b ON c.parent = b.id) SELECT id FROM below)";

pub(super) fn tasks(
    db: &Connection,
    org: i64,
    query: &FreeQuery,
    now: Timestamp,
) -> Result<Vec<TaskRow>> {
    let projects = match query.project {
        Some(project) => vec![project],
        None => read::projects(db, org)?,
    };
    let mut found = Vec::new();
    for project in projects {
        for kind in [UNTOUCHED, GIVEN_UP, LEASE_OVER] {
            found.extend(leg(db, project, kind, query, now)?);
        }
    }
    found.retain(|row| Standing::of(&row.task, row.newest.as_ref(), now).is_free());
    found.sort_by_key(|row| (row.task.priority, row.task.id.id));
    found.truncate(query.limit);
    Ok(found)
}

fn leg(
    db: &Connection,
    project: i64,
    kind: &str,
    query: &FreeQuery,
    now: Timestamp,
) -> Result<Vec<TaskRow>> {
    // Where the join is by the newest attempt, the index on leases finds the task.
    let joined = if kind == LEASE_OVER { "JOIN" } else { "LEFT JOIN" };
    let below = query.below.map_or("1", |_| BELOW);
    let sql = format!(
        "SELECT {}, {} FROM {} {joined} attempts a ON a.id = t.newest_attempt \
         WHERE {kind} AND t.open_blockers = 0 AND t.priority <= ?3 AND {below} \
             AND (?4 IS NULL OR 1) AND (?5 IS NULL OR 1) \
         ORDER BY t.priority, t.id LIMIT ?2",
        rows::TASK,
        rows::ATTEMPT,
        rows::TASK_FROM,
    );
    let priority_max = query.priority_max.map_or(i64::from(u16::MAX), i64::from);
    let below = query.below.map_or(Value::Integer(0), |task| Value::Id(task.id));
    let values = vec![
        Value::Integer(project),
        Value::Integer(query.limit as i64),
        Value::Integer(priority_max),
        below,
        Value::Integer(now.0),
    ];
    read::task_rows(db, &sql, values)
}
