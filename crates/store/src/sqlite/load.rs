//! Reads what `decide` needs, inside the transaction that will write.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::attempt::Attempt;
use callboard_domain::card::Card;
use callboard_domain::command::Command;
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::needs::{Needs, verify_key};
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::run::{OpenRuns, RunRecord};
use callboard_domain::task::{Dep, Dependent, Entry, Task, TaskRecord};
use callboard_domain::time::Timestamp;
use callboard_domain::world::{LastEntry, Subject, World};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::{cards, comments, crew, jobs, knowledge, org, pulls, rows, runs};

pub(super) fn world<'a>(
    db: &Connection,
    org: i64,
    actor: &'a Actor,
    policy: &'a Arc<Policy>,
    command: &Command,
) -> Result<World<'a>> {
    let needs = command.needs(actor);
    let attempt = match (&needs.attempt, &needs.attempt_by_key) {
        (Some(id), _) => attempt(db, org, *id)?,
        (None, Some((task, actor, key))) => attempt_by_key(db, org, *task, actor, key)?,
        (None, None) => None,
    };
    let comment = match needs.comment {
        Some(id) => comments::find(db, org, id)?,
        None => None,
    };
    let named_job = match needs.job {
        Some(id) => jobs::find(db, org, id)?,
        None => None,
    };
    let of_attempt = needs.attempt.and(attempt.as_ref()).map(|attempt| attempt.task);
    let of_comment = comment.as_ref().map(|comment| comment.task);
    let of_job = named_job.as_ref().and_then(|job| job.task);
    let subject_id = needs.task.or(of_attempt).or(of_comment).or(of_job);
    let subject = match subject_id {
        Some(id) => subject(db, org, id, &needs)?,
        None => None,
    };
    let verify_key = subject_id.filter(|_| needs.verify_job).map(verify_key);
    let job = match verify_key.as_ref().or(needs.job_key.as_ref()) {
        Some(key) => jobs::under_way(db, org, key)?,
        None => named_job,
    };
    let run = match (&needs.run_key, &subject) {
        (Some(key), _) => runs::of_key(db, org, key)?,
        (None, Some(subject)) if needs.run_of_task => runs::of_task(db, org, subject.task.id)?,
        _ => match job.as_ref().filter(|job| job.kind.is_run()) {
            Some(job) => runs::of_job(db, org, job.id)?,
            None => None,
        },
    };
    let (job, run) = match run {
        Some(RunRecord { job, run }) => (Some(job), Some(run)),
        None => (job, None),
    };
    let open_runs = if needs.open_runs { runs::open(db, org)? } else { OpenRuns::default() };
    let runs_here = match &needs.runs_on {
        Some((kind, machine)) => runs::count_on(db, *kind, machine)?,
        None => 0,
    };
    let mut named = Vec::with_capacity(needs.named.len());
    for id in &needs.named {
        named.extend(named_task(db, org, *id)?);
    }
    let mut edges = Vec::new();
    for id in &needs.ancestry_of {
        edges.extend(ancestry(db, *id)?);
    }
    let above = match needs.above {
        Some(id) => cards::above(db, id)?,
        None => Vec::new(),
    };
    let knowledge = match needs.knowledge {
        Some(id) => knowledge::find(db, org, id)?,
        None => None,
    };
    let pulls = match subject_id.filter(|_| needs.task_pulls) {
        Some(id) => pulls::of_task(db, id)?,
        None => Vec::new(),
    };
    let mut numbers = BTreeMap::new();
    for prefix in &needs.numbers {
        numbers.insert(*prefix, numbers_last(db, org, *prefix)?);
    }
    let org_rows = org::world(db, org, actor, &needs.org)?;
    Ok(World {
        policy,
        actor,
        subject,
        attempt,
        comment,
        job,
        named,
        ancestry: edges,
        knowledge,
        run,
        open_runs,
        runs_here,
        org: org_rows,
        above,
        crew: crew::world(db, org, &needs.crew)?,
        numbers,
        pulls_last: if needs.pulls { pulls::last(db, org)? } else { 0 },
        pulls,
    })
}

/// The newest number of a prefix. Removed tasks count: a number is never given twice.
fn numbers_last(db: &Connection, org: i64, prefix: Prefix) -> Result<u32> {
    db.prepare_cached("SELECT coalesce(max(number), 0) FROM tasks WHERE org = ?1 AND prefix = ?2")?
        .query_row(params![org, prefix.as_str()], |row| row.get(0))
}

fn subject(db: &Connection, org: i64, id: TaskId, needs: &Needs) -> Result<Option<Subject>> {
    let Some(task) = task(db, org, id)? else { return Ok(None) };
    Ok(Some(Subject {
        deps: deps(db, id)?,
        dependents: if needs.dependents { dependents(db, id)? } else { Vec::new() },
        newest: newest_attempt(db, &task)?,
        last_entry: if needs.last_entry { last_entry(db, id)? } else { None },
        blockers: if needs.blockers && task.open_blockers > 0 {
            comments::open_blockers(db, id)?
        } else {
            Vec::new()
        },
        card: if needs.card { cards::of_task(db, id)? } else { Card::default() },
        body: if needs.card { Some(cards::body_of(db, id)?) } else { None },
        scratchpad: if needs.scratchpad { cards::scratchpad_of(db, id)? } else { String::new() },
        task,
    }))
}

pub(super) fn task(db: &Connection, org: i64, id: TaskId) -> Result<Option<Task>> {
    let sql = format!(
        "SELECT {} FROM {} WHERE t.id = ?1 AND t.org = ?2 AND t.prefix = ?3 \
         AND t.removed_at IS NULL",
        rows::TASK,
        rows::TASK_FROM
    );
    db.prepare_cached(&sql)?
        .query_row(params![id.id.to_bytes(), org, id.prefix.as_str()], rows::task)
        .optional()
}

fn newest_attempt(db: &Connection, task: &Task) -> Result<Option<Attempt>> {
    let Some(newest) = task.newest_attempt else { return Ok(None) };
    let sql = format!(
        "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task \
         WHERE a.id = ?1",
        rows::ATTEMPT
    );
    db.prepare_cached(&sql)?.query_row([newest.0.to_bytes()], rows::attempt).optional()
}

pub(super) fn attempt(db: &Connection, org: i64, id: AttemptId) -> Result<Option<Attempt>> {
    let sql = format!(
        "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task WHERE a.id = ?1 AND t.org = ?2",
        rows::ATTEMPT
    );
    db.prepare_cached(&sql)?.query_row(params![id.0.to_bytes(), org], rows::attempt).optional()
}

fn attempt_by_key(
    db: &Connection,
    org: i64,
    task: TaskId,
    actor: &Actor,
    key: &str,
) -> Result<Option<Attempt>> {
    let sql = format!(
        "SELECT {} FROM attempts a JOIN tasks t ON t.id = a.task \
         WHERE a.task = ?1 AND a.actor = ?2 AND a.key = ?3 AND t.org = ?4",
        rows::ATTEMPT
    );
    db.prepare_cached(&sql)?
        .query_row(params![task.id.to_bytes(), actor.as_str(), key, org], rows::attempt)
        .optional()
}

pub(super) fn deps(db: &Connection, task: TaskId) -> Result<Vec<Dep>> {
    let sql = format!(
        "SELECT {} FROM deps JOIN tasks d ON d.id = deps.dep \
         WHERE deps.task = ?1 ORDER BY deps.position",
        rows::DEP
    );
    db.prepare_cached(&sql)?.query_map([task.id.to_bytes()], rows::dep)?.collect()
}

fn named_task(db: &Connection, org: i64, id: TaskId) -> Result<Option<Dep>> {
    let sql = format!(
        "SELECT {} FROM tasks d WHERE d.id = ?1 AND d.org = ?2 AND d.prefix = ?3",
        rows::DEP
    );
    db.prepare_cached(&sql)?
        .query_row(params![id.id.to_bytes(), org, id.prefix.as_str()], rows::dep)
        .optional()
}

fn dependents(db: &Connection, task: TaskId) -> Result<Vec<Dependent>> {
    let read = |row: &Row<'_>| {
        let phase = Phase::parse(row.get_ref(3)?.as_str()?);
        Ok(Dependent {
            id: rows::task_id(row, 0, 1)?,
            project: row.get(4)?,
            open_deps: row.get(2)?,
            phase: phase.unwrap_or(Phase::Initial),
        })
    };
    db.prepare_cached(
        "SELECT t.id, t.prefix, t.open_deps, t.phase, t.project FROM deps JOIN tasks t ON t.id = deps.task \
         WHERE deps.dep = ?1 AND t.removed_at IS NULL",
    )?
    .query_map([task.id.to_bytes()], read)?
    .collect()
}

/// Every edge that can be reached by following deps from `start`.
fn ancestry(db: &Connection, start: TaskId) -> Result<Vec<(TaskId, TaskId)>> {
    let read = |row: &Row<'_>| Ok((rows::task_id(row, 0, 1)?, rows::task_id(row, 2, 3)?));
    db.prepare_cached(
        "WITH RECURSIVE above (id) AS (
             SELECT ?1 UNION SELECT deps.dep FROM deps JOIN above ON deps.task = above.id)
         SELECT t.id, t.prefix, d.id, d.prefix
         FROM above JOIN deps ON deps.task = above.id
             JOIN tasks t ON t.id = deps.task JOIN tasks d ON d.id = deps.dep",
    )?
    .query_map([start.id.to_bytes()], read)?
    .collect()
}

fn last_entry(db: &Connection, task: TaskId) -> Result<Option<LastEntry>> {
    let read = |row: &Row<'_>| {
        Ok(LastEntry {
            did: row.get(0)?,
            has_text: row.get(1)?,
            attempt: row.get::<_, Option<[u8; 16]>>(2)?.map(|b| AttemptId(Id::from_bytes(b))),
        })
    };
    db.prepare_cached(
        "SELECT did, text IS NOT NULL, attempt FROM entries WHERE task = ?1 \
         ORDER BY number DESC LIMIT 1",
    )?
    .query_row([task.id.to_bytes()], read)
    .optional()
}

/// The record of one task: everything about it, with the newest part of its history.
pub(super) fn record(db: &Connection, org: i64, id: TaskId) -> Result<Option<TaskRecord>> {
    let Some(task) = task(db, org, id)? else { return Ok(None) };
    let deps = deps(db, id)?;
    record_of(db, org, task, deps).map(Some)
}

/// The record of a task whose row and deps are known already.
pub(super) fn record_of(
    db: &Connection,
    org: i64,
    task: Task,
    deps: Vec<Dep>,
) -> Result<TaskRecord> {
    let (body, execution_contract) = db
        .prepare_cached("SELECT body, execution_contract FROM bodies WHERE task = ?1")?
        .query_row([task.id.id.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .unwrap_or_default();
    let newest = match task.newest_attempt {
        Some(attempt_id) => attempt(db, org, attempt_id)?,
        None => None,
    };
    let entries = entries(db, task.id)?;
    Ok(TaskRecord { body, execution_contract, deps, entries, newest, task })
}

fn entries(db: &Connection, task: TaskId) -> Result<Vec<Entry>> {
    let read = |row: &Row<'_>| {
        let who = row.get_ref(0)?.as_str()?;
        Ok(Entry {
            who: who.parse().unwrap_or_else(|_| {
                "system:unknown".parse().expect("a constant actor is well formed")
            }),
            at: Timestamp(row.get(1)?),
            did: row.get(2)?,
            text: row.get(3)?,
        })
    };
    let shown = callboard_domain::limits::ENTRIES_SHOWN_MAX as i64;
    let mut entries: Vec<Entry> = db
        .prepare_cached(
            "SELECT who, at, did, text FROM entries WHERE task = ?1 ORDER BY number DESC LIMIT ?2",
        )?
        .query_map(params![task.id.to_bytes(), shown], read)?
        .collect::<Result<_>>()?;
    entries.reverse();
    Ok(entries)
}
