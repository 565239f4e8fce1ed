//! Looks for damage. Each statement finds rows that must not exist, all in one snapshot.

use callboard_domain::ids::TaskId;
use callboard_domain::task::Check;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::Finding;
use crate::board::counts;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::{log, read};
use crate::table::Cells;

const RESTORE: &str = "restore a backup and report it";

/// Each violation with the statement that finds it: an id, and its prefix or a number.
const RULES: &[(&str, &str)] = &[
    (
        "open-deps counter differs from the deps",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.removed_at IS NULL AND t.open_deps <> (
             SELECT count(*) FROM deps JOIN tasks d ON d.id = deps.dep
             WHERE deps.task = t.id AND d.removed_at IS NULL
                 AND d.phase NOT IN ('closed_done', 'closed_canceled'))",
    ),
    (
        "a task's status differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.label <> (
             SELECT coalesce(e.data::json ->> 'to', e.data::json ->> 'status') FROM events e
             WHERE e.task = t.id AND e.name IN ('task.created', 'task.status_changed')
             ORDER BY e.seq DESC LIMIT 1)",
    ),
    (
        "a task's assignee differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.assignee IS DISTINCT FROM (
             SELECT CASE WHEN e.name = 'task.claimed' THEN e.data::json ->> 'assignee' END
             FROM events e WHERE e.task = t.id AND e.name IN
                 ('task.created', 'task.claimed', 'task.released', 'task.canceled',
                  'attempt.expired')
             ORDER BY e.seq DESC LIMIT 1)
         -- The events of a task that is older than the newest removed event may be gone.
         AND (t.created_at > (SELECT at FROM log_floor) OR EXISTS (
             SELECT 1 FROM events e WHERE e.task = t.id AND e.name IN
                 ('task.created', 'task.claimed', 'task.released', 'task.canceled',
                  'attempt.expired')))",
    ),
    (
        "an attempt's end differs from the event log",
        "SELECT a.id, 'att' FROM attempts a WHERE (a.ended_at IS NULL) = EXISTS (
             SELECT 1 FROM events e WHERE e.task = a.task AND e.attempt = a.id
                 AND e.name = 'attempt.ended')
         AND (a.ended_at IS NULL OR a.ended_at > (SELECT at FROM log_floor))",
    ),
    (
        "a task has other entries than it counts",
        "SELECT t.id, t.prefix FROM tasks t
         WHERE t.entries <> (SELECT count(*) FROM entries n WHERE n.task = t.id)",
    ),
    (
        "a task has other open blockers than it counts",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.open_blockers <> (
             SELECT count(*) FROM comments c
             WHERE c.task = t.id AND c.kind = 'blocker' AND c.resolved_at IS NULL)",
    ),
    (
        "a task's block differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE (t.blocked IS NOT NULL) <> (
             SELECT e.name = 'task.blocked' FROM events e
             WHERE e.task = t.id AND e.name IN ('task.blocked', 'task.unblocked')
             ORDER BY e.seq DESC LIMIT 1)",
    ),
    (
        "the event log has a gap",
        "SELECT NULL::uuid, (max(e.seq) - min(f.floor) + 1 - count(*))::text
         FROM events e CROSS JOIN (SELECT seq AS floor FROM log_floor) f WHERE e.seq >= f.floor
         HAVING max(e.seq) - min(f.floor) + 1 <> count(*)",
    ),
    (
        "an org has other knowledge than it counts",
        "SELECT NULL::uuid, c.org::text FROM knowledge_counts c WHERE c.entries <> (
             SELECT count(*) FROM knowledge k WHERE k.org = c.org AND k.number < c.entries)",
    ),
    (
        "events never got their numbers",
        "SELECT NULL::uuid, b.id::text FROM log_parked b WHERE pg_visible_in_snapshot(b.xid,
             (SELECT seen FROM log_steps ORDER BY id DESC LIMIT 1))",
    ),
    (
        "an event speaks of a task that does not exist",
        "SELECT NULL::uuid, seq::text FROM events e
         WHERE e.task IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = e.task)",
    ),
];

pub(crate) async fn verify(snapshot: &Db) -> Result<Vec<Finding>> {
    // Compiling these statements takes longer than running them.
    snapshot.batch_execute("SET LOCAL jit = off").await?;
    let mut findings = Vec::new();
    let events = format!("FROM {} e", log::events(snapshot).await?);
    let counts = format!(
        "SELECT NULL::uuid, wrong.state || ' ' || wrong.scope FROM ({}) AS wrong (scope, state)",
        counts::wrong_sql()
    );
    let counts = ("a list counts other rows than it has", counts.as_str());
    for (what, sql) in RULES.iter().copied().chain([counts]) {
        let sql = sql.replace("FROM events e", &events);
        let rows = read::all(snapshot, &format!("{sql} LIMIT 5"), &[]).await?;
        let found: Vec<String> = rows.iter().map(culprit).collect::<Result<_>>()?;
        if !found.is_empty() {
            let what = format!("{what}: {}", found.join(", "));
            findings.push(Finding { what, fix: RESTORE.into() });
        }
    }
    let unreadable = unreadable_checks(snapshot).await?;
    if !unreadable.is_empty() {
        findings.push(Finding {
            what: format!("a task's checks cannot be read: {}", unreadable.join(", ")),
            fix: "give the task its checks again with callboard task edit".into(),
        });
    }
    Ok(findings)
}

/// The name of the row that a rule found: an id with its prefix, or a number.
fn culprit(row: &Row) -> Result<String> {
    let text: String = row.try_get(1)?;
    Ok(match row.id_at(0)? {
        Some(id) => format!("{text}-{id}"),
        None => text,
    })
}

/// Tasks whose checks are no JSON. Read page by page, because PostgreSQL before 16 cannot test a text for JSON.
async fn unreadable_checks(db: &Db) -> Result<Vec<String>> {
    const PAGE: usize = 1000;
    let mut unreadable = Vec::new();
    let mut after = Uuid::nil();
    loop {
        let page = read::all(
            db,
            "SELECT id, prefix, checks FROM tasks WHERE id > $1 AND checks <> '[]' \
             ORDER BY id LIMIT $2",
            &[&after, &(PAGE as i64)],
        )
        .await?;
        for row in &page {
            after = row.try_get(0)?;
            if serde_json::from_str::<Vec<Check>>(row.try_get(2)?).is_err() {
                let id: TaskId = row.reader().task()?;
                unreadable.push(id.to_string());
            }
        }
        if page.len() < PAGE || unreadable.len() >= 5 {
            return Ok(unreadable);
        }
    }
}
