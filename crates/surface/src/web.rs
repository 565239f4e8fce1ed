//! The page for people: the newest tasks, and one task with its history. Reads only, and plain
//! HTML; it works without a script.
//!
//! What agents wrote is hostile until shown: `maud` escapes every text, and the policy sent along
//! lets nothing run and nothing load from elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use callboard_domain::attempt::ExecutionState;
use callboard_domain::ids::{IdError, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::{Check, CheckKind, Task, TaskRecord, TaskRow};
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{At, Engine, EngineError, TaskFilter};
use maud::{DOCTYPE, Markup, html};

use crate::time::rfc3339_ms;

const TASKS_SHOWN_MAX: usize = 200;
const STYLE: &str = include_str!("web.css");
const CONTENT_POLICY: &str =
    "default-src 'self'; script-src 'none'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Page {
    engine: Arc<Engine>,
    reader: Principal,
}

/// `/` and `/tasks/{id}`, read with the rights of `reader`.
pub fn routes(engine: Arc<Engine>, reader: Principal) -> Router {
    Router::new()
        .route("/", get(tasks))
        .route("/tasks/{id}", get(task))
        .route("/style.css", get(style))
        .with_state(Page { engine, reader })
}

async fn tasks(State(page): State<Page>) -> Response {
    let filter =
        TaskFilter { newest_first: true, limit: TASKS_SHOWN_MAX + 1, ..TaskFilter::default() };
    match page.engine.task_list(&page.op(), filter).await {
        Ok(rows) => page.answer(StatusCode::OK, "Tasks", task_table(&page.engine, &rows)),
        Err(error) => page.failure(&error),
    }
}

async fn task(State(page): State<Page>, Path(id): Path<String>) -> Response {
    let id: Result<TaskId, IdError> = id.parse();
    let found = match id {
        Ok(id) => page.engine.task_get(&page.op(), id).await,
        Err(_) => Err(Refusal::TaskNotFound { task: "no such id".into() }.into()),
    };
    match found {
        Ok(seen) => {
            let title = seen.it.task.title.clone();
            page.answer(StatusCode::OK, &title, task_card(&seen.it))
        }
        Err(error) => page.failure(&error),
    }
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

impl Page {
    fn op(&self) -> OpContext {
        OpContext::new(self.reader.clone(), "web")
    }

    fn failure(&self, error: &EngineError) -> Response {
        let (status, words) = match error {
            EngineError::Refused(refusal @ Refusal::TaskNotFound { .. }) => {
                (StatusCode::NOT_FOUND, refusal.message())
            }
            EngineError::Refused(refusal) => (StatusCode::FORBIDDEN, refusal.message()),
            EngineError::Unavailable(words) => (StatusCode::SERVICE_UNAVAILABLE, words.clone()),
            EngineError::Canceled => (StatusCode::SERVICE_UNAVAILABLE, "canceled".into()),
            EngineError::Internal(words) => {
                tracing::error!(error = words, "a page failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "something broke; it was logged".into())
            }
        };
        self.answer(status, "Not shown", html! { p { (words) } p { a href="/" { "All tasks" } } })
    }

    fn answer(&self, status: StatusCode, title: &str, content: Markup) -> Response {
        let project = &self.engine.home().project.name;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · " (project) " · Callboard" }
                    link rel="stylesheet" href="/style.css";
                }
                body {
                    header { a href="/" { "Callboard" } " · " (project) }
                    main { h1 { (title) } (content) }
                }
            }
        };
        let headers = [
            (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (status, headers, Html(page.into_string())).into_response()
    }
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
            ul.tasks { @for row in shown { (task_item(engine, row, rows)) } }
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
            a.title href={ "/tasks/" (task.id) } { (task.title) }
            p.facts {
                (status(task)) " "
                (waiting(task)) " "
                @if let Some(who) = &task.assignee { span.who { (who) } " " }
                @if let Some(state) = state { span { (execution(state)) } " " }
                (pips(&task.checks))
                code.id { (task.id) }
            }
        }
    }
}

fn task_card(record: &TaskRecord) -> Markup {
    let TaskRecord { task, body, deps, entries, .. } = record;
    let omitted = (task.entries as usize).saturating_sub(entries.len());
    html! {
        p.facts { (status(task)) " " (waiting(task)) " " code.id { (task.id) } }
        dl {
            dt { "Assignee" } dd { @match &task.assignee { Some(who) => (who), None => "nobody" } }
            dt { "Priority" } dd { (task.priority) }
            dt { "Changed" } dd { (rfc3339_ms(task.updated_at)) }
        }
        @if !body.is_empty() { h2 { "Intent" } pre { (body) } }
        h2 { "Depends on" }
        @if deps.iter().all(|dep| dep.removed) { p { "Nothing." } }
        ul { @for dep in deps.iter().filter(|dep| !dep.removed) {
            li { a href={ "/tasks/" (dep.id) } { code { (dep.id) } } " " (dep.label) }
        } }
        h2 { "Checks" }
        @if task.checks.is_empty() { p { "None." } }
        ol.checks start="0" { @for check in &task.checks { (check_item(check)) } }
        h2 { "History" }
        @if omitted > 0 { p { (omitted) " older entries are not shown." } }
        ol.history { @for entry in entries {
            li {
                time { (rfc3339_ms(entry.at)) } " " span.who { (entry.who) } " " (entry.did)
                @match entry.text.as_deref() {
                    Some(text) if text.contains('\n') => { pre { (text) } }
                    Some(text) => { ": " (text) }
                    None => {}
                }
            }
        } }
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
            @if let Some(verdict) = &check.verdict { " " time { (rfc3339_ms(verdict.at)) } }
        }
    }
}

fn glyph_of(check: &Check) -> &'static str {
    match check.result() {
        "pass" => "✓",
        "fail" => "✗",
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
