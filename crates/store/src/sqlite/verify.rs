//! Looks for damage. Each statement finds rows that must not exist.

use callboard_domain::ids::Id;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row};

use crate::Finding;
use crate::board::counts;

const RESTORE: &str = "restore a backup and report it";

/// Each violation with the statement that finds it, and the way out.
const RULES: &[(&str, &str, &str)] = &[
    (
        "open-deps counter differs from the deps",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.removed_at IS NULL AND t.open_deps <> (
             SELECT count(*) FROM deps JOIN tasks d ON d.id = deps.dep
             WHERE deps.task = t.id AND d.removed_at IS NULL
                 AND d.phase NOT IN ('closed_done', 'closed_canceled'))",
        RESTORE,
    ),
    (
        "a task's status differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.label <> (
             SELECT coalesce(e.data ->> 'to', e.data ->> 'status') FROM events e
             WHERE e.task = t.id AND e.name IN ('task.created', 'task.status_changed')
             ORDER BY e.seq DESC LIMIT 1)",
        RESTORE,
    ),
    (
        "a task's assignee differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.assignee IS NOT (
             SELECT iif(e.name = 'task.claimed', e.data ->> 'assignee', NULL) FROM events e
             WHERE e.task = t.id AND e.name IN
                 ('task.created', 'task.claimed', 'task.released', 'task.canceled',
                  'attempt.expired')
             ORDER BY e.seq DESC LIMIT 1)
         -- The events of a task that is older than the newest removed event may be gone.
         AND (t.created_at > (SELECT at FROM log_floor) OR EXISTS (
             SELECT 1 FROM events e WHERE e.task = t.id AND e.name IN
                 ('task.created', 'task.claimed', 'task.released', 'task.canceled',
                  'attempt.expired')))",
        RESTORE,
    ),
    (
        "an attempt's end differs from the event log",
        "SELECT a.id, 'att' FROM attempts a WHERE (a.ended_at IS NULL) = EXISTS (
             SELECT 1 FROM events e WHERE e.task = a.task AND e.attempt = a.id
                 AND e.name = 'attempt.ended')
         AND (a.ended_at IS NULL OR a.ended_at > (SELECT at FROM log_floor))",
        RESTORE,
    ),
    (
        "a task has other entries than it counts",
        "SELECT t.id, t.prefix FROM tasks t
         WHERE t.entries <> (SELECT count(*) FROM entries n WHERE n.task = t.id)",
        RESTORE,
    ),
    (
        "a task has other open blockers than it counts",
        "SELECT t.id, t.prefix FROM tasks t WHERE t.open_blockers <> (
             SELECT count(*) FROM comments c
             WHERE c.task = t.id AND c.kind = 'blocker' AND c.resolved_at IS NULL)",
        RESTORE,
    ),
    (
        "a task's block differs from the event log",
        "SELECT t.id, t.prefix FROM tasks t WHERE (t.blocked IS NOT NULL) <> (
             SELECT e.name = 'task.blocked' FROM events e
             WHERE e.task = t.id AND e.name IN ('task.blocked', 'task.unblocked')
             ORDER BY e.seq DESC LIMIT 1)",
        RESTORE,
    ),
    (
        "the event log has a gap",
        "SELECT max(e.seq) - min(f.floor) + 1 - count(*), ''
         FROM events e CROSS JOIN (SELECT seq AS floor FROM log_floor) f WHERE e.seq >= f.floor
         HAVING max(e.seq) - min(f.floor) + 1 <> count(*)",
        RESTORE,
    ),
    (
        "an org has other knowledge than it counts",
        "SELECT c.org, '' FROM knowledge_counts c WHERE c.entries <> (
             SELECT count(*) FROM knowledge k WHERE k.org = c.org AND k.number < c.entries)",
        RESTORE,
    ),
    (
        "an event speaks of a task that does not exist",
        "SELECT seq, '' FROM events WHERE task IS NOT NULL AND task NOT IN (SELECT id FROM tasks)",
        RESTORE,
    ),
    (
        "a task's checks cannot be read",
        "SELECT t.id, t.prefix FROM tasks t
         WHERE NOT json_valid(t.checks)",
        "give the task its checks again with callboard task edit",
    ),
];

/// What `callboard doctor` finds: up to 20 complaints of SQLite's own check, and up to 5 rows for each rule.
pub(crate) fn verify(db: &Connection) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let integrity: Vec<String> = db
        .prepare("PRAGMA integrity_check(20)")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    for line in integrity.iter().filter(|line| *line != "ok") {
        findings.push(Finding { what: line.clone(), fix: "restore a backup".into() });
    }
    let counts = counts::wrong_sql();
    let counts = ("a list counts other rows than it has", counts.as_str(), RESTORE);
    for (what, sql, fix) in RULES.iter().copied().chain([counts]) {
        let found: Vec<String> = db
            .prepare(&format!("{sql} LIMIT 5"))?
            .query_map([], culprit)?
            .collect::<Result<_>>()?;
        if !found.is_empty() {
            let what = format!("{what}: {}", found.join(", "));
            findings.push(Finding { what, fix: fix.into() });
        }
    }
    Ok(findings)
}

/// The name of the row that a rule found: an id with its prefix, or a number.
fn culprit(row: &Row<'_>) -> Result<String> {
    let prefix: String = row.get(1)?;
    Ok(match row.get(0)? {
        Value::Blob(bytes) => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => format!("{prefix}-{}", Id::from_bytes(bytes)),
            Err(_) => format!("{prefix}-?"),
        },
        Value::Integer(number) => format!("{prefix} {number}").trim_start().to_owned(),
        Value::Null | Value::Real(_) | Value::Text(_) => prefix,
    })
}
