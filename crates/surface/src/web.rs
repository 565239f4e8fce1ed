//! The page for people: the newest tasks, one task with its history, and the form that asks for a
//! token. Reads only, and plain HTML; it works without a script.
//!
//! What agents wrote is hostile until shown: `maud` escapes every text, and the policy sent along
//! lets nothing run and nothing load from elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Form, Router};
use callboard_domain::attempt::ExecutionState;
use callboard_domain::ids::{IdError, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::{Check, CheckKind, Task, TaskRecord, TaskRow};
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{At, Engine, EngineError, TaskFilter};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use crate::http::Gate;
use crate::time::rfc3339_ms;

const TASKS_SHOWN_MAX: usize = 200;
const STYLE: &str = include_str!("web.css");
const CONTENT_POLICY: &str = "default-src 'self'; script-src 'none'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";

/// One page for one reader.
struct Page {
    engine: Arc<Engine>,
    reader: Principal,
}

/// `/` and `/tasks/{id}`, read with the rights of whoever asks.
pub fn routes(engine: Arc<Engine>) -> Router {
    Router::new().route("/", get(tasks)).route("/tasks/{id}", get(task)).with_state(engine)
}

/// What somebody without a token must be able to reach.
pub(crate) fn login_routes(gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/login", post(login))
        .route("/logout", post(logout))
        .route("/style.css", get(style))
        .with_state(gate)
}

async fn tasks(
    State(engine): State<Arc<Engine>>,
    Extension(reader): Extension<Principal>,
) -> Response {
    let page = Page { engine, reader };
    let filter =
        TaskFilter { newest_first: true, limit: TASKS_SHOWN_MAX + 1, ..TaskFilter::default() };
    match page.engine.task_list(&page.op(), filter).await {
        Ok(rows) => {
            let table = task_table(&page.engine, &rows);
            page.answer(StatusCode::OK, "Tasks", table).await
        }
        Err(error) => page.failure(&error).await,
    }
}

async fn task(
    State(engine): State<Arc<Engine>>,
    Extension(reader): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let page = Page { engine, reader };
    let id: Result<TaskId, IdError> = id.parse();
    let found = match id {
        Ok(id) => page.engine.task_get(&page.op(), id).await,
        Err(_) => Err(Refusal::TaskNotFound { task: "no such id".into() }.into()),
    };
    match found {
        Ok(seen) => {
            let title = seen.it.task.title.clone();
            page.answer(StatusCode::OK, &title, task_card(&seen.it)).await
        }
        Err(error) => page.failure(&error).await,
    }
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

#[derive(Deserialize)]
struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

async fn login(State(gate): State<Arc<Gate>>, Form(login): Form<Login>) -> Response {
    let token = login.token.trim();
    if !gate.opens(token).await {
        let words = "That token does not open this board.";
        return login_page(StatusCode::UNAUTHORIZED, Some(words), &login.next);
    }
    let cookie = [(header::SET_COOKIE, gate.cookie(Some(token)))];
    (cookie, Redirect::to(inside(&login.next))).into_response()
}

async fn logout(State(gate): State<Arc<Gate>>) -> Response {
    ([(header::SET_COOKIE, gate.cookie(None))], Redirect::to("/")).into_response()
}

/// A form cannot be made to lead elsewhere.
fn inside(path: &str) -> &str {
    if path.starts_with('/') && !path.starts_with("//") && !path.contains('\\') {
        path
    } else {
        "/"
    }
}

pub(crate) fn login_page(status: StatusCode, words: Option<&str>, next: &str) -> Response {
    let content = html! {
        @if let Some(words) = words { p.fail role="alert" { (words) } }
        form.login method="post" action="/login" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="off" required autofocus;
            input type="hidden" name="next" value=(inside(next));
            button { "Open the board" }
        }
        p { code { "callboard token add --actor human:NAME" } " makes one." }
    };
    document(status, "Sign in", &html! {}, &content)
}

impl Page {
    fn op(&self) -> OpContext {
        OpContext::new(self.reader.clone(), "web")
    }

    async fn failure(&self, error: &EngineError) -> Response {
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
        let content = html! { p { (words) } p { a href="/" { "All tasks" } } };
        let mut response = self.answer(status, "Not shown", content).await;
        if let EngineError::Refused(Refusal::AuthorizationDenied { scope, .. }) = error {
            let bearer = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let bearer = HeaderValue::try_from(bearer).expect("scopes are plain words");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }

    async fn answer(&self, status: StatusCode, title: &str, content: Markup) -> Response {
        // An org without a task has no project yet, and a store that is away names none.
        let project = self.engine.project_of(&self.reader).await.ok().flatten();
        let header = html! {
            @if let Some(project) = &project { " · " (project.name) }
            @if self.reader.token.is_some() {
                form.logout method="post" action="/logout" {
                    (self.reader.actor) " " button { "Sign out" }
                }
            }
        };
        document(status, title, &header, &content)
    }
}

fn document(status: StatusCode, title: &str, about: &Markup, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Callboard" }
                link rel="stylesheet" href="/style.css";
            }
            body {
                header { a href="/" { "Callboard" } (about) }
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
