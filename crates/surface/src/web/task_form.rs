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
use super::parts::{State, title_link};
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
    /// A task whose fields the form begins with.
    #[serde(default)]
    from: String,
}

pub(super) async fn new(page: Page, Query(form): Query<TaskForm>) -> Response {
    match begun(&page, form).await {
        Ok(form) => asked(&page, StatusCode::OK, &form, None).await,
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

/// The form with the fields of the task that it begins with, where the address gives no others.
async fn begun(page: &Page, form: TaskForm) -> Result<TaskForm, EngineError> {
    if form.from.is_empty() {
        return Ok(form);
    }
    let id = found(page, &form.from).await?;
    let (record, card) = (
        page.engine.task_get(&page.op(), id).await?.it,
        page.engine.card_of(&page.op(), id).await?,
    );
    let or = |given: &str, known: &str| if given.is_empty() { known } else { given }.to_owned();
    let names: Vec<String> =
        record.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id.to_string()).collect();
    let mode = if card.mode == Mode::Auto { "auto" } else { "pair" };
    Ok(TaskForm {
        title: or(&form.title, &record.task.title),
        body: or(&form.body, &record.body),
        checks: or(&form.checks, &check_lines(&record.task.checks)),
        deps: or(&form.deps, &names.join(" ")),
        criteria: or(&form.criteria, &card.criteria.join("\n")),
        priority: form.priority.or(Some(record.task.priority)),
        agent: or(&form.agent, card.agent.as_deref().unwrap_or_default()),
        base: or(&form.base, card.base_branch.as_deref().unwrap_or_default()),
        mode: or(&form.mode, mode),
        from: String::new(),
        ..form
    })
}

/// What will come of the form as it is filled in: whether the task waits, what gates it, and open tasks much like it.
async fn outlook(page: &Page, form: &TaskForm) -> Result<Markup, EngineError> {
    let mut waits = Vec::new();
    let mut unknown = Vec::new();
    for word in form.deps.split([',', ' ', '\n', '\r']).filter(|word| !word.is_empty()) {
        match found(page, word).await {
            Ok(id) => waits.push(page.engine.task_get(&page.op(), id).await?.it.task),
            Err(EngineError::Refused(_)) => unknown.push(word),
            Err(error) => return Err(error),
        }
    }
    waits.retain(|task| !task.phase.is_closed());
    let checks = new_checks(&plain(&form.checks));
    let alike = match form.title.trim() {
        "" => Vec::new(),
        title => page.engine.task_alike(&page.op(), title).await?,
    };
    Ok(html! {
        h2 { "What will happen" }
        @if !unknown.is_empty() { p.fault { "Not known: " (unknown.join(", ")) "." } }
        @if waits.is_empty() { p { "The task is ready at once." } }
        @else { p { "The task waits for " @for (n, task) in waits.iter().enumerate() { @if n > 0 { ", " } (title_link(task)) } "." } }
        p { @match checks.len() {
            0 => "Nothing gates closing.",
            1 => "1 check gates closing. It has not run here.",
            many => { (many) " checks gate closing. They have not run here." }
        } }
        @if !alike.is_empty() {
            h2 { "Much alike" }
            ul.stack-tight { @for task in &alike { li { (State::of(task).mark()) (title_link(task)) " " span.id { (task.name()) } } } }
        }
        h2 { "In a terminal" }
        p { code { (twin(form)) } }
    })
}

/// The command that makes the task.
fn twin(form: &TaskForm) -> String {
    let quoted = |text: &str| format!("'{}'", text.trim().replace('\'', "'\\''"));
    let title = if form.title.trim().is_empty() { "TITLE".to_owned() } else { quoted(&form.title) };
    let mut words = format!("callboard task add {title}");
    for check in form.checks.lines().filter(|line| !line.trim().is_empty()) {
        words += &format!(" --check {}", quoted(check));
    }
    for dep in form.deps.split([',', ' ', '\n', '\r']).filter(|word| !word.is_empty()) {
        words += &format!(" --dep {dep}");
    }
    words
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
    let outlook = match outlook(page, form).await {
        Ok(outlook) => outlook,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let content = html! {
        @if page.acts() { div.sided.pad-top {
            (new_form(page, form, fault))
            aside.stack-tight #outlook data-live aria-label="What will happen" { (outlook) }
        } }
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
        form.text.stack method="post" action="/tasks/new" data-find="title checks deps" {
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
                button.button.button-bare formmethod="get" formnovalidate { "Look what will happen" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_makes_the_same_task() {
        let form = TaskForm {
            title: "Don't panic".into(),
            checks: "cargo test\n\nmanual: reads well\n".into(),
            deps: "SHOP-1, SHOP-2".into(),
            ..TaskForm::default()
        };
        assert_eq!(
            twin(&form),
            "callboard task add 'Don'\\''t panic' --check 'cargo test' --check 'manual: reads well' \
             --dep SHOP-1 --dep SHOP-2"
        );
        assert_eq!(twin(&TaskForm::default()), "callboard task add TITLE");
    }
}
