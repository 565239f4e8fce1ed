//! The inbox: what needs a person, and the one next action of each. An agent that stands still comes first.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::inbox::{Inbox, InboxCause, InboxKind, InboxRow, InboxWanted};
use callboard_domain::review::snooze::{Snooze, SnoozeUntil};
use callboard_domain::time::Timestamp;
use callboard_engine::{BoardProjects, EngineError, InboxQuery, TaskFilter};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View, at_work};
use super::inbox_matter::InboxMatter;
use super::parts::{Choice, Tone, age, empty, icon, note, tabs, title_link};
use super::query::address;
use super::{Page, board, done, said};

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous row"),
    ("y x", "allow and refuse"),
    ("e", "snooze"),
    ("o", "open the task"),
    ("r", "open the review"),
    ("l", "open the run"),
    ("a", "make the tasks of a plan"),
];
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The state of the inbox in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct InboxAsked {
    /// A tab: `review`, `question`, `broken`, `plan`, `mail`.
    #[serde(default)]
    kind: String,
    /// The key of the row that is shown beside the list.
    #[serde(default)]
    at: String,
    /// Shows the rows that were put off.
    #[serde(default)]
    snoozed: String,
}

impl InboxAsked {
    fn address(&self, at: &str) -> String {
        let fields = [("kind", self.kind.as_str()), ("snoozed", &self.snoozed), ("at", at)];
        let given: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        if given.is_empty() { "/".into() } else { format!("/{}", address(&given, &[])) }
    }
}

pub(super) async fn show(page: Page, Query(asked): Query<InboxAsked>) -> Response {
    match shown(&page, &asked, StatusCode::OK, None).await {
        Ok(response) => response,
        Err(error) => page.failure(Screen::Inbox, &error).await,
    }
}

async fn shown(
    page: &Page,
    asked: &InboxAsked,
    status: StatusCode,
    fault: Option<&str>,
) -> Result<Response, EngineError> {
    let found = page.engine.inbox_list(&page.op(), query(page, asked).await?).await?;
    let (inbox, now) = (found.it, found.now);
    let chosen = inbox.rows.iter().find(|row| row.key == asked.at).or(inbox.rows.first());
    let is_new = inbox.total() == 0 && is_new(page).await?;
    let detail = match chosen {
        Some(row) => Some(InboxMatter::of(page, row, after(asked, &inbox, row), now).await?),
        None => None,
    };
    let meanwhile = match inbox.rows.is_empty() && !is_new {
        true => meanwhile(page).await?,
        false => html! {},
    };
    let content = html! {
        @if let Some(words) = fault { div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) } })) } }
        div.split.has-chosen[!asked.at.is_empty()] {
            div #inbox data-live {
                (kinds(asked, &inbox))
                @if is_new { (board::nothing()) }
                @else if inbox.rows.is_empty() { (nothing(page, asked, &meanwhile)) }
                @else { (rows(asked, &inbox, chosen.map(|row| row.key.as_str()), now)) }
            }
            div.split-pane { div.split-body {
                @if let Some(matter) = &detail { (matter.shown(page)) }
            } }
        }
    };
    let mut view = View::of(Screen::Inbox, Screen::Inbox.title(), content);
    view.facts =
        html! { (inbox.total()) @if inbox.total() == 1 { " needs" } @else { " need" } " you" };
    view.says_at_work = true;
    view.keys = KEYS;
    Ok(page.show(status, view).await)
}

/// The address of the row that is chosen after an action on this one: the next row, else the one before.
fn after(asked: &InboxAsked, inbox: &Inbox, row: &InboxRow) -> String {
    let place = inbox.rows.iter().position(|known| known.key == row.key).unwrap_or_default();
    let next = inbox.rows.get(place + 1).or(place.checked_sub(1).and_then(|at| inbox.rows.get(at)));
    asked.address(next.map_or("", |next| &next.key))
}

/// The rows that the reader asked for, without those that were put off.
async fn query(page: &Page, asked: &InboxAsked) -> Result<InboxQuery, EngineError> {
    let kinds = InboxKind::parse(&asked.kind).into_iter().collect();
    let (snoozed, only_snoozed) = (snoozed(page).await?, !asked.snoozed.is_empty());
    let wanted = InboxWanted { kinds, snoozed, only_snoozed, limit: 0 };
    Ok(InboxQuery { projects: BoardProjects::All, wanted })
}

/// The keys that the reader put off, each until a moment.
pub(super) async fn snoozed(page: &Page) -> Result<Vec<(String, Timestamp)>, EngineError> {
    let snoozed = page.engine.snooze_list(&page.op()).await?;
    // A snooze until a change is kept under the row's key, which a changed matter does not have.
    let until = |snooze: Snooze| match snooze.until {
        SnoozeUntil::Time(at) => (snooze.key, at),
        SnoozeUntil::Changes { .. } => (snooze.key, Timestamp(i64::MAX)),
    };
    Ok(snoozed.into_iter().map(until).collect())
}

/// Whether the org has no task yet.
async fn is_new(page: &Page) -> Result<bool, EngineError> {
    let any = TaskFilter { limit: 1, ..TaskFilter::default() };
    Ok(page.engine.task_list(&page.op(), any).await?.it.is_empty())
}

fn kinds(asked: &InboxAsked, inbox: &Inbox) -> Markup {
    let count = |kind: InboxKind| inbox.counts.get(&kind).copied().unwrap_or_default();
    let all = [
        (InboxKind::Review, "Reviews"),
        (InboxKind::Question, "Questions"),
        (InboxKind::Broken, "Broken"),
        (InboxKind::Plan, "Plans"),
        (InboxKind::Mail, "Mail"),
    ];
    let shown = all.into_iter().filter(|(kind, _)| count(*kind) > 0 || kind.as_str() == asked.kind);
    let first = Choice {
        href: "/".into(),
        word: "All",
        count: Some(inbox.counts.values().sum::<usize>().to_string()),
        is_current: asked.kind.is_empty() && asked.snoozed.is_empty(),
    };
    let choices = shown.map(|(kind, word)| Choice {
        href: format!("/?kind={}", kind.as_str()),
        word,
        count: Some(count(kind).to_string()),
        is_current: asked.kind == kind.as_str(),
    });
    let put_off = (inbox.snoozed > 0 || !asked.snoozed.is_empty()).then(|| Choice {
        href: "/?snoozed=1".into(),
        word: "Snoozed",
        count: Some(inbox.snoozed.to_string()),
        is_current: !asked.snoozed.is_empty(),
    });
    html! { div.bar { (tabs("Kinds", [first].into_iter().chain(choices).chain(put_off))) } }
}

/// What goes on while nothing needs a person: who is at work, and the task that comes next.
async fn meanwhile(page: &Page) -> Result<Markup, EngineError> {
    let at_work = sentence(&at_work(&page.counts().await?));
    let next = page.engine.task_next(&page.op(), 1).await?.it.into_iter().next();
    Ok(html! {
        p {
            (at_work) " "
            @match next {
                Some(next) => { "Next in the queue is " (title_link(&next.task)) "." }
                None => "No task is free to start.",
            }
        }
    })
}

/// The words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).chain(['.']).collect()
    })
}

fn nothing(page: &Page, asked: &InboxAsked, meanwhile: &Markup) -> Markup {
    let words = html! {
        @if asked.kind.is_empty() {
            (meanwhile)
            p { "Reviews, questions and failures appear here." }
        } @else {
            p { "Nothing of this kind waits. " a href="/" { "Everything that waits" } }
        }
        p.row {
            a.button href=(Screen::Board.path()) { "Watch the board" }
            @if page.acts() { a.button href="/tasks/new" { "New task" } }
        }
    };
    empty("inbox", "Nothing needs you", &words)
}

fn rows(asked: &InboxAsked, inbox: &Inbox, chosen: Option<&str>, now: Timestamp) -> Markup {
    let (standing, waiting): (Vec<_>, Vec<_>) =
        inbox.rows.iter().partition(|row| row.cause.is_standing());
    let group = |title: &str, order: &str, rows: &[&InboxRow]| {
        html! {
            @if !rows.is_empty() {
                h2.inbox-head { (title) span { (order) } }
                ul data-rows { @for row in rows { (item(asked, row, chosen, now)) } }
            }
        }
    };
    html! {
        (group("An agent stands still until you act", "soonest first", &standing))
        (group("Waiting for you", "oldest first", &waiting))
        @if inbox.more > 0 { p.pad.faint { (inbox.more) " more; they appear when these are done." } }
    }
}

fn item(asked: &InboxAsked, row: &InboxRow, chosen: Option<&str>, now: Timestamp) -> Markup {
    let (tone, glyph, word) = looks(row.cause);
    // A row that leaves says what happened to its task.
    let about = row.task.as_ref().map(|task| format!("/tasks/{}", task.name));
    html! {
        li.item id={ "row-" (row.key) } data-about=[about] {
            span class={ "glyph " (tone.class()) } { (icon(glyph)) }
            a.item-title.cover href=(asked.address(&row.key)) data-row
                aria-current=[(chosen == Some(row.key.as_str())).then_some("true")] { bdi { (row.title) } }
            (age(row.since, now))
            p.item-words {
                span class={ "tone " (tone.class()) } { (word) } " "
                @if let Some(who) = &row.actor { (who.as_str().split_once(':').map_or(who.as_str(), |(_, name)| name)) " · " }
                bdi { (row.consequence) }
            }
        }
    }
}

pub(super) fn looks(cause: InboxCause) -> (Tone, &'static str, &'static str) {
    match cause {
        InboxCause::Question => (Tone::Person, "ask", "Question"),
        InboxCause::Silent => (Tone::Late, "sleep", "Silent"),
        InboxCause::Conflict => (Tone::Failed, "warn", "Conflict"),
        InboxCause::Checks => (Tone::Failed, "failed", "Checks"),
        InboxCause::Merge => (Tone::Proved, "merge", "Merge"),
        InboxCause::Review => (Tone::Person, "review", "Review"),
        InboxCause::Run => (Tone::Failed, "failed", "Run"),
        InboxCause::Worker => (Tone::Failed, "failed", "Worker"),
        InboxCause::Blocker => (Tone::Late, "lock", "Blocked"),
        InboxCause::Disk => (Tone::Late, "warn", "Disk"),
        InboxCause::Plan => (Tone::Person, "plan", "Plan"),
        InboxCause::Mail => (Tone::Quiet, "mail", "Mail"),
    }
}

#[derive(Deserialize)]
pub(super) struct SnoozeForm {
    key: String,
    #[serde(rename = "for")]
    long: String,
    /// The page to go on with.
    #[serde(default)]
    next: String,
}

pub(super) async fn snooze(page: Page, Form(form): Form<SnoozeForm>) -> Response {
    let now = page.engine.now();
    let until = match form.long.as_str() {
        "hour" => SnoozeUntil::Time(now.plus_ms(HOUR_MS)),
        "day" => SnoozeUntil::Time(now.plus_ms(DAY_MS)),
        _ => SnoozeUntil::Changes { fingerprint: form.key.clone() },
    };
    match page.engine.snooze_set(&page.op(), Snooze { key: form.key, until }).await {
        Ok(()) => done(&form.next, "Put off. The row comes back by itself."),
        Err(error) => refused(&page, &error).await,
    }
}

/// The inbox again, with the reason why nothing changed.
async fn refused(page: &Page, error: &EngineError) -> Response {
    let (status, words) = said(error);
    match shown(page, &InboxAsked::default(), status, Some(&words)).await {
        Ok(response) => response,
        Err(error) => page.failure(Screen::Inbox, &error).await,
    }
}
