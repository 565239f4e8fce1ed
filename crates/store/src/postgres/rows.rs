//! Conversions between rows and domain types. Column lists stand beside the functions that read them.

use callboard_domain::actor::Actor;
use callboard_domain::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Lease};
use callboard_domain::event::{About, EventName, LoggedEvent};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::task::{Entry, Task};
use callboard_domain::time::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use super::errors::Trouble;
use crate::StoreError;

type Result<T> = std::result::Result<T, Trouble>;

pub(super) const TASK: &str = "t.id, t.prefix, t.project, t.title, t.label, t.phase, t.priority, \
     t.assignee, t.parent, p.prefix, t.is_plan, t.checks, t.open_deps, t.fence, \
     t.newest_attempt, t.entries, t.created_at, t.updated_at, t.contract, t.verification, \
     t.open_blockers, t.phase_at, t.blocked, t.number";
pub(super) const TASK_FROM: &str = "tasks t LEFT JOIN tasks p ON p.id = t.parent";
pub(super) const TASK_COLUMNS: usize = 24;

pub(super) const ATTEMPT: &str = "a.id, a.task, t.prefix, a.kind, a.fence, a.actor, a.key, \
     a.client, a.model, a.worktree, a.branch, a.head_started, a.started_at, a.heartbeat_at, \
     a.progress, a.lease_s, a.lease_expires_at, a.ended_at, a.outcome, a.words, a.head_finished";
pub(super) const ATTEMPT_COLUMNS: usize = 21;

pub(super) const EVENT: &str =
    "e.seq, e.at, e.actor, e.name, e.project, e.task, t.prefix, e.attempt, e.data";

pub(super) fn uuid(id: Id) -> Uuid {
    Uuid::from_u128(id.0)
}

/// The error for a value that violates the schema: the row is damaged, the caller is not at fault.
pub(super) fn damaged(what: &str) -> Trouble {
    StoreError::Corrupt(format!("a row is damaged: its {what} cannot be read")).into()
}

pub(super) fn id(row: &Row, column: usize) -> Result<Id> {
    Ok(Id(row.try_get::<_, Uuid>(column)?.as_u128()))
}

pub(super) fn optional_id(row: &Row, column: usize) -> Result<Option<Id>> {
    Ok(row.try_get::<_, Option<Uuid>>(column)?.map(|id| Id(id.as_u128())))
}

pub(super) fn task_id(row: &Row, id_column: usize, prefix_column: usize) -> Result<TaskId> {
    let prefix = Prefix::parse(row.try_get(prefix_column)?).ok_or_else(|| damaged("prefix"))?;
    Ok(TaskId { id: id(row, id_column)?, prefix })
}

pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp> {
    Ok(Timestamp(row.try_get(column)?))
}

pub(super) fn actor(row: &Row, column: usize) -> Result<Actor> {
    row.try_get::<_, &str>(column)?.parse().map_err(|_| damaged("actor"))
}

fn phase(row: &Row, column: usize) -> Result<Phase> {
    Phase::parse(row.try_get(column)?).ok_or_else(|| damaged("phase"))
}

/// Reads an unsigned number. PostgreSQL has none; the schema's CHECKs keep the range.
pub(super) fn count<T: TryFrom<i32>>(row: &Row, column: usize) -> Result<T> {
    T::try_from(row.try_get::<_, i32>(column)?).map_err(|_| damaged("count"))
}

pub(super) fn json<T: DeserializeOwned>(row: &Row, column: usize, what: &str) -> Result<Option<T>> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| serde_json::from_str(text).map_err(|_| damaged(what))).transpose()
}

pub(super) fn task(row: &Row) -> Result<Task> {
    let assignee = match row.try_get::<_, Option<&str>>(7)? {
        None => None,
        Some(_) => Some(actor(row, 7)?),
    };
    let parent = match optional_id(row, 8)? {
        None => None,
        Some(_) => Some(task_id(row, 8, 9)?),
    };
    let checks = match row.try_get(11)? {
        "[]" => Vec::new(),
        text => serde_json::from_str(text).map_err(|_| damaged("checks"))?,
    };
    Ok(Task {
        id: task_id(row, 0, 1)?,
        project: row.try_get(2)?,
        title: row.try_get(3)?,
        label: row.try_get(4)?,
        phase: phase(row, 5)?,
        priority: count(row, 6)?,
        assignee,
        parent,
        is_plan: row.try_get(10)?,
        checks,
        open_deps: count(row, 12)?,
        fence: row.try_get::<_, i64>(13)? as u64,
        newest_attempt: optional_id(row, 14)?.map(AttemptId),
        entries: count(row, 15)?,
        created_at: time(row, 16)?,
        updated_at: time(row, 17)?,
        contract: json(row, 18, "contract")?,
        verification: json(row, 19, "verification")?,
        open_blockers: count(row, 20)?,
        phase_at: time(row, 21)?,
        blocked: json(row, 22, "blocked")?,
        number: count(row, 23)?,
    })
}

/// The attempt whose columns follow the task's, when the join found one.
pub(super) fn attempt_beside_task(row: &Row) -> Result<Option<Attempt>> {
    match optional_id(row, TASK_COLUMNS)? {
        None => Ok(None),
        Some(_) => attempt_from(row, TASK_COLUMNS).map(Some),
    }
}

pub(super) fn attempt(row: &Row) -> Result<Attempt> {
    attempt_from(row, 0)
}

fn attempt_from(row: &Row, first: usize) -> Result<Attempt> {
    let at = |offset: usize| first + offset;
    Ok(Attempt {
        id: AttemptId(id(row, at(0))?),
        task: task_id(row, at(1), at(2))?,
        kind: AttemptKind::parse(row.try_get(at(3))?).ok_or_else(|| damaged("kind"))?,
        fence: row.try_get::<_, i64>(at(4))? as u64,
        actor: actor(row, at(5))?,
        key: row.try_get(at(6))?,
        client: row.try_get(at(7))?,
        model: row.try_get(at(8))?,
        worktree: row.try_get(at(9))?,
        branch: row.try_get(at(10))?,
        head_started: row.try_get(at(11))?,
        started_at: time(row, at(12))?,
        state: attempt_state(row, first)?,
    })
}

fn attempt_state(row: &Row, first: usize) -> Result<AttemptState> {
    let at = |offset: usize| first + offset;
    let Some(ended_at) = row.try_get::<_, Option<i64>>(at(17))? else {
        let lease = match row.try_get::<_, Option<i64>>(at(16))? {
            None => None,
            Some(expires) => {
                Some(Lease { granted_s: count(row, at(15))?, expires_at: Timestamp(expires) })
            }
        };
        let heartbeat_at = time(row, at(13))?;
        return Ok(AttemptState::Live { heartbeat_at, progress: row.try_get(at(14))?, lease });
    };
    let words: Option<String> = row.try_get(at(19))?;
    let end = match row.try_get(at(18))? {
        "finished" => {
            AttemptEnd::Finished { summary: words.unwrap_or_default(), head: row.try_get(at(20))? }
        }
        "canceled" => AttemptEnd::Canceled { reason: words.unwrap_or_default() },
        "released" => AttemptEnd::Released,
        "expired" => AttemptEnd::Expired,
        _ => return Err(damaged("outcome")),
    };
    Ok(AttemptState::Ended { at: Timestamp(ended_at), end })
}

/// Reads an entry from the columns of actor, time, action and text.
pub(super) fn entry(row: &Row, [who, at, did, text]: [usize; 4]) -> Result<Entry> {
    let who = row.try_get::<_, &str>(who)?.parse();
    Ok(Entry {
        who: who
            .unwrap_or_else(|_| "system:unknown".parse().expect("a constant actor is well formed")),
        at: time(row, at)?,
        did: row.try_get(did)?,
        text: row.try_get(text)?,
    })
}

pub(super) fn event(row: &Row) -> Result<LoggedEvent> {
    Ok(LoggedEvent {
        seq: row.try_get::<_, i64>(0)? as u64,
        at: time(row, 1)?,
        actor: actor(row, 2)?,
        name: EventName::parse(row.try_get(3)?).ok_or_else(|| damaged("event name"))?,
        about: match row.try_get(4)? {
            Some(project) => Some(About {
                project,
                task: task_id(row, 5, 6)?,
                attempt: optional_id(row, 7)?.map(AttemptId),
            }),
            None => None,
        },
        data: serde_json::from_str(row.try_get(8)?).map_err(|_| damaged("event data"))?,
    })
}
