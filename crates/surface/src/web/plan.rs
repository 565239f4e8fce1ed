//! One plan: its tasks in order, what they overlap with, and a person's decision with one message.

use axum::Form;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::card::Mode;
use callboard_domain::board::plan::{Plan, PlanId, PlanState, PlannedTask, TodoStatus};
use callboard_domain::ids::IdKind;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_engine::{EngineError, PlanOverlap};
use maud::{Markup, html};

use super::frame::{Screen, View};
use super::parts::{State, Tone, actor, ago, icon, note, prose, task_link, title_link};
use super::plans::{count, name, short, state_badge};
use super::task_verbs::{once, plain, why_not};
use super::{Page, done, said};

const KEYS: &[(&str, &str)] = &[("a", "make the tasks"), ("b", "put the plan away")];

/// A plan with the tasks that were made of it.
struct PlanPage {
    plan: Plan,
    made: Vec<Task>,
    /// Open tasks that are much like proposed ones; none once the plan is decided.
    overlaps: Vec<PlanOverlap>,
    now: Timestamp,
}

pub(super) async fn show(page: Page, Path(text): Path<String>) -> Response {
    match read(&page, &text).await {
        Ok(seen) => shown(&page, StatusCode::OK, &seen, None, &Words::default()).await,
        Err(error) => page.failure(Screen::Plans, &error).await,
    }
}

/// The plan with this id, or with the only id that ends so.
async fn found(page: &Page, text: &str) -> Result<PlanId, EngineError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let ends = page.engine.ids_typed(&page.op(), IdKind::Plan, text, 2).await?;
    match ends.as_slice() {
        [id] if !text.is_empty() => Ok(PlanId(*id)),
        _ => Err(Refusal::PlanNotFound { plan: "no such id".into() }.into()),
    }
}

async fn read(page: &Page, text: &str) -> Result<PlanPage, EngineError> {
    let op = page.op();
    let plan = page.engine.plan_get(&op, found(page, text).await?).await?;
    let mut made = Vec::new();
    if let PlanState::Approved { tasks, .. } = &plan.state {
        for task in tasks {
            match page.engine.task_get(&op, *task).await {
                Ok(seen) => made.push(seen.it.task),
                // A task that was removed since.
                Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let overlaps = match plan.state {
        PlanState::Draft => page.engine.plan_overlaps(&op, &plan).await?,
        PlanState::Approved { .. } | PlanState::Rejected { .. } => Vec::new(),
    };
    Ok(PlanPage { plan, made, overlaps, now: page.engine.now() })
}

async fn shown(
    page: &Page,
    status: StatusCode,
    seen: &PlanPage,
    fault: Option<&str>,
    words: &Words,
) -> Response {
    let plan = &seen.plan;
    let why = why_not(page, PersonVerb::DecidePlan);
    let is_open = page.acts() && plan.state == PlanState::Draft;
    let decides = is_open && why.is_none();
    let content = html! {
        @if let Some(fault) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (fault) " Nothing was changed." } })) }
        }
        div.head-row {
            div #head data-live { (head(seen)) }
            @if is_open { (verbs(page, plan, why.as_deref())) }
        }
        div.sided {
            div.stack {
                (tasks(plan, decides, words))
                @if decides { (answer(plan, words)) }
                div #made data-live { @if !seen.made.is_empty() { (made(seen)) } }
            }
            aside.stack { (steps(plan)) div #overlaps data-live { (overlaps(seen)) } }
        }
    };
    let title = name(plan);
    let mut view = View::of(Screen::Plans, &title, content);
    view.trail = vec![
        (Screen::Plans.path().into(), Screen::Plans.title().into()),
        (format!("/plans/{}", plan.id), title.clone()),
    ];
    view.keys = KEYS;
    let twin = format!("callboard plan show {}", plan.id);
    view.twin = &twin;
    page.show(status, view).await
}

fn head(seen: &PlanPage) -> Markup {
    let plan = &seen.plan;
    let criteria: usize = plan.tasks.iter().map(|task| task.acceptance_criteria.len()).sum();
    html! {
        div.head {
            h1 { bdi { (name(plan)) } }
            div.dots {
                (state_badge(&plan.state)) (actor(&plan.by))
                span { (count(plan.tasks.len(), "task")) }
                @match criteria {
                    0 => {}
                    1 => span { "1 criterion" },
                    many => span { (many) " criteria" },
                }
                span { "proposed " (ago(plan.at, seen.now)) }
                span.id title=(plan.id) { (short(plan)) }
                @match &plan.state {
                    PlanState::Draft => {}
                    PlanState::Approved { at, by, .. } => { span { "made by " (by) " " (ago(*at, seen.now)) } }
                    PlanState::Rejected { at, by } => { span { "put away by " (by) " " (ago(*at, seen.now)) } }
                }
            }
        }
    }
}

/// The two decisions. For a reader who may not decide they stay, with the reason.
fn verbs(page: &Page, plan: &Plan, why: Option<&str>) -> Markup {
    let fresh = || page.engine.fresh_id();
    let make = match plan.tasks.len() {
        1 => "Make this task".to_owned(),
        many => format!("Make these {many} tasks"),
    };
    if let Some(why) = why {
        return html! {
            section.acts.row aria-label="Your decision" {
                span.faint { (why) }
                button.button disabled { (icon("back")) "Put away" }
                button.button.button-main disabled { (icon("check")) (make) }
            }
        };
    }
    html! {
        section.acts.row aria-label="Your decision" {
            form #away method="post" action={ "/plans/" (plan.id) "/reject" } {
                input type="hidden" name="once" value=(fresh());
                button.button data-key="b" data-busy="Sending" { (icon("back")) "Put away" kbd { "b" } }
            }
            form method="post" action={ "/plans/" (plan.id) "/approve" } {
                input type="hidden" name="once" value=(fresh());
                button.button.button-main data-key="a" data-busy="Making" { (icon("check")) (make) kbd { "a" } }
            }
        }
    }
}

fn tasks(plan: &Plan, decides: bool, words: &Words) -> Markup {
    html! {
        section.box {
            div.box-head { h2 { "Tasks, in this order" } @if decides { span.faint.row-end { "nothing is made before a yes; then all of them, or none" } } }
            ol.lines.planned { @for (n, task) in plan.tasks.iter().enumerate() {
                li #{ "task-" (n + 1) } {
                    span.number.faint { (n + 1) }
                    div.stack-tight {
                        p { b { bdi { (task.title) } } " " span.soft { (manner(task)) } }
                        @if !task.description.is_empty() { (prose(&task.description)) }
                        @if !task.acceptance_criteria.is_empty() {
                            ul.prose.criteria aria-label="Done when" { @for line in &task.acceptance_criteria { li { bdi { (line) } } } }
                        }
                        @if decides { (comment(n, words)) }
                    }
                }
            } }
        }
    }
}

fn manner(task: &PlannedTask) -> String {
    let priority = task.priority.word();
    let mode = match task.mode {
        Mode::Auto => "agent alone",
        Mode::Pair => "with a person",
    };
    format!("{priority}, {mode}")
}

/// A comment on one task; the form that puts the plan away sends all of them.
fn comment(n: usize, words: &Words) -> Markup {
    let field = format!("task-{}", n + 1);
    let text = words.on(n);
    html! {
        details open[!text.is_empty()] {
            summary.soft { (icon("comment")) "Comment" }
            label.hidden for={ (field) "-text" } { "Comment on task " (n + 1) }
            textarea.input id={ (field) "-text" } name=(field) form="away" rows="2" { (text) }
        }
    }
}

fn answer(plan: &Plan, words: &Words) -> Markup {
    html! {
        section.box {
            h2.box-head { "Answer " (actor(&plan.by)) }
            div.box-body.stack-tight {
                div.field {
                    label for="text" { "Why the plan is put away" }
                    textarea.input #text name="text" form="away" rows="3" { (words.all) }
                    p.faint { "Sent when the plan is put away, with the comments on single tasks. A planner of the crew gets it as mail; "
                        "the log keeps it in any case." }
                }
                div { button.button form="away" data-busy="Sending" { "Put away and send" } }
            }
        }
    }
}

fn made(seen: &PlanPage) -> Markup {
    html! {
        section.box {
            h2.box-head { "Made of it" }
            ul.lines { @for task in &seen.made { li.row {
                (State::of(task).mark()) (title_link(task)) span.row-end { (task_link(task.name())) }
            } } }
        }
    }
}

fn steps(plan: &Plan) -> Markup {
    let look = |status: TodoStatus| match status {
        TodoStatus::Pending => (Tone::Quiet, "ready", "to do"),
        TodoStatus::InProgress => (Tone::Now, "working", "under way"),
        TodoStatus::Completed => (Tone::Proved, "done", "done"),
        TodoStatus::Failed => (Tone::Failed, "failed", "failed"),
    };
    html! {
        section.box {
            h2.box-head { "What the planner did" }
            @if plan.todos.is_empty() { p.box-body.soft { "It named no steps." } }
            ul.lines.steps { @for todo in &plan.todos {
                @let (tone, glyph, word) = look(todo.status);
                li.row { span class={ "glyph " (tone.class()) } { (icon(glyph)) span.hidden { (word) } } bdi { (todo.content) } }
            } }
        }
    }
}

/// Open tasks that may be the work of a proposed one.
fn overlaps(seen: &PlanPage) -> Markup {
    html! { @if seen.plan.state == PlanState::Draft {
        section.box {
            h2.box-head { "Overlaps with" }
            @if seen.overlaps.is_empty() { p.box-body.soft { "No open task has a title much like one of these." } }
            @else {
                ul.lines { @for one in &seen.overlaps { li.overlap {
                    (State::of(&one.task).mark())
                    div {
                        p { (title_link(&one.task)) " " (task_link(one.task.name())) }
                        p.faint { (State::of(&one.task).word().to_lowercase()) "; much like "
                            a href={ "#task-" (one.place + 1) } { "task " (one.place + 1) } }
                    }
                } } }
            }
        }
    } }
}

/// A person's words: about the whole plan, and about single tasks by their place.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    all: String,
    on: Vec<(usize, String)>,
}

impl Words {
    fn of(fields: &[(String, String)]) -> Self {
        let mut words = Self::default();
        for (field, text) in fields {
            let text = plain(text).trim().to_owned();
            let place = field.strip_prefix("task-").and_then(|place| place.parse::<usize>().ok());
            match place {
                Some(place) if place > 0 && !text.is_empty() => words.on.push((place - 1, text)),
                None if field == "text" => words.all = text,
                _ => {}
            }
        }
        words
    }

    fn on(&self, n: usize) -> &str {
        self.on.iter().find(|(place, _)| *place == n).map_or("", |(_, text)| text)
    }

    /// One message: the words about the plan, then each comment under the title of its task.
    fn message(&self, plan: &Plan) -> Option<String> {
        let comments = self.on.iter().filter_map(|(place, text)| {
            let title = &plan.tasks.get(*place)?.title;
            Some(format!("{}. {title}: {text}", place + 1))
        });
        let all = Some(self.all.clone()).filter(|all| !all.is_empty());
        let parts: Vec<String> = all.into_iter().chain(comments).collect();
        Some(parts.join("\n\n")).filter(|words| !words.is_empty())
    }
}

/// Carries out a decision, then shows the plan with a word about it.
pub(super) async fn act(
    page: Page,
    Path((text, verb)): Path<(String, String)>,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let seen = match read(&page, &text).await {
        Ok(seen) => seen,
        Err(error) => return page.failure(Screen::Plans, &error).await,
    };
    let words = Words::of(&fields);
    match carry_out(&page, &seen.plan, &verb, &fields, &words).await {
        Ok(said) => done(&format!("/plans/{}", seen.plan.id), &said),
        Err(error) => {
            let (status, fault) = said(&error);
            shown(&page, status, &seen, Some(&fault), &words).await
        }
    }
}

async fn carry_out(
    page: &Page,
    plan: &Plan,
    verb: &str,
    fields: &[(String, String)],
    words: &Words,
) -> Result<String, EngineError> {
    let key = fields.iter().find(|(field, _)| field == "once").map_or("", |(_, key)| key);
    page.reader.rights.judge_verb("web", PersonVerb::DecidePlan)?;
    let op = once(page, key)?;
    match verb {
        "approve" => {
            let made = page.engine.plan_approve(&op, plan.id).await?;
            Ok(format!("Made: {}.", count(made.tasks.len(), "task")))
        }
        "reject" => {
            let message = words.message(plan);
            let has_words = message.is_some();
            let (_, is_mailed) = page.engine.plan_put_away(&op, plan.id, message).await?;
            Ok(match (has_words, is_mailed) {
                (false, _) => "The plan was put away.".into(),
                (true, true) => {
                    "The plan was put away, and the planner has your words as mail.".into()
                }
                (true, false) => {
                    "The plan was put away. Your words are in the log; this planner has no inbox."
                        .into()
                }
            })
        }
        _ => {
            let message = "verb is unknown; open the page again and use its buttons".into();
            Err(Refusal::InvalidInput { field: Some("verb".into()), message }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::board::plan::PlannedPriority;

    use super::*;
    use callboard_domain::ids::Id;

    #[test]
    fn one_message_holds_every_comment() {
        let task = |title: &str| PlannedTask {
            title: title.into(),
            mode: Mode::Auto,
            description: String::new(),
            acceptance_criteria: Vec::new(),
            priority: PlannedPriority::Medium,
        };
        let plan = Plan {
            id: PlanId(Id(1)),
            by: "agent:p".parse().expect("an actor"),
            at: Timestamp(0),
            tasks: vec![task("Clock"), task("Queue")],
            todos: Vec::new(),
            state: PlanState::Draft,
        };
        assert_eq!(name(&plan), "Clock and 1 more");
        for (fields, message) in [
            (&[][..], None),
            (&[("text", " ")], None),
            (&[("text", "no\r\nway")], Some("no\nway")),
            (&[("task-2", "late")], Some("2. Queue: late")),
            (&[("task-1", "a"), ("text", "b"), ("task-2", " ")], Some("b\n\n1. Clock: a")),
            (&[("task-0", "a"), ("task-3", "b"), ("task-x", "c"), ("once", "d")], None),
        ] {
            let fields: Vec<(String, String)> =
                fields.iter().map(|(field, text)| ((*field).into(), (*text).into())).collect();
            assert_eq!(Words::of(&fields).message(&plan).as_deref(), message, "{fields:?}");
        }
    }
}
