//! Tasks on the board: the newest, and one with its history, the epic it is part of and the tasks that
//! are part of it. Reads only.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::Job;
use callboard_domain::task::attempt::ExecutionState;
use callboard_domain::task::{Check, CheckKind, Task, TaskRecord, TaskRow};
use callboard_engine::{At, Engine, EngineError, EpicTask, TaskFilter};
use maud::{Markup, html};

use super::{Page, Tab, time};
use crate::task_name;

const TASKS_SHOWN_MAX: usize = 200;

pub(super) async fn list(page: Page) -> Response {
    let filter =
        TaskFilter { newest_first: true, limit: TASKS_SHOWN_MAX + 1, ..TaskFilter::default() };
    match page.engine.task_list(&page.op(), filter).await {
        Ok(rows) => {
            let content = html! { div #tasks data-live { (task_table(&page.engine, &rows)) } };
            page.answer(Tab::Tasks, StatusCode::OK, Tab::Tasks.title(), &content).await
        }
        Err(error) => page.failure(Tab::Tasks, &error).await,
    }
}

pub(super) async fn show(page: Page, Path(id): Path<String>) -> Response {
    let found = match task_name::task_of(&page.engine, &page.op(), &id).await {
        Ok(Some(id)) => looked_at(&page, id).await,
        Ok(None) => Err(Refusal::TaskNotFound { task: "no such id".into() }.into()),
        Err(error) => Err(error),
    };
    match found {
        Ok((record, family)) => {
            let content = html! { div #task data-live { (task_card(&record, &family)) } };
            page.answer(Tab::Tasks, StatusCode::OK, &record.task.title, &content).await
        }
        Err(error) => page.failure(Tab::Tasks, &error).await,
    }
}

/// The epic of a task, its own tasks and its running job.
struct Family {
    epic: Option<Task>,
    tasks: Vec<EpicTask>,
    more: bool,
    /// The job that runs its checks for review.
    check_job: Option<Job>,
}

async fn looked_at(page: &Page, id: TaskId) -> Result<(TaskRecord, Family), EngineError> {
    let op = page.op();
    let record = page.engine.task_look(&op, id).await?.it;
    let check_job = page.engine.check_job_get(&op, id).await?;
    let epic = match record.task.parent {
        None => None,
        Some(parent) => match page.engine.task_get(&op, parent).await {
            Ok(seen) => Some(seen.it.task),
            Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => None,
            Err(error) => return Err(error),
        },
    };
    let (tasks, next) = match record.task.is_plan {
        true => page.engine.epic_task_list(&op, id, None, None, TASKS_SHOWN_MAX).await?,
        false => (Vec::new(), None),
    };
    Ok((record, Family { epic, tasks, more: next.is_some(), check_job }))
}

fn task_table(engine: &Engine, rows: &At<Vec<TaskRow>>) -> Markup {
    let shown = &rows.it[..rows.it.len().min(TASKS_SHOWN_MAX)];
    let mut counts: BTreeMap<usize, (&str, usize)> = BTreeMap::new();
    let order = engine.policy().names();
    for row in shown {
        let label = row.task.label.as_str();
        let at = order.iter().position(|name| name == label).unwrap_or(order.len());
        counts.entry(at).or_insert((label, 0)).1 += 1;
    }
    html! {
        @if shown.is_empty() {
            p { "No task yet. " code { "callboard task add \"My first task\"" } " makes one." }
        } @else {
            p.counts {
                @if rows.it.len() > shown.len() { "The newest " (shown.len()) ": " }
                @for (n, (label, count)) in counts.values().enumerate() {
                    @if n > 0 { ", " }
                    (count) " " (label)
                }
            }
            ul.rows { @for row in shown { (task_item(engine, row, rows)) } }
        }
    }
}

fn task_item(engine: &Engine, row: &TaskRow, rows: &At<Vec<TaskRow>>) -> Markup {
    let task = &row.task;
    let state = row
        .newest
        .as_ref()
        .and_then(|attempt| attempt.execution_state(task.phase, engine.policy(), rows.now));
    html! {
        li {
            a.title href={ "/tasks/" (task.id) } { bdi { (task.title) } }
            p.facts {
                (status(task)) " "
                (waiting(task)) " "
                @if let Some(who) = &task.assignee { span.who { (who) } " " }
                @if let Some(state) = state { span { (execution(state)) } " " }
                (pips(&task.checks))
                code.id { (task.name()) }
            }
        }
    }
}

fn task_card(record: &TaskRecord, family: &Family) -> Markup {
    let TaskRecord { task, body, deps, entries, .. } = record;
    let omitted = (task.entries as usize).saturating_sub(entries.len());
    html! {
        p.facts { (status(task)) " " (waiting(task)) " " code.id { (task.name()) } " " code { (task.id) } }
        dl {
            @if let Some(epic) = &family.epic {
                dt { "Part of" }
                dd { a href={ "/tasks/" (epic.id) } { bdi { (epic.title) } } " " (status(epic)) }
            }
            dt { "Assignee" } dd { @match &task.assignee { Some(who) => (who), None => "nobody" } }
            dt { "Priority" } dd { (task.priority) }
            dt { "Changed" } dd { (time(task.updated_at)) }
        }
        @if !body.is_empty() { h2 { "Intent" } pre { (body) } }
        @if record.task.is_plan { (parts(family)) }
        h2 { "Depends on" }
        @if deps.iter().all(|dep| dep.removed) { p { "Nothing." } }
        ul { @for dep in deps.iter().filter(|dep| !dep.removed) {
            li { a href={ "/tasks/" (dep.id) } { code { (dep.id) } } " " (dep.label) }
        } }
        h2 { "Checks" }
        @if task.checks.is_empty() { p { "None." } }
        @if let Some(job) = family.check_job.as_ref().filter(|job| !job.is_over()) {
            p { "The checks run automatically: " (job.state.as_str()) " " code { (job.id) } }
        }
        ol.checks start="0" { @for check in &task.checks { (check_item(check)) } }
        h2 { "History" }
        @if omitted > 0 { p { (omitted) " older entries are not shown." } }
        ol.history { @for entry in entries {
            li {
                (time(entry.at)) " " span.who { (entry.who) } " " (entry.did)
                @match entry.text.as_deref() {
                    Some(text) if text.contains('\n') => { pre { (text) } }
                    Some(text) => { ": " (text) }
                    None => {}
                }
            }
        } }
    }
}

fn parts(family: &Family) -> Markup {
    html! {
        h2 { "Tasks of this epic" }
        @if family.tasks.is_empty() { p { "None yet." } }
        ul { @for EpicTask { row, state, worker, .. } in &family.tasks {
            li {
                a href={ "/tasks/" (row.task.id) } { bdi { (row.task.title) } } " "
                span { (state.as_str()) }
                @if let Some(worker) = worker { " " span.who { (worker) } }
            }
        } }
        @if family.more { p { "And more." } }
    }
}

fn check_item(check: &Check) -> Markup {
    html! {
        li {
            span class=(check.result()) { (glyph_of(check)) " " (check.result()) } " "
            @match &check.kind {
                CheckKind::Command { cmd, .. } => { (check.desc) @if *cmd != check.desc { ": " code { (cmd) } } }
                CheckKind::Manual => { "manual: " (check.desc) }
            }
            @if let Some(verdict) = &check.verdict { " " (time(verdict.at)) }
        }
    }
}

fn glyph_of(check: &Check) -> &'static str {
    match check.result() {
        "pass" => "✓",
        "fail" => "✗",
        "stale" => "↻",
        _ => "·",
    }
}

/// A word and a glyph, so that nothing depends on colour.
fn status(task: &Task) -> Markup {
    let (glyph, class) = match task.phase {
        Phase::Initial => ("○", "initial"),
        Phase::Working => ("◐", "working"),
        Phase::Review => ("◑", "review"),
        Phase::ClosedDone => ("●", "done"),
        Phase::ClosedCanceled => ("✕", "canceled"),
    };
    html! { span.status.(class) { (glyph) " " (task.label) } }
}

fn waiting(task: &Task) -> String {
    if let Some(blocked) = task.blocked.as_ref().filter(|_| !task.phase.is_closed()) {
        return format!("blocked by {}: {}", blocked.by, blocked.reason);
    }
    match (task.phase.is_closed(), task.open_deps) {
        (true, _) => String::new(),
        (false, 0) => "ready".into(),
        (false, 1) => "blocked by 1 task".into(),
        (false, open) => format!("blocked by {open} tasks"),
    }
}

fn execution(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Active => "agent at work",
        ExecutionState::Stalled => "agent silent",
        ExecutionState::AwaitingReview => "awaits review",
    }
}

fn pips(checks: &[Check]) -> Markup {
    html! {
        @if !checks.is_empty() {
            span.pips {
                "checks: "
                @for (n, check) in checks.iter().enumerate() {
                    @if n > 0 { ", " }
                    span class=(check.result()) { (check.result()) }
                }
            }
            " "
        }
    }
}
