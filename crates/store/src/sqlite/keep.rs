//! Writes the changed rows of a desk, and appends events with the next numbers of the log.

use std::collections::{BTreeMap, BTreeSet};

use callboard_domain::desk::{Desk, Rows, TaskRows, Touched};
use callboard_domain::event::{Event, LoggedEvent, step_of};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::runs::job::{Job, JobId};
use callboard_domain::runs::run::Run;
use callboard_domain::task::{Dependent, Task};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, Result, params};

use crate::kept::row_writes;
use crate::sqlite::board::cards;
use crate::sqlite::runs::deliveries;
use crate::sqlite::runs::jobs;
use crate::sqlite::task::comments;
use crate::sqlite::{files, knowledge, pulls, review, rows, runs};
use crate::table::attempt::{self, OUTPUTS};
use crate::table::entry::{self, ENTRIES};
use crate::table::{Values, event, job, run, task};

/// The rows of a desk as they were read, to compare with what a command made of them.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub tasks: BTreeMap<TaskId, Task>,
    pub jobs: BTreeMap<JobId, Job>,
    pub runs: BTreeMap<JobId, Run>,
}

/// Writes the changed rows of a desk. An attempt ends before the next one of its task begins, a job before the next one
/// with its key, and an edge is deleted before its place is taken.
pub(crate) fn rows(db: &Connection, org: i64, desk: &Desk, fetched: &Fetched) -> Result<()> {
    let Desk { rows, touched, .. } = desk;
    for write in row_writes(org, desk) {
        rows::write(db, &write)?;
    }
    let tasks = |ids: &BTreeSet<TaskId>| -> Vec<&TaskRows> {
        ids.iter().filter_map(|id| rows.tasks.get(id)).collect()
    };
    for TaskRows { task, removed_at, .. } in tasks(&touched.tasks_new) {
        rows::insert(db, &task::values(org, task, *removed_at), "")?;
    }
    for id in touched.tasks.difference(&touched.tasks_new) {
        if let Some(rows) = rows.tasks.get(id) {
            task_update(db, org, fetched.tasks.get(id), rows)?;
        }
    }
    for Dependent { id, open_deps, .. } in
        touched.open_deps.iter().filter_map(|id| rows.dependents.get(id))
    {
        db.prepare_cached("UPDATE tasks SET open_deps = ?2 WHERE id = ?1")?
            .execute(params![id.id.to_bytes(), open_deps])?;
    }
    for rows in tasks(&touched.bodies) {
        rows::insert(db, &task::body_values(rows), task::BODY_AGAIN)?;
    }
    for TaskRows { task, card, .. } in tasks(&touched.cards) {
        cards::put(db, task.id, card)?;
    }
    for TaskRows { task, scratchpad, .. } in tasks(&touched.scratchpads) {
        cards::scratchpad_put(db, task.id, scratchpad)?;
    }
    for (task, dep) in &touched.deps_gone {
        db.prepare_cached("DELETE FROM deps WHERE task = ?1 AND dep = ?2")?
            .execute([task.id.to_bytes(), dep.id.to_bytes()])?;
    }
    for ((task, dep), position) in &touched.deps_new {
        rows::insert(db, &task::dep_values(*task, *dep, *position), "")?;
    }
    review::write(db, org, touched)?;
    history(db, rows, touched)?;
    work(db, org, desk, fetched)?;
    for entry in &touched.knowledge_new {
        knowledge::insert(db, org, entry)?;
    }
    for (task, entry, kind) in &touched.edges {
        knowledge::link(db, *task, *entry, *kind)?;
    }
    for (entry, by) in &touched.superseded {
        knowledge::supersede(db, org, *entry, *by)?;
    }
    Ok(())
}

/// Attempts, comments and lines of history.
fn history(db: &Connection, rows: &Rows, touched: &Touched) -> Result<()> {
    let attempt = |id: &AttemptId| rows.attempts.get(id);
    let begun_before = touched.attempts.difference(&touched.attempts_new);
    for attempt in begun_before.filter_map(attempt) {
        rows::update(db, &attempt::values(attempt), "id", attempt::steps(attempt))?;
    }
    for attempt in touched.attempts_new.iter().filter_map(attempt) {
        rows::insert(db, &attempt::values(attempt), "")?;
    }
    for (attempt, output) in &touched.outputs {
        let again = OUTPUTS.again(&["attempt"]);
        rows::insert(db, &attempt::output_values(*attempt, output), &again)?;
    }
    for comment in touched.comments_new.iter().filter_map(|id| rows.comments.get(id)) {
        comments::insert(db, comment)?;
    }
    let said_before = touched.comments.difference(&touched.comments_new);
    for comment in said_before.filter_map(|id| rows.comments.get(id)) {
        comments::update(db, comment)?;
    }
    for (key @ (task, number), (entry, attempt)) in &touched.entries {
        let again = match touched.entries_again.contains(key) {
            true => ENTRIES.again(&["task", "number"]),
            false => String::new(),
        };
        rows::insert(db, &entry::values(*task, *number, entry, *attempt), &again)?;
    }
    Ok(())
}

/// Jobs with their runs, artifacts and deliveries, and pull requests.
fn work(db: &Connection, org: i64, desk: &Desk, fetched: &Fetched) -> Result<()> {
    let Desk { now, rows, touched } = desk;
    let job = |id: &JobId| rows.jobs.get(id);
    for job in touched.jobs.difference(&touched.jobs_new).filter_map(job) {
        let before = fetched.jobs.get(&job.id).map(|before| job::values(org, before));
        update(db, &job::values(org, job), before.as_ref(), "id", &job::STEPS)?;
    }
    for job in touched.jobs_new.iter().filter_map(job) {
        jobs::insert(db, org, job)?;
    }
    for job in touched.jobs_put.iter().filter_map(job) {
        jobs::put(db, org, job)?;
    }
    for (run, task) in
        touched.runs_new.iter().filter_map(|(id, task)| Some((rows.runs.get(id)?, task)))
    {
        runs::insert(db, org, run, *task)?;
    }
    let known = touched.runs.iter().filter(|id| !touched.runs_new.contains_key(id));
    for run in known.filter_map(|id| rows.runs.get(id)) {
        let before = fetched.runs.get(&run.job).map(|before| run::values(org, before, None));
        update(db, &run::values(org, run, None), before.as_ref(), "job", &run::STEPS)?;
    }
    for (name, bytes) in &touched.files_new {
        files::insert_small(db, org, name, bytes, *now)?;
    }
    for delivery in &touched.deliveries_new {
        deliveries::insert(db, org, delivery)?;
    }
    for (job, tried) in &touched.deliveries_tried {
        deliveries::tried(db, *job, tried)?;
    }
    for pull in &touched.pulls {
        pulls::put(db, org, pull)?;
    }
    Ok(())
}

fn task_update(
    db: &Connection,
    org: i64,
    before: Option<&Task>,
    TaskRows { task, removed_at, .. }: &TaskRows,
) -> Result<()> {
    let before = before.map(|before| task::values(org, before, None));
    update(db, &task::values(org, task, *removed_at), before.as_ref(), "id", &task::STEPS)
}

/// Writes those of these columns that changed and no others: SQLite rewrites every index whose columns an UPDATE names,
/// whether their values differ or not.
fn update(
    db: &Connection,
    after: &Values<'_>,
    before: Option<&Values<'_>>,
    key: &str,
    columns: &[&str],
) -> Result<()> {
    let Some(before) = before else { return rows::update(db, after, key, columns) };
    let changed = after.changed(before, columns);
    if changed.is_empty() { Ok(()) } else { rows::update_cells(db, after, key, &changed) }
}

/// Appends events after `last_seq`. Only one transaction writes at a time, so numbers have no gaps.
pub(crate) fn append_events(
    db: &Connection,
    org: i64,
    events: Vec<Event>,
    now: Timestamp,
    last_seq: &mut u64,
) -> Result<Vec<LoggedEvent>> {
    let mut logged = Vec::with_capacity(events.len());
    // Only the newest step of a job is its version.
    let mut steps: BTreeMap<JobId, u64> = BTreeMap::new();
    for Event { actor, name, about, data } in events {
        *last_seq += 1;
        let event = LoggedEvent { seq: *last_seq, at: now, actor, name, about, data };
        rows::insert(db, &event::values(org, &event), "")?;
        steps.extend(step_of(event.name, &event.data).map(|job| (job, event.seq)));
        logged.push(event);
    }
    for (job, seq) in steps {
        runs::number(db, job, seq)?;
    }
    Ok(logged)
}
