//! Tasks, with their bodies and deps.

use callboard_domain::desk::TaskRows;
use callboard_domain::ids::{AttemptId, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Check, Dep, Dependent, Task};
use callboard_domain::time::Timestamp;

use super::cell::table;
use super::{Cells, RowReader, attempt, json};

/// The columns of a task `t` with its parent `p`.
pub(crate) const TASK: &str = "t.id, t.prefix, t.number, t.project, t.reference, t.title, t.label, t.phase, \
     t.phase_at, t.priority, t.assignee, t.parent, p.prefix, t.is_plan, t.checks, t.contract, \
     t.verification, t.blocked, t.open_blockers, t.open_deps, t.fence, t.newest_attempt, \
     t.entries, t.created_at, t.updated_at";
/// The parent is joined for its prefix, which its id needs.
pub(crate) const TASK_FROM: &str = "tasks t LEFT JOIN tasks p ON p.id = t.parent";
/// Tasks `t` that a join finds by their ids, for SQLite. Without the name of the index SQLite may go through all tasks of a
/// project for each row of the other table.
pub(crate) const TASKS_BY_ID: &str = "tasks t INDEXED BY sqlite_autoindex_tasks_1";

/// Tasks `t` that a join finds by their ids, for either database.
pub(crate) fn tasks_by_id(sign: char) -> &'static str {
    if sign == '?' { TASKS_BY_ID } else { "tasks t" }
}

/// Reads the columns of `TASK`, in their order.
pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Task, R::Error> {
    Ok(Task {
        id: row.task()?,
        number: row.count()?,
        project: row.int()?,
        reference: row.text_if()?,
        title: row.text()?,
        label: row.text()?,
        phase: row.word("phase", Phase::parse)?,
        phase_at: row.time()?,
        priority: row.count()?,
        assignee: row.actor_if()?,
        parent: row.task_if()?,
        is_plan: row.flag()?,
        checks: row.word("checks", checks)?,
        contract: row.json_if("contract")?,
        verification: row.json_if("verification")?,
        blocked: row.json_if("blocked")?,
        open_blockers: row.count()?,
        open_deps: row.count()?,
        fence: row.count()?,
        newest_attempt: row.id_if()?.map(AttemptId),
        entries: row.count()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

/// Most tasks have no checks, and need no parser.
fn checks(text: &str) -> Option<Vec<Check>> {
    if text == "[]" { Some(Vec::new()) } else { serde_json::from_str(text).ok() }
}

/// Reads a task, and its newest attempt from the columns behind it.
pub(crate) fn read_with_attempt<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<(Task, Option<Attempt>), R::Error> {
    Ok((read(row)?, attempt::read_if(row)?))
}

table! {
    TASKS = "tasks";
    /// `removed_at` hides a task from lists and lookups. The row stays, so its number is never given to another task.
    fn values(org: i64, task: &'a Task, removed_at: Option<Timestamp>) {
        id: task.id,
        prefix: task.id.prefix.as_str(),
        org: org,
        project: task.project,
        title: &task.title,
        label: &task.label,
        phase: task.phase.as_str(),
        priority: task.priority,
        assignee: task.assignee.as_ref(),
        parent: task.parent,
        is_plan: task.is_plan,
        checks: if task.checks.is_empty() { "[]".into() } else { json(&task.checks) },
        contract: task.contract.as_ref().map(json),
        verification: task.verification.as_ref().map(json),
        open_blockers: task.open_blockers,
        // A count instead of a join: the partial indexes `tasks_free` and `tasks_startable` need it in the row.
        open_deps: task.open_deps,
        // Rises with every attempt; a unique index on (task, fence) of attempts forbids a second use.
        fence: task.fence,
        newest_attempt: task.newest_attempt,
        // The number of the newest line of history.
        entries: task.entries,
        created_at: task.created_at,
        updated_at: task.updated_at,
        removed_at: removed_at,
        phase_at: task.phase_at,
        blocked: task.blocked.as_ref().map(json),
        number: task.number,
        reference: &task.reference,
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 20] = [
    // `id`, `prefix`, `number`, `reference` and `created_at` are missing here: they identify the task for good.
    "project",
    "parent",
    "title",
    "label",
    "phase",
    "phase_at",
    "priority",
    "assignee",
    "is_plan",
    "checks",
    "contract",
    "verification",
    "blocked",
    "open_blockers",
    "open_deps",
    "fence",
    "newest_attempt",
    "entries",
    "updated_at",
    "removed_at",
];

table! {
    BODIES = "bodies";
    fn body_values(rows: &'a TaskRows) {
        task: rows.task.id,
        body: &rows.body,
        // Bodies stand apart from tasks, because a list reads many tasks and no body.
        execution_contract: &rows.execution_contract,
    }
}

/// An execution contract never changes.
pub(crate) const BODY_AGAIN: &str = "ON CONFLICT (task) DO UPDATE SET body = excluded.body";

table! {
    DEPS = "deps";
    /// `position` keeps the order in which the caller named the deps. A unique index allows each dep once.
    fn dep_values(task: TaskId, dep: TaskId, position: i32) {
        task: task,
        position: position,
        dep: dep,
    }
}

/// The columns of a dep `d`.
/// The subquery finds at most one row: the index `attempts_live` allows one live attempt for each task.
pub(crate) const DEP: &str = "d.removed_at, d.prefix, d.label, d.phase, d.id, \
     (SELECT l.lease_expires_at FROM attempts l WHERE l.task = d.id AND l.ended_at IS NULL)";

/// A dep with as much of it as a refusal shows; its lease says whether it is being worked on.
pub(crate) fn read_dep<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Dep, R::Error> {
    let removed = row.time_if()?.is_some();
    let prefix = row.word("prefix", Prefix::parse)?;
    let (label, phase) = (row.text()?, row.word("phase", Phase::parse)?);
    let id = TaskId { id: row.id()?, prefix };
    Ok(Dep { id, label, phase, removed, lease_expires_at: row.time_if()? })
}

/// The columns of a dependent `t`.
pub(crate) const DEPENDENT: &str = "t.id, t.prefix, t.project, t.open_deps, t.phase";

/// A task that depends on the subject, with the columns that the end of the subject changes.
pub(crate) fn read_dependent<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Dependent, R::Error> {
    Ok(Dependent {
        id: row.task()?,
        project: row.int()?,
        open_deps: row.count()?,
        phase: Phase::parse(row.str()?).unwrap_or(Phase::Initial),
    })
}
