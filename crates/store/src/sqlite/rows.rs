//! Conversions between rows and domain types. Column lists stand beside the functions that read them.

use callboard_domain::actor::Actor;
use callboard_domain::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Lease};
use callboard_domain::event::{About, EventName, LoggedEvent};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::task::{Dep, Task};
use callboard_domain::time::Timestamp;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Result, Row};
use serde::de::DeserializeOwned;

pub(super) const TASK: &str = "t.id, t.prefix, t.project, t.title, t.label, t.phase, t.priority, \
     t.assignee, t.parent, p.prefix, t.is_plan, t.checks, t.open_deps, t.fence, \
     t.newest_attempt, t.entries, t.created_at, t.updated_at, t.contract, t.verification, \
     t.open_blockers, t.phase_at, t.blocked, t.number";
pub(super) const TASK_FROM: &str = "tasks t LEFT JOIN tasks p ON p.id = t.parent";
pub(super) const TASK_COLUMNS: usize = 24;

pub(super) const ATTEMPT: &str = "a.id, a.task, t.prefix, a.kind, a.fence, a.actor, a.key, \
     a.client, a.model, a.worktree, a.branch, a.head_started, a.started_at, a.heartbeat_at, \
     a.progress, a.lease_s, a.lease_expires_at, a.ended_at, a.outcome, a.words, a.head_finished";

pub(super) const DEP: &str = "d.id, d.prefix, d.label, d.phase, d.removed_at IS NOT NULL, \
     (SELECT l.lease_expires_at FROM attempts l WHERE l.task = d.id AND l.ended_at IS NULL)";
pub(super) const DEP_COLUMNS: usize = 6;

pub(super) const EVENT: &str =
    "e.seq, e.at, e.actor, e.name, e.project, e.task, t.prefix, e.attempt, e.data";

/// The error for a value that violates the schema: the row is damaged, the caller is not at fault.
pub(super) fn damaged(column: usize, what: &'static str) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, FromSqlError::Other(what.into()).into())
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Result<Id> {
    row.get::<_, [u8; 16]>(column).map(Id::from_bytes)
}

pub(super) fn optional_id(row: &Row<'_>, column: usize) -> Result<Option<Id>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Id::from_bytes))
}

pub(super) fn task_id(row: &Row<'_>, id_column: usize, prefix_column: usize) -> Result<TaskId> {
    let prefix = row.get_ref(prefix_column)?.as_str()?;
    let prefix = Prefix::parse(prefix).ok_or_else(|| damaged(prefix_column, "prefix"))?;
    Ok(TaskId { id: id(row, id_column)?, prefix })
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    row.get(column).map(Timestamp)
}

pub(super) fn actor(row: &Row<'_>, column: usize) -> Result<Actor> {
    row.get_ref(column)?.as_str()?.parse().map_err(|_| damaged(column, "actor"))
}

pub(super) fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| serde_json::from_str(text).map_err(|_| damaged(column, what))).transpose()
}

fn phase(row: &Row<'_>, column: usize) -> Result<Phase> {
    Phase::parse(row.get_ref(column)?.as_str()?).ok_or_else(|| damaged(column, "phase"))
}

pub(super) fn task(row: &Row<'_>) -> Result<Task> {
    let assignee = match row.get_ref(7)?.as_str_or_null()? {
        None => None,
        Some(_) => Some(actor(row, 7)?),
    };
    let parent = match optional_id(row, 8)? {
        None => None,
        Some(_) => Some(task_id(row, 8, 9)?),
    };
    let checks = match row.get_ref(11)?.as_str()? {
        "[]" => Vec::new(),
        text => serde_json::from_str(text).map_err(|_| damaged(11, "checks"))?,
    };
    Ok(Task {
        id: task_id(row, 0, 1)?,
        project: row.get(2)?,
        title: row.get(3)?,
        label: row.get(4)?,
        phase: phase(row, 5)?,
        priority: row.get(6)?,
        assignee,
        parent,
        is_plan: row.get(10)?,
        checks,
        open_deps: row.get(12)?,
        fence: row.get::<_, i64>(13)? as u64,
        newest_attempt: optional_id(row, 14)?.map(AttemptId),
        entries: row.get(15)?,
        created_at: time(row, 16)?,
        updated_at: time(row, 17)?,
        contract: json(row, 18, "contract")?,
        verification: json(row, 19, "verification")?,
        open_blockers: row.get(20)?,
        phase_at: time(row, 21)?,
        blocked: json(row, 22, "blocked")?,
        number: row.get(23)?,
    })
}

/// The attempt whose columns follow the task's, when the join found one.
pub(super) fn attempt_beside_task(row: &Row<'_>) -> Result<Option<Attempt>> {
    match optional_id(row, TASK_COLUMNS)? {
        None => Ok(None),
        Some(_) => attempt_from(row, TASK_COLUMNS).map(Some),
    }
}

pub(super) fn attempt(row: &Row<'_>) -> Result<Attempt> {
    attempt_from(row, 0)
}

fn attempt_from(row: &Row<'_>, first: usize) -> Result<Attempt> {
    let at = |offset: usize| first + offset;
    let kind = row.get_ref(at(3))?.as_str()?;
    Ok(Attempt {
        id: AttemptId(id(row, at(0))?),
        task: task_id(row, at(1), at(2))?,
        kind: AttemptKind::parse(kind).ok_or_else(|| damaged(at(3), "kind"))?,
        fence: row.get::<_, i64>(at(4))? as u64,
        actor: actor(row, at(5))?,
        key: row.get(at(6))?,
        client: row.get(at(7))?,
        model: row.get(at(8))?,
        worktree: row.get(at(9))?,
        branch: row.get(at(10))?,
        head_started: row.get(at(11))?,
        started_at: time(row, at(12))?,
        state: attempt_state(row, first)?,
    })
}

fn attempt_state(row: &Row<'_>, first: usize) -> Result<AttemptState> {
    let at = |offset: usize| first + offset;
    let Some(ended_at) = row.get::<_, Option<i64>>(at(17))? else {
        let lease = match (row.get(at(15))?, row.get::<_, Option<i64>>(at(16))?) {
            (Some(granted_s), Some(expires)) => {
                Some(Lease { granted_s, expires_at: Timestamp(expires) })
            }
            _ => None,
        };
        let heartbeat_at = time(row, at(13))?;
        return Ok(AttemptState::Live { heartbeat_at, progress: row.get(at(14))?, lease });
    };
    let words: Option<String> = row.get(at(19))?;
    let end = match row.get_ref(at(18))?.as_str()? {
        "finished" => {
            AttemptEnd::Finished { summary: words.unwrap_or_default(), head: row.get(at(20))? }
        }
        "canceled" => AttemptEnd::Canceled { reason: words.unwrap_or_default() },
        "released" => AttemptEnd::Released,
        "expired" => AttemptEnd::Expired,
        _ => return Err(damaged(at(18), "outcome")),
    };
    Ok(AttemptState::Ended { at: Timestamp(ended_at), end })
}

pub(super) fn dep(row: &Row<'_>) -> Result<Dep> {
    Ok(Dep {
        id: task_id(row, 0, 1)?,
        label: row.get(2)?,
        phase: phase(row, 3)?,
        removed: row.get(4)?,
        lease_expires_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

pub(super) fn event(row: &Row<'_>) -> Result<LoggedEvent> {
    let data = row.get_ref(8)?.as_str()?;
    Ok(LoggedEvent {
        seq: row.get::<_, i64>(0)? as u64,
        at: time(row, 1)?,
        actor: actor(row, 2)?,
        name: EventName::parse(row.get_ref(3)?.as_str()?).ok_or_else(|| damaged(3, "event"))?,
        about: match row.get(4)? {
            Some(project) => Some(About {
                project,
                task: task_id(row, 5, 6)?,
                attempt: optional_id(row, 7)?.map(AttemptId),
            }),
            None => None,
        },
        data: serde_json::from_str(data).map_err(|_| damaged(8, "event data"))?,
    })
}
