//! The form that edits a task. It carries a mark of the fields that it showed, so that an edit of a field that another
//! person changed meanwhile is refused with both versions.

use callboard_domain::board::card::Mode;
use callboard_domain::board::edit::{EditFields, EditMark};
use callboard_domain::command::CardUpdate;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_engine::context::OpContext;
use callboard_engine::{CardSeen, EngineError};
use maud::{Markup, html};

use super::Page;
use super::parts::{Tone, actor, ago, note};
use super::task::{TaskSeen, found};
use super::task_new::{DEFAULT_PRIORITY, priority_field};
use super::task_verbs::{VerbForm, new_checks, plain};

/// A long text is cut in the comparison of two versions; the form below has all of it.
const VERSION_CHARS_SHOWN: usize = 200;

/// An edit that was refused: the form as it was sent, and the fields that another person changed.
pub(super) struct RefusedEdit {
    form: VerbForm,
    changed: Vec<&'static str>,
}

impl RefusedEdit {
    pub fn of(form: VerbForm, error: &EngineError) -> Self {
        let changed = match error {
            EngineError::Refused(Refusal::TaskChanged { fields, .. }) => fields.clone(),
            _ => Vec::new(),
        };
        Self { form, changed }
    }

    /// Both versions of each field, in words above the form.
    pub fn versions(&self, seen: &TaskSeen) -> Option<Markup> {
        let edited = seen.card.record.entries.iter().rev().find(|entry| entry.did == "edited");
        let (now, sent) = (fields_of(&seen.card), sent(&fields_of(&seen.card), &self.form));
        let words = html! {
            p role="alert" {
                "Nothing was saved: " (list(&self.changed)) " changed after you opened the form"
                @if let Some(entry) = edited { ", by " (actor(&entry.who)) " " (ago(entry.at, seen.now)) }
                "."
            }
            @for name in &self.changed { p {
                "Now the " (word(name)) " is " (quoted(&now, name)) ". You wrote " (quoted(&sent, name)) "."
            } }
            p { a.button href="#edit" { "Look at the form" } " It has your words. To save them all the same, press Save." }
        };
        (!self.changed.is_empty()).then(|| note(Tone::Late, "warn", &words))
    }
}

/// The field in the words of its label.
fn word(name: &str) -> &str {
    match name {
        "body" => "intent",
        "mode" => "way of work",
        "criteria" => "list of criteria",
        "base_branch" => "base branch",
        "parent" => "epic",
        name => name,
    }
}

fn list(names: &[&str]) -> String {
    let words: Vec<String> = names.iter().map(|name| format!("the {}", word(name))).collect();
    words.join(" and ")
}

fn quoted(fields: &EditFields, name: &str) -> Markup {
    let text = fields.named().into_iter().find(|(known, _)| *known == name).map(|(_, text)| text);
    let text = text.unwrap_or_default();
    let shown: String = text.chars().take(VERSION_CHARS_SHOWN).collect();
    html! {
        @if text.is_empty() { "empty" }
        @else { q { bdi { (shown) } @if shown.len() < text.len() { " …" } } }
    }
}

fn fields_of(seen: &CardSeen) -> EditFields {
    EditFields::of(&seen.record.task, &seen.card, &seen.record.body)
}

/// The fields as a form sends them. A field that the form lacks stays as it is now; the epic stands as it was typed.
fn sent(now: &EditFields, form: &VerbForm) -> EditFields {
    let or = |given: &Option<String>, now: &str| given.as_deref().map_or(now.to_owned(), plain);
    EditFields {
        title: form.title.clone(),
        body: or(&form.body, &now.body),
        priority: form.priority.map_or(now.priority.clone(), |priority| priority.to_string()),
        checks: or(&form.checks, &now.checks),
        mode: or(&form.mode, &now.mode),
        criteria: or(&form.criteria, &now.criteria),
        agent: or(&form.executor, &now.agent),
        base_branch: or(&form.base, &now.base_branch),
        parent: or(&form.epic, &now.parent),
    }
}

/// The update that a form asks for: the fields in which it differs from what it showed. `None` when it changes nothing.
/// New checks lose their results, so equal ones are left alone.
pub(super) async fn update(
    page: &Page,
    op: &OpContext,
    id: TaskId,
    form: &VerbForm,
) -> Result<Option<CardUpdate>, EngineError> {
    let now = fields_of(&page.engine.card_get(op, id).await?.it);
    let mut sent = sent(&now, form);
    let parent = match form.epic.as_deref().map(str::trim) {
        None => None,
        Some("") => Some(None),
        Some(name) => Some(Some(found(page, name).await?)),
    };
    if let Some(parent) = &parent {
        sent.parent = parent.map(|parent| parent.to_string()).unwrap_or_default();
    }
    let shown = match form.shown.as_str() {
        "" => None,
        text => Some(text.parse::<EditMark>()?),
    };
    let mut changed = sent.differences(&now);
    if let Some(shown) = &shown {
        let written = EditMark::of(&sent).differences(shown);
        changed.retain(|name| written.contains(name));
    }
    let given = |name: &str, text: &str| changed.contains(&name).then(|| text.to_owned());
    let is_given = |name: &str| changed.contains(&name);
    let update = CardUpdate {
        title: given("title", &sent.title),
        body: given("body", &sent.body),
        priority: form.priority.filter(|_| is_given("priority")),
        checks: is_given("checks").then(|| new_checks(&sent.checks)),
        mode: Mode::parse(&sent.mode).filter(|_| is_given("mode")),
        criteria: is_given("criteria").then(|| sent.criteria.lines().map(str::to_owned).collect()),
        agent: given("agent", &sent.agent),
        base_branch: given("base_branch", &sent.base_branch),
        parent: parent.filter(|_| is_given("parent")),
        shown,
        ..CardUpdate::of(id)
    };
    Ok((!changed.is_empty()).then_some(update))
}

/// The form that edits a task. After a refusal it has what was typed.
pub(super) fn edit(page: &Page, seen: &TaskSeen) -> Markup {
    let task = seen.task();
    let now = fields_of(&seen.card);
    let epic = seen.epic.as_ref().map(|epic| epic.name().to_string()).unwrap_or_default();
    let refused = seen.refused.as_ref();
    let mut fields = refused.map_or_else(|| now.clone(), |refused| sent(&now, &refused.form));
    fields.parent = refused.and_then(|refused| refused.form.epic.clone()).unwrap_or(epic);
    // After a conflict the form goes on from the task as it stands; after another fault from what it showed.
    let mark = match refused.filter(|refused| refused.changed.is_empty()) {
        Some(refused) if !refused.form.shown.is_empty() => refused.form.shown.clone(),
        _ => EditMark::of(&now).to_string(),
    };
    let executors = page.engine.executors().unwrap_or_default();
    let is_unknown = !fields.agent.is_empty() && !executors.contains(&fields.agent);
    html! {
        form.stack method="post" action={ "/tasks/" (task.name()) "/edit" } {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="shown" value=(mark);
            div.field {
                label for="edit-title" { "Title" }
                input.input #edit-title name="title" required maxlength="500" value=(fields.title);
            }
            div.field {
                label for="edit-body" { "Intent" }
                textarea.input #edit-body name="body" rows="6" { (fields.body) }
            }
            div.field {
                label for="edit-checks" { "Checks, one a line" }
                textarea.input #edit-checks name="checks" rows="3" { (fields.checks) }
                p.faint { "Changed checks start without a result." }
            }
            div.field {
                label for="edit-criteria" { "Done when, one criterion a line" }
                textarea.input #edit-criteria name="criteria" rows="2" { (fields.criteria) }
            }
            div.field {
                label for="edit-priority" { "Priority" }
                (priority_field("edit-priority", fields.priority.parse().unwrap_or(DEFAULT_PRIORITY)))
            }
            div.field {
                label for="edit-epic" { "Part of" }
                input.input #edit-epic name="epic" autocomplete="off" placeholder="no epic" value=(fields.parent);
            }
            div.field {
                label for="edit-mode" { "Who works on it" }
                select.input #edit-mode name="mode" {
                    option value="pair" { "an agent with a person" }
                    option value="auto" selected[fields.mode == "auto"] { "an agent alone" }
                }
                p.faint { "Another way of work ends the work that goes on in the present one." }
            }
            div.field {
                label for="edit-executor" { "Agent" }
                select.input #edit-executor name="executor" {
                    option value="" { "the one in the settings" }
                    @if is_unknown { option selected { (fields.agent) } }
                    @for name in &executors { option selected[*name == fields.agent] { (name) } }
                }
            }
            div.field {
                label for="edit-base" { "Base branch" }
                input.input #edit-base name="base" autocomplete="off" value=(fields.base_branch);
            }
            div { button.button.button-main data-busy="Saving" { "Save" } }
        }
    }
}
