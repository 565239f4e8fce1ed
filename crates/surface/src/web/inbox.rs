//! The inbox: what needs a person, and the one next action of each. An agent that stands still comes first.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::inbox::{
    Inbox, InboxCause, InboxFact, InboxKind, InboxRow, InboxWanted,
};
use callboard_domain::review::snooze::{Snooze, SnoozeUntil};
use callboard_domain::time::Timestamp;
use callboard_engine::{BoardProjects, EngineError, InboxQuery, TaskFilter};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::parts::{
    Choice, Tone, actor, age, empty, icon, note, pips, prose, span, tabs, title_link,
};
use super::query::address;
use super::task::{TaskSeen, seen};
use super::task_verbs::{Verb, form};
use super::{Page, board, done, said};

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous row"),
    ("y x", "allow and refuse"),
    ("e", "snooze"),
    ("o", "open the task"),
    ("r", "open the review"),
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
        format!("/{}", address(&given, &[]))
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
        Some(row) => Some((row, chosen_task(page, row).await?)),
        None => None,
    };
    let content = html! {
        @if let Some(words) = fault { div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) } })) } }
        div.split.has-chosen[!asked.at.is_empty()] {
            div #inbox data-live {
                (kinds(asked, &inbox))
                @if is_new { (board::nothing()) }
                @else if inbox.rows.is_empty() { (nothing(page, asked)) }
                @else { (rows(asked, &inbox, chosen.map(|row| row.key.as_str()), now)) }
            }
            div.split-pane { div.split-body {
                @if let Some((row, task)) = &detail { (one(page, row, task.as_ref(), now)) }
            } }
        }
    };
    let mut view = View::of(Screen::Inbox, Screen::Inbox.title(), content);
    view.facts =
        html! { (inbox.total()) @if inbox.total() == 1 { " needs" } @else { " need" } " you" };
    view.keys = KEYS;
    Ok(page.show(status, view).await)
}

/// The rows that the reader asked for, without those that were put off.
pub(super) async fn query(page: &Page, asked: &InboxAsked) -> Result<InboxQuery, EngineError> {
    let kinds = InboxKind::parse(&asked.kind).into_iter().collect();
    let snoozed = page.engine.snooze_list(&page.op()).await?;
    // A snooze until a change is kept under the row's key, which a changed matter does not have.
    let until = |snooze: Snooze| match snooze.until {
        SnoozeUntil::Time(at) => (snooze.key, at),
        SnoozeUntil::Changes { .. } => (snooze.key, Timestamp(i64::MAX)),
    };
    let snoozed = snoozed.into_iter().map(until).collect();
    let only_snoozed = !asked.snoozed.is_empty();
    let wanted = InboxWanted { kinds, snoozed, only_snoozed, limit: 0 };
    Ok(InboxQuery { projects: BoardProjects::All, wanted })
}

/// Whether the org has no task yet.
async fn is_new(page: &Page) -> Result<bool, EngineError> {
    let any = TaskFilter { limit: 1, ..TaskFilter::default() };
    Ok(page.engine.task_list(&page.op(), any).await?.it.is_empty())
}

async fn chosen_task(page: &Page, row: &InboxRow) -> Result<Option<TaskSeen>, EngineError> {
    match &row.task {
        Some(task) => seen(page, task.id).await.map(Some),
        None => Ok(None),
    }
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
        count: Some(inbox.counts.values().sum()),
        is_current: asked.kind.is_empty() && asked.snoozed.is_empty(),
    };
    let choices = shown.map(|(kind, word)| Choice {
        href: format!("/?kind={}", kind.as_str()),
        word,
        count: Some(count(kind)),
        is_current: asked.kind == kind.as_str(),
    });
    let put_off = (inbox.snoozed > 0 || !asked.snoozed.is_empty()).then(|| Choice {
        href: "/?snoozed=1".into(),
        word: "Snoozed",
        count: Some(inbox.snoozed),
        is_current: !asked.snoozed.is_empty(),
    });
    html! { div.bar { (tabs("Kinds", [first].into_iter().chain(choices).chain(put_off))) } }
}

fn nothing(page: &Page, asked: &InboxAsked) -> Markup {
    let words = html! {
        @if asked.kind.is_empty() {
            p { "Agents go on by themselves. Reviews, questions and failures appear here." }
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
    html! {
        li.item id={ "row-" (row.key) } {
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

fn looks(cause: InboxCause) -> (Tone, &'static str, &'static str) {
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
        InboxCause::Plan => (Tone::Person, "plan", "Plan"),
        InboxCause::Mail => (Tone::Plain, "mail", "Mail"),
    }
}

/// The chosen row, with its verbs in place.
fn one(page: &Page, row: &InboxRow, task: Option<&TaskSeen>, now: Timestamp) -> Markup {
    let (tone, _, word) = looks(row.cause);
    html! {
        div.stack-tight {
            p.dots {
                span class={ "tone " (tone.class()) } { (word) }
                @if let Some(who) = &row.actor { (actor(who)) }
                @if let Some(task) = task { (title_link(task.task())) span.id { (task.task().name()) } }
                span.faint { "for " (span(now.ms_since(row.since))) }
            }
            h2.inbox-title { bdi { (row.title) } }
        }
        (matter(page, row, task, now))
        @if let Some(task) = task { (standing(task)) }
        div.row {
            @if let Some(task) = task {
                a.button href={ "/tasks/" (task.task().name()) } data-key="o" { (icon("words")) "Open the task" kbd { "o" } }
            }
            @if page.acts() { (snooze_form(row)) }
        }
    }
}

/// What happened, and the verbs that decide it.
fn matter(page: &Page, row: &InboxRow, task: Option<&TaskSeen>, now: Timestamp) -> Markup {
    let verbs = |verbs: &[Verb]| {
        html! {
            @if let Some(task) = task.filter(|_| page.acts()) {
                div.row { @for verb in verbs { (form(page, task.task(), *verb)) } }
            }
        }
    };
    let review = |words: &str| {
        html! {
            @if let Some(task) = task {
                p.row {
                    a.button.button-main href={ "/tasks/" (task.task().name()) "/review" } data-key="r" {
                        (icon("review")) (words) kbd { "r" }
                    }
                }
            }
        }
    };
    match &row.fact {
        InboxFact::Question { job, number, text, command } => html! {
            section.asked {
                p.asked-head {
                    (icon("ask")) bdi { (text) }
                    @if let Some(deadline) = row.deadline {
                        span.row-end.faint { "refused in " (span(deadline.ms_since(now))) }
                    }
                }
                @if let Some(command) = command { pre { (command) } }
                @if page.acts() {
                    form.row method="post" action="/inbox/answer" {
                        input type="hidden" name="job" value=(job);
                        input type="hidden" name="number" value=(number);
                        button.button.button-main name="allow" value="yes" data-key="y" { "Allow once" kbd { "y" } }
                        button.button name="allow" value="no" data-key="x" { "Refuse" kbd { "x" } }
                        span.faint { "No answer counts as no, and the agent goes on." }
                    }
                }
            }
        },
        InboxFact::Silent => html! {
            (note(Tone::Late, "sleep", &html! { (row.consequence) }))
            (verbs(&[Verb::Tell, Verb::Stop, Verb::Release]))
        },
        InboxFact::Conflict { .. } => {
            html! { (note(Tone::Failed, "warn", &html! { (row.consequence) })) (review("Open review")) }
        }
        InboxFact::Approved => review("Open review and merge"),
        InboxFact::Review { .. } => html! {
            @if let Some(words) = task.and_then(|task| task.card.card.review.as_ref()) { (prose(&words.summary)) }
            (review("Open review"))
        },
        InboxFact::VerificationFailed { reason } => html! {
            (note(Tone::Failed, "failed", &html! { (reason.as_deref().unwrap_or("The verification failed.")) }))
            (verbs(&[Verb::Check, Verb::Tell, Verb::Run]))
        },
        InboxFact::CheckStreak { check, times } => html! {
            (note(Tone::Failed, "failed", &html! { code { (check) } " failed " (times) " times in a row." }))
            (verbs(&[Verb::Tell, Verb::Stop, Verb::Check]))
        },
        InboxFact::RunFailed { job, reason } => html! {
            (note(Tone::Failed, "failed", &html! { bdi { (reason) } }))
            p.row { a.button href={ "/jobs/" (job) } data-key="l" { (icon("job")) "Open the run" kbd { "l" } } }
            (verbs(&[Verb::Run]))
        },
        InboxFact::WorkerFailed { agent } => html! {
            (note(Tone::Failed, "failed", &html! { "The worker " bdi { (agent) } " failed." }))
            p.row { a.button href=(Screen::Agents.path()) { (icon("agents")) "Agents" } }
        },
        InboxFact::Blocked { reason } => html! {
            (note(Tone::Late, "lock", &html! { bdi { (reason) } }))
            (verbs(&[Verb::Unblock, Verb::Tell]))
        },
        InboxFact::Comment { body, .. } => html! {
            (note(Tone::Late, "comment", &prose(body)))
            (verbs(&[Verb::Tell, Verb::Note]))
        },
        InboxFact::Plan { plan, tasks } => html! {
            p { (tasks) " tasks are proposed. Nothing is made before a yes." }
            p.row { a.button.button-main href={ "/plans/" (plan) } { (icon("plan")) "Read the plan" } }
        },
        InboxFact::Mail { mail, .. } => html! {
            p.row { a.button.button-main href={ "/mail/" (mail) } { (icon("mail")) "Read and answer" } }
        },
    }
}

fn standing(task: &TaskSeen) -> Markup {
    let attempt = task.card.record.newest.as_ref();
    html! {
        section.stack-tight {
            h3 { "Where it stands" }
            dl.facts {
                dt { "Task" } dd { (task.state().badge()) }
                @if let Some(attempt) = attempt {
                    dt { "Attempt" } dd { "fence " (attempt.fence) ", began " (super::parts::ago(attempt.started_at, task.now)) }
                }
                @if attempt.is_some_and(|attempt| attempt.is_live(task.now)) {
                    dt { "Lease" } dd { @if let Some(attempt) = attempt { (super::parts::lease(attempt, task.now)) } }
                }
                @if !task.task().checks.is_empty() { dt { "Checks" } dd { (pips(&task.task().checks)) } }
            }
        }
    }
}

fn snooze_form(row: &InboxRow) -> Markup {
    html! {
        details.menu.verb {
            summary.button.button-bare data-key="e" { (icon("clock")) "Snooze" kbd { "e" } }
            form.stack-tight method="post" action="/inbox/snooze" {
                input type="hidden" name="key" value=(row.key);
                button.button name="for" value="hour" { "For an hour" }
                button.button name="for" value="day" { "Until tomorrow" }
                button.button name="for" value="change" { "Until it changes" }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct SnoozeForm {
    key: String,
    #[serde(rename = "for")]
    long: String,
}

pub(super) async fn snooze(page: Page, Form(form): Form<SnoozeForm>) -> Response {
    let now = page.engine.now();
    let until = match form.long.as_str() {
        "hour" => SnoozeUntil::Time(now.plus_ms(HOUR_MS)),
        "day" => SnoozeUntil::Time(now.plus_ms(DAY_MS)),
        _ => SnoozeUntil::Changes { fingerprint: form.key.clone() },
    };
    match page.engine.snooze_set(&page.op(), Snooze { key: form.key, until }).await {
        Ok(()) => done("/", "Put off. The row comes back by itself."),
        Err(error) => refused(&page, &error).await,
    }
}

#[derive(Deserialize)]
pub(super) struct AnswerForm {
    job: String,
    number: u32,
    allow: String,
}

pub(super) async fn answer(page: Page, Form(form): Form<AnswerForm>) -> Response {
    let allow = form.allow == "yes";
    let Ok(job) = form.job.parse() else {
        return done("/", "Nothing was changed: the question is not known.");
    };
    match page.engine.run_answer(&page.op(), job, Some(form.number), allow).await {
        Ok(_) if allow => done("/", "Allowed once. The agent goes on."),
        Ok(_) => done("/", "Refused. The agent goes on without."),
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
