//! What a person does with many cards of the board at once, and the form that the menus of all cards share.

use axum::Form;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::Task;
use callboard_engine::EngineError;
use maud::{Markup, html};

use super::frame::{Screen, View};
use super::parts::{State, icon, title_link};
use super::task::found;
use super::task_verbs::{VerbForm, carry_out, why_not};
use super::{Page, done, inside, said};

/// The most tasks that one form changes.
const BULK_MAX: usize = 50;
/// The verbs of the form: the word of its address, its words, and its place in the table of rights.
const VERBS: [(&str, &str, PersonVerb); 5] = [
    ("sooner", "Sooner", PersonVerb::Edit),
    ("later", "Later", PersonVerb::Edit),
    ("run", "Start agents", PersonVerb::RunAgent),
    ("release", "Take back", PersonVerb::RunAgent),
    ("remove", "Remove", PersonVerb::Remove),
];

/// Whether the reader may do anything with a ticked card.
pub(super) fn may_tick(page: &Page) -> bool {
    page.acts() && VERBS.iter().any(|(_, _, verb)| why_not(page, *verb).is_none())
}

/// The form that acts on every card whose box is ticked. `next` is the board as it is shown.
pub(super) fn bulk_form(page: &Page, next: &str) -> Markup {
    let is_off = !may_tick(page);
    html! {
        form.row #bulk method="post" action="/board/bulk" {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="next" value=(next);
            select.input name="verb" aria-label="With the ticked cards" disabled[is_off] {
                option value="" { "With the ticked cards" }
                @for (verb, words, needs) in VERBS { @match why_not(page, needs) {
                    Some(why) => option value=(verb) disabled { (words) " (" (why) ")" },
                    None => option value=(verb) { (words) },
                } }
            }
            button.button.button-small disabled[is_off] { "Do" }
            @if let Some(why) = why_not(page, PersonVerb::RunAgent).filter(|_| is_off) { span.faint { (why) } }
        }
    }
}

/// The form of the menus of all cards.
pub(super) fn menu_form(page: &Page, next: &str) -> Markup {
    html! {
        form #card method="post" action="/board/bulk" {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="next" value=(next);
        }
    }
}

/// Acts on every ticked card. A removal asks once more first.
pub(super) async fn bulk(page: Page, Form(fields): Form<Vec<(String, String)>>) -> Response {
    let value =
        |name: &str| fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let (verb, once) = (value("verb"), value("once"));
    let next = match value("next") {
        "" => Screen::Board.path(),
        next => inside(next),
    };
    let named = fields.iter().filter(|(name, _)| name == "task");
    let names: Vec<&str> = named.map(|(_, value)| value.as_str()).take(BULK_MAX).collect();
    let Some((_, _, needs)) = VERBS.iter().find(|(known, ..)| *known == verb) else {
        return done(next, UNCHOSEN);
    };
    if names.is_empty() {
        return done(next, UNCHOSEN);
    }
    let is_sure = *needs != PersonVerb::Remove || !value("sure").is_empty();
    if !is_sure && why_not(&page, *needs).is_none() {
        return match tasks(&page, &names).await {
            Ok(tasks) => confirm(&page, (&tasks, once, next)).await,
            Err(error) => page.failure(Screen::Board, &error).await,
        };
    }
    let (mut changed, mut refused) = (0, Vec::new());
    for name in &names {
        let form = VerbForm::keyed(once.to_owned());
        let acted = match found(&page, name).await {
            Ok(id) => carry_out(&page, id, verb, &form).await,
            Err(error) => Err(error),
        };
        match acted {
            Ok(_) => changed += 1,
            Err(error) => refused.push(format!("{name}: {}", said(&error).1)),
        }
    }
    let tasks = if changed == 1 { "task was" } else { "tasks were" };
    let mut words = format!("{changed} {tasks} changed.");
    if let Some(first) = refused.first() {
        words.push_str(&format!(" {} refused; {first}", refused.len()));
    }
    done(next, &words)
}

const UNCHOSEN: &str = "Nothing was changed: tick cards and choose what to do with them.";

async fn tasks(page: &Page, names: &[&str]) -> Result<Vec<Task>, EngineError> {
    let mut tasks = Vec::with_capacity(names.len());
    for name in names {
        let id = found(page, name).await?;
        tasks.push(page.engine.task_get(&page.op(), id).await?.it.task);
    }
    Ok(tasks)
}

/// The page that names the tasks before they are removed. A page instead of a popover: only the server knows which cards
/// are ticked when no script runs.
async fn confirm(page: &Page, (tasks, once, next): (&[Task], &str, &str)) -> Response {
    let verb = match tasks.len() {
        1 => "Remove this task".to_owned(),
        many => format!("Remove these {many} tasks"),
    };
    let content = html! {
        div.pad.text.stack {
            h1 { (verb) "?" }
            ul.lines { @for task in tasks { li.row {
                (State::of(task).mark()) (title_link(task)) span.id { (task.name()) }
            } } }
            p { "The tasks go, with their history. Their worktrees and branches stay." }
            form.row method="post" action="/board/bulk" {
                input type="hidden" name="once" value=(once);
                input type="hidden" name="next" value=(next);
                input type="hidden" name="verb" value="remove";
                input type="hidden" name="sure" value="1";
                @for task in tasks { input type="hidden" name="task" value=(task.name()); }
                button.button.button-bad data-busy="Removing" { (icon("cross")) (verb) }
                a.button href=(next) autofocus { "Keep as it is" }
            }
        }
    };
    page.show(StatusCode::OK, View::of(Screen::Board, &verb, content)).await
}
