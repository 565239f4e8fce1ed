//! Tasks that an actor looking for work could start: untouched ones, ones that were given up, ones whose lease is
//! over. Each kind has its own index, so that the number of other tasks does not matter; below a plan the statement
//! walks down from it.

use crate::postgres::db::Db;
use callboard_domain::task::TaskRow;
use callboard_domain::task::standing::Standing;
use callboard_domain::time::Timestamp;
use tokio_postgres::types::ToSql;

use crate::FreeQuery;
use crate::postgres::errors::Result;
use crate::postgres::read;
use crate::postgres::rows::uuid;
use crate::postgres::task::front::{self, Front, Fronts};
use crate::table::attempt::ATTEMPT;
use crate::table::task::TASK;

/// Conditions on tasks `t`, each beside its newest attempt `a`.
const UNTOUCHED: &str = "t.phase = 'initial' AND t.open_deps = 0 AND t.assignee IS NULL \
     AND NOT t.is_plan AND t.removed_at IS NULL AND t.blocked IS NULL";
const LEFT: &str = "t.phase = 'working' AND t.open_deps = 0 AND t.assignee IS NULL \
     AND NOT t.is_plan AND t.removed_at IS NULL AND t.blocked IS NULL";
const GIVEN_UP: &str = "a.outcome IS NOT NULL";
const LEASED: &str = "t.phase IN ('initial', 'working') AND t.open_deps = 0 AND NOT t.is_plan \
     AND t.removed_at IS NULL AND t.blocked IS NULL";
const LEASE_OVER: &str =
    "a.ended_at IS NULL AND a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= $4";
const WANTED: &str = "t.open_blockers = 0 AND t.priority <= $3";
const IN_PROJECT: &str = "t.org = $1 AND ($2::bigint IS NULL OR t.project = $2)";

/// Projects of an org up to this many are asked one by one, each from its front.
const PROJECTS_MAX: usize = 8;

pub(crate) async fn tasks(
    db: &Db,
    org: i64,
    query: &FreeQuery,
    fronts: &Fronts,
    now: Timestamp,
) -> Result<Vec<TaskRow>> {
    let projects = match (query.project, query.below) {
        (_, Some(_)) => Vec::new(),
        (Some(project), None) => vec![project],
        (None, None) => projects(db, org).await?,
    };
    if projects.is_empty() || projects.len() > PROJECTS_MAX {
        return leg(db, org, query, None, now).await;
    }
    let mut free = Vec::new();
    for project in projects {
        let front = fronts.of(db, project).await?;
        let query = FreeQuery { project: Some(project), ..query.clone() };
        free.extend(leg(db, org, &query, Some((project, front)), now).await?);
    }
    free.sort_by_key(|row| (row.task.priority, row.task.id.id));
    free.truncate(query.limit);
    Ok(free)
}

/// The projects of an org; one more than are asked one by one.
async fn projects(db: &Db, org: i64) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM projects WHERE org = $1 ORDER BY id LIMIT $2";
    let found = read::all(db, sql, &[&org, &(PROJECTS_MAX as i64 + 1)]).await?;
    found.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn leg(
    db: &Db,
    org: i64,
    query: &FreeQuery,
    front: Option<(i64, Front)>,
    now: Timestamp,
) -> Result<Vec<TaskRow>> {
    let priority_max = query.priority_max.map_or(i32::from(u16::MAX), i32::from);
    let plan = query.below.map(|task| uuid(task.id));
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&org, &query.project, &priority_max, &now.0];
    // A literal limit, which the planner knows, keeps it from reading whole tables.
    let best = format!("ORDER BY t.priority, t.id LIMIT {}", query.limit);
    let found = match (&plan, &front) {
        (Some(plan), _) => {
            values.push(plan);
            by_plan(&best)
        }
        (None, Some((project, front))) => {
            values.extend(front.values(project));
            by_kind(&best, &untouched_at_front(&best))
        }
        (None, None) => by_kind(&best, &untouched(&best)),
    };
    // Each found task is looked up by itself: a join could be planned as a scan of all tasks.
    let sql = format!(
        "WITH RECURSIVE {found} SELECT {}, {} \
         FROM found f CROSS JOIN LATERAL (SELECT t.* FROM tasks t WHERE t.id = f.id OFFSET 0) t \
             LEFT JOIN tasks p ON p.id = t.parent \
             LEFT JOIN attempts a ON a.id = t.newest_attempt {best}",
        TASK, ATTEMPT
    );
    let mut free = read::task_rows(db, &sql, &values).await?;
    free.retain(|row| Standing::of(&row.task, row.newest.as_ref(), now).is_free());
    Ok(free)
}

/// The best few of each kind. Leases that are over are few, so each looks up its task; `OFFSET 0` makes the planner
/// do it that way.
fn by_kind(best: &str, untouched: &str) -> String {
    format!(
        "found (id) AS (
             SELECT k.id FROM projects j CROSS JOIN LATERAL (
                 {untouched}
                 UNION ALL
                 (SELECT t.id FROM tasks t JOIN attempts a ON a.id = t.newest_attempt
                  WHERE t.project = j.id AND {LEFT} AND {GIVEN_UP} AND {WANTED} {best})) k
             WHERE j.org = $1 AND ($2::bigint IS NULL OR j.id = $2)
             UNION
             (SELECT t.id FROM attempts a CROSS JOIN LATERAL (
                  SELECT t.id, t.priority FROM tasks t
                  WHERE t.id = a.task AND t.newest_attempt = a.id AND {LEASED} AND {WANTED}
                      AND {IN_PROJECT} OFFSET 0) t
              WHERE {LEASE_OVER} {best}))"
    )
}

fn untouched(best: &str) -> String {
    format!("(SELECT t.id FROM tasks t WHERE t.project = j.id AND {UNTOUCHED} AND {WANTED} {best})")
}

/// As `untouched`, without a walk over the tasks that were taken (`front.rs`).
fn untouched_at_front(best: &str) -> String {
    let (near, behind) = (front::near(5), front::behind(8));
    format!(
        "(SELECT t.id FROM ({near}) n CROSS JOIN LATERAL (
              SELECT t.* FROM tasks t WHERE t.id = n.id OFFSET 0) t
          WHERE t.project = j.id AND {UNTOUCHED} AND {WANTED} {best})
         UNION ALL
         (SELECT t.id FROM tasks t
          WHERE t.project = j.id AND {UNTOUCHED} AND {WANTED} AND {behind} {best})"
    )
}

fn by_plan(best: &str) -> String {
    format!(
        "below (id) AS (
             SELECT id FROM tasks WHERE parent = $5::uuid
             UNION SELECT c.id FROM tasks c JOIN below b ON c.parent = b.id),
         found (id) AS (
             SELECT t.id FROM below b JOIN tasks t ON t.id = b.id
                 LEFT JOIN attempts a ON a.id = t.newest_attempt
             WHERE ({UNTOUCHED} OR {LEFT} AND {GIVEN_UP} OR {LEASED} AND {LEASE_OVER})
                 AND {WANTED} AND {IN_PROJECT} {best})"
    )
}
