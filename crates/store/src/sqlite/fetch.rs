//! Reads what `decide` needs, inside the transaction that will write.

use std::sync::LazyLock;

use callboard_domain::actor::Actor;
use callboard_domain::desk::{EntryRow, Rows, TaskRows};
use callboard_domain::ids::{AttemptId, Prefix, TaskId};
use callboard_domain::limits::ENTRIES_SHOWN_MAX;
use callboard_domain::needs::{Needs, verify_key};
use callboard_domain::runs::job::Job;
use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Dep, Dependent, Task, TaskRecord};
use callboard_domain::time::Timestamp;
use callboard_domain::world::Reply;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::sqlite::board::cards;
use crate::sqlite::board::org;
use crate::sqlite::runs::jobs;
use crate::sqlite::task::comments;
use crate::sqlite::{crew, knowledge, pulls, review, runs};
use crate::table::Cells;
use crate::table::attempt::{self, ATTEMPT};
use crate::table::entry::{self, ENTRY};
use crate::table::task::{self, DEP, DEPENDENT, TASK, TASK_FROM};

/// The rows that a command needs.
pub(crate) fn rows(db: &Connection, org: i64, actor: &Actor, needs: &Needs) -> Result<Rows> {
    let mut rows = Rows {
        pulls_last: if needs.pulls { pulls::last(db, org)? } else { 0 },
        org: org::rows(db, org, actor, &needs.org)?,
        crew: crew::rows(db, org, &needs.crew)?,
        above: match needs.above {
            Some(id) => cards::above(db, id)?,
            None => Vec::new(),
        },
        ..Rows::default()
    };
    for id in &needs.named {
        named(db, org, *id, &mut rows)?;
    }
    for id in &needs.ancestry_of {
        rows.ancestry.extend(ancestry(db, *id)?);
    }
    for prefix in &needs.numbers {
        rows.numbers.insert(*prefix, numbers_last(db, org, *prefix)?);
    }
    for (project, reference) in &needs.references {
        if let Some(task) = task_by_reference(db, org, *project, reference)? {
            rows.references.insert((*project, reference.clone()), task);
        }
    }
    if let Some(id) = needs.knowledge {
        rows.knowledge.extend(knowledge::find(db, org, id)?.map(|entry| (id, entry)));
    }
    let attempt = match (&needs.attempt, &needs.attempt_by_key) {
        (Some(id), _) => attempt(db, org, *id)?,
        (None, Some((task, actor, key))) => attempt_by_key(db, org, *task, actor, key)?,
        (None, None) => None,
    };
    let comment = match needs.comment {
        Some(id) => comments::find(db, org, id)?,
        None => None,
    };
    let job = match needs.job {
        Some(id) => jobs::find(db, org, id)?,
        None => None,
    };
    let subject = needs.subject(attempt.as_ref(), comment.as_ref(), job.as_ref());
    if let Some(comment) = &comment
        && Some(comment.task) != subject
    {
        named(db, org, comment.task, &mut rows)?;
    }
    rows.attempts.extend(attempt.map(|attempt| (attempt.id, attempt)));
    rows.comments.extend(comment.map(|comment| (comment.id, comment)));
    if let Some(id) = subject {
        around(db, org, id, needs, &mut rows)?;
        if needs.drafts {
            let drafts = review::drafts(db, id, actor)?;
            rows.drafts.extend(drafts.into_iter().map(|draft| (draft.id, draft)));
        }
    }
    work(db, org, needs, subject, job, &mut rows)?;
    Ok(rows)
}

/// The jobs and runs that a command needs. `named` is the job that it names.
fn work(
    db: &Connection,
    org: i64,
    needs: &Needs,
    subject: Option<TaskId>,
    named: Option<Job>,
    rows: &mut Rows,
) -> Result<()> {
    let verify_key = subject.filter(|_| needs.verify_job).map(verify_key);
    let of_key = match verify_key.as_ref().or(needs.job_key.as_ref()) {
        Some(key) => jobs::under_way(db, org, key)?,
        None => None,
    };
    let run = match (&needs.run_key, subject.filter(|_| needs.run_of_task)) {
        (Some(key), _) => runs::of_key(db, org, key)?,
        (None, Some(task)) => runs::of_task(db, org, task)?,
        (None, None) => match named.as_ref().filter(|job| job.kind.is_run()) {
            Some(job) => runs::of_job(db, org, job.id)?,
            None => None,
        },
    };
    rows.jobs.extend(named.into_iter().chain(of_key).map(|job| (job.id, job)));
    if let Some(RunRecord { job, run }) = run {
        rows.jobs.insert(job.id, job);
        rows.runs.insert(run.job, run);
    }
    Ok(())
}

/// A task of which the row alone is needed.
fn named(db: &Connection, org: i64, id: TaskId, rows: &mut Rows) -> Result<()> {
    let Some((task, removed_at)) = task_row(db, org, id)? else { return Ok(()) };
    let newest = newest_attempt(db, &task)?;
    rows.attempts.extend(newest.map(|attempt| (attempt.id, attempt)));
    rows.tasks.entry(id).or_insert_with(|| TaskRows::of(task, removed_at));
    Ok(())
}

/// The subject of a command, with the rows around it that the command needs.
fn around(db: &Connection, org: i64, id: TaskId, needs: &Needs, rows: &mut Rows) -> Result<()> {
    let Some(mut task) = with_deps(db, org, id, rows)? else { return Ok(()) };
    if needs.dependents {
        for dependent in dependents(db, id)? {
            task.dependents.push(dependent.id);
            rows.dependents.insert(dependent.id, dependent);
        }
        task.dependents.sort_unstable();
    }
    if needs.last_entry {
        task.entries = entries(db, id, 1)?;
    }
    if needs.blockers && task.task.open_blockers > 0 {
        let open = comments::open_blockers(db, id)?;
        rows.comments.extend(open.into_iter().map(|comment| (comment.id, comment)));
    }
    if needs.card {
        task.card = cards::of_task(db, id)?;
        (task.body, task.execution_contract) = body(db, id)?;
    }
    if needs.scratchpad {
        task.scratchpad = cards::scratchpad_of(db, id)?;
    }
    if needs.task_pulls {
        rows.pulls = pulls::of_task(db, id)?;
    }
    rows.tasks.insert(id, task);
    Ok(())
}

/// A task that is not removed, with its deps; its newest attempt and the facts about its deps go into `rows`.
fn with_deps(db: &Connection, org: i64, id: TaskId, rows: &mut Rows) -> Result<Option<TaskRows>> {
    let Some((task, None)) = task_row(db, org, id)? else { return Ok(None) };
    let newest = newest_attempt(db, &task)?;
    rows.attempts.extend(newest.map(|attempt| (attempt.id, attempt)));
    let mut task = TaskRows::of(task, None);
    for (position, dep) in placed_deps(db, id)? {
        task.deps.push((position, dep.id));
        rows.deps.insert(dep.id, dep);
    }
    Ok(Some(task))
}

/// The rows that the answer to a command needs besides. Rows that the command inserts are not in the database yet.
pub(crate) fn for_reply(
    db: &Connection,
    org: i64,
    reply: Reply,
    subject: Option<TaskId>,
    rows: &mut Rows,
) -> Result<()> {
    match reply {
        Reply::Task(id) => {
            if Some(id) != subject
                && let Some(task) = with_deps(db, org, id, rows)?
            {
                rows.tasks.insert(id, task);
            }
            if let Some(task) = rows.tasks.get_mut(&id) {
                (task.body, task.execution_contract) = body(db, id)?;
                task.entries = entries(db, id, ENTRIES_SHOWN_MAX)?;
            }
        }
        Reply::Attempt(id) if !rows.attempts.contains_key(&id) => {
            rows.attempts.extend(attempt(db, org, id)?.map(|attempt| (id, attempt)));
        }
        Reply::Comment(id) if !rows.comments.contains_key(&id) => {
            if let Some(comment) = comments::find(db, org, id)? {
                named(db, org, comment.task, rows)?;
                rows.comments.insert(id, comment);
            }
        }
        Reply::Job(id) if !rows.jobs.contains_key(&id) => {
            rows.jobs.extend(jobs::find(db, org, id)?.map(|job| (id, job)));
        }
        Reply::Run(id) if !rows.runs.contains_key(&id) => {
            if let Some(RunRecord { job, run }) = runs::of_job(db, org, id)? {
                rows.jobs.entry(id).or_insert(job);
                rows.runs.insert(id, run);
            }
        }
        Reply::Knowledge(id) if !rows.knowledge.contains_key(&id) => {
            rows.knowledge.extend(knowledge::find(db, org, id)?.map(|entry| (id, entry)));
        }
        Reply::Project(id) if !rows.org.projects.contains_key(&id) => {
            rows.org.projects.extend(org::project(db, org, id)?.map(|project| (id, project)));
        }
        Reply::Plan(id) if !rows.org.plans.contains_key(&id) => {
            rows.org.plans.extend(org::plan(db, org, id)?.map(|plan| (id, plan)));
        }
        Reply::Mail(id) if !rows.crew.mails.iter().any(|mail| mail.id == id) => {
            rows.crew.mails.extend(crew::mail(db, org, id)?.map(|seen| seen.mail));
        }
        Reply::Attempt(_)
        | Reply::Comment(_)
        | Reply::Job(_)
        | Reply::Run(_)
        | Reply::Knowledge(_)
        | Reply::Project(_)
        | Reply::Plan(_)
        | Reply::Mail(_)
        | Reply::Settings
        | Reply::Decision(_)
        | Reply::Noted => {}
    }
    Ok(())
}

/// The newest number of a prefix. Removed tasks count: a number is never given twice.
fn numbers_last(db: &Connection, org: i64, prefix: Prefix) -> Result<u32> {
    db.prepare_cached("SELECT coalesce(max(number), 0) FROM tasks WHERE org = ?1 AND prefix = ?2")?
        .query_row(params![org, prefix.as_str()], |row| row.get(0))
}

/// The task of a project that was imported under a name.
fn task_by_reference(
    db: &Connection,
    org: i64,
    project: i64,
    reference: &str,
) -> Result<Option<TaskId>> {
    db.prepare_cached(
        "SELECT id, prefix FROM tasks \
         WHERE org = ?1 AND project = ?2 AND reference = ?3 AND removed_at IS NULL",
    )?
    .query_row(params![org, project, reference], |row| row.reader().task())
    .optional()
}

pub(crate) fn task(db: &Connection, org: i64, id: TaskId) -> Result<Option<Task>> {
    let found = task_row(db, org, id)?.filter(|(_, removed_at)| removed_at.is_none());
    Ok(found.map(|(task, _)| task))
}

/// Whether the org has the task, and it is not removed.
pub(crate) fn has_task(db: &Connection, org: i64, id: TaskId) -> Result<bool> {
    db.prepare_cached(
        "SELECT t.removed_at IS NULL FROM tasks t WHERE t.id = ?1 AND t.org = ?2 AND t.prefix = ?3",
    )?
    .query_row(params![id.id.to_bytes(), org, id.prefix.as_str()], |row| row.get(0))
    .optional()
    .map(Option::unwrap_or_default)
}

/// A task, and when it was removed.
fn task_row(db: &Connection, org: i64, id: TaskId) -> Result<Option<(Task, Option<Timestamp>)>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {TASK}, t.removed_at FROM {TASK_FROM} \
             WHERE t.id = ?1 AND t.org = ?2 AND t.prefix = ?3"
        )
    });
    let read = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((task::read(&mut row)?, row.time_if()?))
    };
    db.prepare_cached(&SQL)?
        .query_row(params![id.id.to_bytes(), org, id.prefix.as_str()], read)
        .optional()
}

fn attempt_row(row: &Row<'_>) -> Result<Attempt> {
    attempt::read(&mut row.reader())
}

fn newest_attempt(db: &Connection, task: &Task) -> Result<Option<Attempt>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {ATTEMPT} FROM attempts a JOIN tasks t ON t.id = a.task WHERE a.id = ?1")
    });
    let Some(newest) = task.newest_attempt else { return Ok(None) };
    db.prepare_cached(&SQL)?.query_row([newest.0.to_bytes()], attempt_row).optional()
}

pub(crate) fn attempt(db: &Connection, org: i64, id: AttemptId) -> Result<Option<Attempt>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {ATTEMPT} FROM attempts a JOIN tasks t ON t.id = a.task \
             WHERE a.id = ?1 AND t.org = ?2"
        )
    });
    db.prepare_cached(&SQL)?.query_row(params![id.0.to_bytes(), org], attempt_row).optional()
}

fn attempt_by_key(
    db: &Connection,
    org: i64,
    task: TaskId,
    actor: &Actor,
    key: &str,
) -> Result<Option<Attempt>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {ATTEMPT} FROM attempts a JOIN tasks t ON t.id = a.task \
             WHERE a.task = ?1 AND a.actor = ?2 AND a.key = ?3 AND t.org = ?4"
        )
    });
    db.prepare_cached(&SQL)?
        .query_row(params![task.id.to_bytes(), actor.as_str(), key, org], attempt_row)
        .optional()
}

pub(crate) fn deps(db: &Connection, task: TaskId) -> Result<Vec<Dep>> {
    Ok(placed_deps(db, task)?.into_iter().map(|(_, dep)| dep).collect())
}

/// The deps of a task with their positions, in this order.
fn placed_deps(db: &Connection, task: TaskId) -> Result<Vec<(i32, Dep)>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT deps.position, {DEP} FROM deps JOIN tasks d ON d.id = deps.dep \
             WHERE deps.task = ?1 ORDER BY deps.position"
        )
    });
    let read = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((row.count()?, task::read_dep(&mut row)?))
    };
    db.prepare_cached(&SQL)?.query_map([task.id.to_bytes()], read)?.collect()
}

fn dependents(db: &Connection, task: TaskId) -> Result<Vec<Dependent>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {DEPENDENT} FROM deps JOIN tasks t ON t.id = deps.task \
             WHERE deps.dep = ?1 AND t.removed_at IS NULL"
        )
    });
    let read = |row: &Row<'_>| task::read_dependent(&mut row.reader());
    db.prepare_cached(&SQL)?.query_map([task.id.to_bytes()], read)?.collect()
}

/// Every edge that can be reached by following deps from `start`.
fn ancestry(db: &Connection, start: TaskId) -> Result<Vec<(TaskId, TaskId)>> {
    let read = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((row.task()?, row.task()?))
    };
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

/// The record of one task: everything about it, with the newest part of its history.
pub(crate) fn record(db: &Connection, org: i64, id: TaskId) -> Result<Option<TaskRecord>> {
    let Some(task) = task(db, org, id)? else { return Ok(None) };
    let (body, execution_contract) = body(db, id)?;
    Ok(Some(TaskRecord {
        body,
        execution_contract,
        deps: deps(db, id)?,
        entries: entries(db, id, ENTRIES_SHOWN_MAX)?.into_iter().map(|row| row.entry).collect(),
        newest: newest_attempt(db, &task)?,
        task,
    }))
}

/// The body of a task, and its execution contract.
fn body(db: &Connection, task: TaskId) -> Result<(String, Option<String>)> {
    db.prepare_cached("SELECT body, execution_contract FROM bodies WHERE task = ?1")?
        .query_row([task.id.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map(Option::unwrap_or_default)
}

/// The newest lines of a task's history, oldest first.
fn entries(db: &Connection, task: TaskId, limit: usize) -> Result<Vec<EntryRow>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {ENTRY} FROM entries WHERE task = ?1 ORDER BY number DESC LIMIT ?2")
    });
    let mut entries: Vec<EntryRow> = db
        .prepare_cached(&SQL)?
        .query_map(params![task.id.to_bytes(), limit as i64], |row| entry::read(&mut row.reader()))?
        .collect::<Result<_>>()?;
    entries.reverse();
    Ok(entries)
}
