//! Where the free tasks of a project begin. The best free tasks are at the front of their index, and so are the
//! entries of tasks that were taken. PostgreSQL removes such entries soon, unless an old snapshot is held: a list then
//! walked over every task that was taken since, 40 ms after 160,000 of them.
//!
//! A process therefore remembers the first free tasks of a project with the snapshot that showed them. A later list
//! looks at these tasks, at those that became free since (`ready_log`), and at the index behind the last of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read;

/// How many tasks are remembered; a usual page has fewer.
const KNOWN: usize = 64;
/// How long a list relies on a front before it looks for the front again. It walks over the tasks that were taken
/// meanwhile.
const FRESH: Duration = Duration::from_millis(500);
/// How long a front counts: `ready_log` keeps what came since.
const OLD: Duration = Duration::from_secs(10 * 60);
/// How long rows of `ready_log` are kept at least.
const KEPT: Duration = Duration::from_secs(20 * 60);

type Value<'a> = &'a (dyn ToSql + Sync);

/// The first free tasks of a project.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    found: Instant,
    /// The snapshot in which they were the first ones.
    seen: Option<String>,
    known: Vec<Uuid>,
    /// Every other free task was behind this place.
    priority: i32,
    id: Uuid,
}

impl Front {
    /// Nothing is known: every free task is behind this front.
    fn unknown() -> Self {
        let (found, id) = (Instant::now(), Uuid::nil());
        Self { found, seen: None, known: Vec::new(), priority: -1, id }
    }

    /// The values of `near`.
    pub fn near<'a>(&'a self, project: &'a i64) -> [Value<'a>; 3] {
        [project, &self.known, &self.seen]
    }

    /// The values of `behind`.
    pub fn behind(&self) -> [Value<'_>; 2] {
        [&self.priority, &self.id]
    }

    /// The values of `near` and then those of `behind`.
    pub fn values<'a>(&'a self, project: &'a i64) -> Vec<Value<'a>> {
        [&self.near(project)[..], &self.behind()[..]].concat()
    }
}

/// The ids of the tasks that stand before the end of a front, or might. `first` is the place of its first value.
pub(crate) fn near(first: usize) -> String {
    let [project, known, seen] = [first, first + 1, first + 2];
    format!(
        "SELECT unnest(${known}::uuid[]) AS id
         UNION SELECT r.task FROM ready_log r WHERE r.project = ${project}::bigint
             AND r.xid >= pg_snapshot_xmax(${seen}::text::pg_snapshot)
         UNION SELECT r.task FROM ready_log r WHERE r.project = ${project}
             AND r.xid = ANY (ARRAY(SELECT pg_snapshot_xip(${seen}::text::pg_snapshot)))"
    )
}

/// The condition for tasks `t` behind a front. `first` is the place of its first value.
pub(crate) fn behind(first: usize) -> String {
    format!("(t.priority, t.id) > (${first}::integer, ${}::uuid)", first + 1)
}

/// The conditions of the index of free tasks.
const FREE: &str = "t.project = $1 AND t.phase = 'initial' AND t.open_deps = 0 \
     AND t.assignee IS NULL AND NOT t.is_plan AND t.removed_at IS NULL AND t.blocked IS NULL";

/// The fronts that this process knows, by project.
#[derive(Default)]
pub(crate) struct Fronts {
    known: Mutex<HashMap<i64, Front>>,
    /// A time and the oldest transaction that was under way then.
    kept: Mutex<Option<(Instant, String)>>,
}

impl Fronts {
    /// The front of a project.
    pub async fn of(&self, db: &Db, project: i64) -> Result<Front> {
        let known = self.known().get(&project).cloned();
        let old = match known {
            Some(front) if front.found.elapsed() < FRESH => return Ok(front),
            Some(front) if front.found.elapsed() < OLD => front,
            _ => Front::unknown(),
        };
        let front = find(db, project, &old).await?;
        self.known().insert(project, front.clone());
        self.prune(db, &front).await?;
        Ok(front)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Front>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the rows of `ready_log` that no front needs any more.
    async fn prune(&self, db: &Db, front: &Front) -> Result<()> {
        let Some(oldest) = front.seen.as_ref().and_then(|seen| seen.split(':').next()) else {
            return Ok(());
        };
        let due = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            match &*kept {
                Some((since, _)) if since.elapsed() < KEPT => None,
                _ => kept.replace((Instant::now(), oldest.to_owned())).map(|(_, xid)| xid),
            }
        };
        if let Some(xid) = due {
            let sql = "DELETE FROM ready_log WHERE xid < $1::text::xid8";
            read::one(db, sql, &[&xid]).await?;
        }
        Ok(())
    }
}

/// Looks for the front, from an older one on.
async fn find(db: &Db, project: i64, old: &Front) -> Result<Front> {
    let best = format!("ORDER BY t.priority, t.id LIMIT {KNOWN}");
    let (near, behind) = (near(1), behind(4));
    let sql = format!(
        "SELECT pg_current_snapshot()::text, f.priority, f.id FROM (SELECT 1) AS one LEFT JOIN (
             SELECT t.priority, t.id FROM (
                 (SELECT t.priority, t.id FROM ({near}) n CROSS JOIN LATERAL (
                      SELECT t.* FROM tasks t WHERE t.id = n.id OFFSET 0) t
                  WHERE {FREE} {best})
                 UNION
                 (SELECT t.priority, t.id FROM tasks t WHERE {FREE} AND {behind} {best})) t
             {best}) f ON true
         ORDER BY f.priority, f.id"
    );
    let rows = read::all(db, &sql, &old.values(&project)).await?;
    let mut front = Front { found: Instant::now(), ..Front::unknown() };
    for row in &rows {
        front.seen = row.try_get(0)?;
        if let Some(id) = row.try_get(2)? {
            front.known.push(id);
            (front.priority, front.id) = (row.try_get(1)?, id);
        }
    }
    if front.known.len() < KNOWN {
        // There are no others.
        (front.priority, front.id) = (i32::MAX, Uuid::max());
    }
    Ok(front)
}
