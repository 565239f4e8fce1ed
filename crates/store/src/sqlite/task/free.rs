//! Tasks that an actor looking for work could start: untouched ones, ones that were given up, ones whose lease is
//! over. Each kind has its own index, so that the number of other tasks does not matter.

use callboard_domain::task::TaskRow;
use callboard_domain::task::standing::Standing;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, Result};

use crate::FreeQuery;
use crate::sqlite::read;
use crate::table::attempt::ATTEMPT;
use crate::table::task::{TASK, TASKS_BY_ID};
use crate::task::filter::Value;

// Each condition implies the WHERE of its partial index (`tasks_free`, `tasks_left`, `attempts_by_lease`). SQLite uses
// such an index only then; the test below asks the planner.
const UNTOUCHED: &str = "t.project = ?1 AND t.phase = 'initial' AND t.open_deps = 0 \
     AND t.assignee IS NULL AND t.is_plan = 0 AND t.removed_at IS NULL AND t.blocked IS NULL";
/// Begun, and let go without an end of the task. The last attempt is over, or the task would still be held.
const GIVEN_UP: &str = "t.project = ?1 AND t.phase = 'working' AND t.open_deps = 0 \
     AND t.assignee IS NULL AND t.is_plan = 0 AND t.removed_at IS NULL AND t.blocked IS NULL \
     AND a.outcome IS NOT NULL";
/// Held by an attempt whose lease is over, and that no sweep has ended yet.
const LEASE_OVER: &str = "t.project = ?1 AND t.phase IN ('initial', 'working') \
     AND t.open_deps = 0 AND t.is_plan = 0 AND t.removed_at IS NULL AND t.blocked IS NULL \
     AND a.ended_at IS NULL AND a.lease_expires_at <= ?4";
/// Tasks in the order of an index, each with its newest attempt.
const TASKS: &str = "tasks t LEFT JOIN tasks p ON p.id = t.parent \
     LEFT JOIN attempts a ON a.id = t.newest_attempt";
/// The tasks below a plan or epic, at any depth. UNION, not UNION ALL, also ends on a circle of parents.
const BELOW: &str = "t.id IN (WITH RECURSIVE below (id) AS (\
         SELECT id FROM tasks WHERE parent = ?5 \
         UNION SELECT c.id FROM tasks c JOIN below b ON c.parent = b.id) SELECT id FROM below)";

pub(crate) fn tasks(
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
    // The SQL only finds candidates; the rule is the domain's.
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
    // Priorities end at 1000, so this bound excludes none.
    let priority_max = query.priority_max.map_or(i64::from(u16::MAX), i64::from);
    let mut values = vec![
        Value::Integer(project),
        Value::Integer(query.limit as i64),
        Value::Integer(priority_max),
        Value::Integer(now.0),
    ];
    values.extend(query.below.map(|task| Value::Id(task.id)));
    read::task_rows(db, &sql(kind, query.below.is_some()), values)
}

/// The statement of one leg. Every leg has the same values; not every one uses the time.
fn sql(kind: &str, below: bool) -> String {
    // Other indexes of tasks fit these conditions, too, and hold tasks that an actor has.
    let index = match kind {
        UNTOUCHED if !below => "tasks t INDEXED BY tasks_free",
        GIVEN_UP if !below => "tasks t INDEXED BY tasks_left",
        _ => "tasks t",
    };
    let from = match kind {
        // From the few leases that are over to their tasks; a CROSS JOIN keeps that order.
        LEASE_OVER => format!(
            "attempts a CROSS JOIN {TASKS_BY_ID} ON t.id = a.task AND t.newest_attempt = a.id \
             LEFT JOIN tasks p ON p.id = t.parent"
        ),
        _ => TASKS.replacen("tasks t", index, 1),
    };
    let below = if below { BELOW } else { "1" };
    format!(
        "SELECT {}, {} FROM {from} \
         WHERE {kind} AND t.open_blockers = 0 AND t.priority <= ?3 AND {below} AND ?4 IS NOT NULL \
         ORDER BY t.priority, t.id LIMIT ?2",
        TASK, ATTEMPT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema;
    use crate::sqlite::turnstile::Turnstile;

    #[test]
    fn every_kind_is_found_by_its_own_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        schema::migrate(&mut db, &path, &turnstile).expect("migrates");
        for (kind, index) in
            [(UNTOUCHED, "tasks_free"), (GIVEN_UP, "tasks_left"), (LEASE_OVER, "attempts_by_lease")]
        {
            let explain = format!("EXPLAIN QUERY PLAN {}", sql(kind, false));
            let mut plan = db.prepare(&explain).expect("a plan");
            let steps: Vec<String> = plan
                .query_map([1, 5, 1000, 1], |row| row.get(3))
                .and_then(Iterator::collect)
                .expect("steps");
            let first = steps.first().map(String::as_str).unwrap_or_default();
            assert!(first.contains(&format!("USING INDEX {index}")), "{steps:#?}");
        }
    }
}
