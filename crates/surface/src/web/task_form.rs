//! The form of a new task, and the one that edits a task.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::card::{Card, Mode};
use callboard_domain::ids::TaskId;
use callboard_engine::{EngineError, TaskDraft};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::task::{TaskSeen, found};
use super::task_verbs::{check_lines, new_checks, once, plain};
use super::{Page, done, said};

const DEFAULT_PRIORITY: u16 = 500;

/// A new task as its form sends it. A link can fill fields in.
#[derive(Default, Deserialize)]
pub(super) struct TaskForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    checks: String,
    #[serde(default)]
    deps: String,
    #[serde(default)]
    criteria: String,
    #[serde(default)]
    epic: String,
    #[serde(default)]
    priority: Option<u16>,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    base: String,
    /// `auto` or `pair`.
    #[serde(default)]
    mode: String,
    /// Whether the form of another task follows.
    #[serde(default)]
    another: String,
}

pub(super) async fn new(page: Page, Query(form): Query<TaskForm>) -> Response {
    asked(&page, StatusCode::OK, &form, None).await
}

pub(super) async fn create(page: Page, Form(form): Form<TaskForm>) -> Response {
    match made(&page, &form).await {
        Ok(words) if !form.another.is_empty() => done("/tasks/new", &words.1),
        Ok((path, words)) => done(&path, &words),
        Err(error) => {
            let (status, words) = said(&error);
            asked(&page, status, &form, Some(&words)).await
        }
    }
}

/// Makes the task. Returns its address and a word about it.
async fn made(page: &Page, form: &TaskForm) -> Result<(String, String), EngineError> {
    let mut deps: Vec<TaskId> = Vec::new();
    for word in form.deps.split([',', ' ', '\n', '\r']).filter(|word| !word.is_empty()) {
        deps.push(found(page, word).await?);
    }
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let parent = match given(&form.epic) {
        Some(epic) => Some(found(page, &epic).await?),
        None => None,
    };
    let criteria = plain(&form.criteria);
    let card = Card {
        mode: if form.mode == "auto" { Mode::Auto } else { Mode::Pair },
        criteria: criteria.lines().filter_map(given).collect(),
        agent: given(&form.agent),
        base_branch: given(&form.base),
        ..Card::default()
    };
    let draft = TaskDraft {
        title: form.title.clone(),
        body: plain(&form.body),
        priority: form.priority,
        parent,
        deps,
        checks: new_checks(&plain(&form.checks)),
        card,
        ..TaskDraft::default()
    };
    let op = once(page, &form.once)?;
    let task = page.engine.task_create(&op, draft).await?.it.task;
    let name = task.name();
    Ok((format!("/tasks/{name}"), format!("{name} was made.")))
}

async fn asked(page: &Page, status: StatusCode, form: &TaskForm, fault: Option<&str>) -> Response {
    let content = html! {
        @if page.acts() { (new_form(page, form, fault)) }
        @else { div.pad.text { p { "Sign in to make tasks: run " code { "callboard open" } " in a terminal." } } }
    };
    let mut view = View::of(Screen::Board, "New task", content);
    view.twin = "callboard task add TITLE --check \"cargo test\" --dep ID";
    page.show(status, view).await
}

fn new_form(page: &Page, form: &TaskForm, fault: Option<&str>) -> Markup {
    let executors = page.engine.executors().unwrap_or_default();
    let key = match form.once.as_str() {
        "" => page.engine.fresh_id().to_string(),
        key => key.to_owned(),
    };
    let line = |name: &str, label: &str, hint: &str, value: &str| {
        html! { div.field {
            label for=(name) { (label) }
            input.input id=(name) name=(name) value=(value) autocomplete="off" aria-describedby={ (name) "-hint" };
            p.faint id={ (name) "-hint" } { (hint) }
        } }
    };
    let text = |name: &str, label: &str, hint: &str, rows: u8, value: &str| {
        html! { div.field {
            label for=(name) { (label) }
            textarea.input id=(name) name=(name) rows=(rows) aria-describedby={ (name) "-hint" } { (value) }
            p.faint id={ (name) "-hint" } { (hint) }
        } }
    };
    html! {
        form.pad.text.stack method="post" action="/tasks/new" {
            @if let Some(words) = fault { p.fault role="alert" { (words) } }
            input type="hidden" name="once" value=(key);
            div.field {
                label for="title" { "Title" }
                input.input.task-title #title name="title" required maxlength="500" autofocus value=(form.title);
            }
            (text("body", "Intent", "What is wanted and why, as Markdown.", 6, &form.body))
            (text("checks", "Checks", "One a line: a shell command, or manual: and what a person looks at. They gate closing.", 3, &form.checks))
            (line("deps", "Must be done first", "Short names or ids, separated by spaces.", &form.deps))
            (line("epic", "Part of", "The short name of an epic, if any.", &form.epic))
            div.row {
                div.field {
                    label for="mode" { "Who works on it" }
                    select.input #mode name="mode" {
                        option value="pair" { "an agent with a person" }
                        option value="auto" selected[form.mode == "auto"] { "an agent alone" }
                    }
                }
                div.field {
                    label for="priority" { "Priority" }
                    input.input #priority name="priority" type="number" min="0" max="1000" step="1"
                        value=(form.priority.unwrap_or(DEFAULT_PRIORITY));
                }
                div.field {
                    label for="agent" { "Agent" }
                    select.input #agent name="agent" {
                        option value="" { "the one in the settings" }
                        @for name in &executors { option selected[*name == form.agent] { (name) } }
                    }
                }
            }
            details {
                summary { "More" }
                div.stack {
                    (text("criteria", "Done when", "Acceptance criteria, one a line. No gate reads them.", 3, &form.criteria))
                    (line("base", "Base branch", "The branch that the work starts from and goes to.", &form.base))
                }
            }
            div.row {
                button.button.button-main data-busy="Making" { "Make the task" }
                button.button name="another" value="1" { "Make it and write another" }
            }
        }
    }
}

/// The form that edits a task.
pub(super) fn edit(seen: &TaskSeen) -> Markup {
    let task = seen.task();
    html! {
        form.stack method="post" action={ "/tasks/" (task.name()) "/edit" } {
            div.field {
                label for="edit-title" { "Title" }
                input.input #edit-title name="title" required maxlength="500" value=(task.title);
            }
            div.field {
                label for="edit-body" { "Intent" }
                textarea.input #edit-body name="body" rows="6" { (seen.card.record.body) }
            }
            div.field {
                label for="edit-checks" { "Checks, one a line" }
                textarea.input #edit-checks name="checks" rows="3" { (check_lines(&task.checks)) }
                p.faint { "Changed checks start without a result." }
            }
            div.field {
                label for="edit-priority" { "Priority, 0 to 1000; smaller comes first" }
                input.input #edit-priority name="priority" type="number" min="0" max="1000" value=(task.priority);
            }
            div { button.button.button-main data-busy="Saving" { "Save" } }
        }
    }
}
