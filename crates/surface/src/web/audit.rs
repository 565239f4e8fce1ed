//! The log of events: who did what, when. Names and codes only; the export has the whole events.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::board::filter::{
    FilterHint, FilterTerm, FilterText, FilterWants, without_each,
};
use callboard_domain::event::{EventName, EventTerm, EventTerms, LoggedEvent, plain, short};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::time::Timestamp;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{EngineError, EventPage, EventTask};
use futures_util::stream;
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::jobs::short as last_of;
use super::parts::{Choice, Tone, actor, empty, filter_field, filter_terms, icon, tabs};
use super::query::address;
use crate::events::document;
use crate::task_name;

const EVENTS_SHOWN: usize = 100;
/// How many events one part of an export has.
const EVENTS_EXPORTED: usize = 500;
/// The header of an export: the log is whole from this number on.
const WHOLE_FROM: HeaderName = HeaderName::from_static("callboard-whole-from");
const WORDS_CHARS_MAX: usize = 160;
/// How many tasks that the words of an event name are looked up.
const NAMED_MAX: usize = 8;
const REFUSED: &str = "verb:call.refused";
const ABOUT_TASKS: &str =
    "Events are found by words, actor, verb, task and since; another key was left out.";
const KEYS: &[(&str, &str)] = &[("f", "filter"), ("s", "show new events")];

/// The filter of a page, as the address has it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct AuditRequest {
    #[serde(default)]
    q: String,
    #[serde(default)]
    before: String,
}

impl AuditRequest {
    /// An address with this filter.
    fn address(&self, path: &str, before: Option<u64>) -> String {
        let before = before.map(|before| before.to_string());
        let filter = ("q", self.q.trim());
        let kept = [filter].into_iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<(&str, &str)> =
            kept.chain(before.as_deref().map(|before| ("before", before))).collect();
        match parts.is_empty() {
            true => path.to_owned(),
            false => format!("{path}{}", address(&parts, &[])),
        }
    }

    /// The conditions, and a hint for each part that has no effect. `None`: no event can fit.
    async fn terms(
        &self,
        page: &Page,
        now: Timestamp,
    ) -> Result<(Option<EventTerms>, Vec<String>), EngineError> {
        let filter = FilterText::parse(&self.q);
        let mut hints: Vec<String> = filter.hints.iter().map(FilterHint::message).collect();
        let mut terms = EventTerms::default();
        let mut is_lost = false;
        for FilterTerm { is_not, wants } in filter.terms {
            let term = |text: String| EventTerm { is_not, text };
            match wants {
                FilterWants::Words(text) => terms.words.push(term(text)),
                FilterWants::Actor(text) => terms.actors.push(term(text)),
                FilterWants::Verb(text) => terms.verbs.push(term(text)),
                FilterWants::Since(ms) if !is_not => terms.since = Some(now.plus_ms(-ms)),
                FilterWants::Task(text) if !is_not => {
                    terms.task = task_name::task_of(&page.engine, &page.op(), &text).await?;
                    if terms.task.is_none() {
                        is_lost = true;
                        hints.push(format!("No task has the name {text}."));
                    }
                }
                FilterWants::Since(_) | FilterWants::Task(_) => {
                    hints.push("since and task take no minus here, and were left out.".into());
                }
                FilterWants::Epic(_)
                | FilterWants::Check(_)
                | FilterWants::Label(_)
                | FilterWants::Phase(_)
                | FilterWants::Priority(_)
                | FilterWants::Project(_) => hints.push(ABOUT_TASKS.into()),
            }
        }
        if terms.names().is_empty() {
            hints.push("No event has this name. Names are like task.claimed.".into());
        }
        Ok(((!is_lost).then_some(terms), hints))
    }
}

/// The page as it was asked for, with its events.
struct AuditFound {
    page: EventPage,
    tasks: HashMap<TaskId, EventTask>,
    hints: Vec<String>,
    /// How many calls were refused under the filter, and whether the number is exact.
    refused: (usize, bool),
    now: Timestamp,
}

pub(super) async fn list(page: Page, Query(asked): Query<AuditRequest>) -> Response {
    match found(&page, &asked).await {
        Ok(found) => {
            let content = html! {
                (bar(&asked, &found))
                div.pad { (events(&asked, &found)) }
            };
            let facts = html! { @if let Some(seen) = page.seen {
                (seen) " events, numbered in commit order"
                @if hides_heartbeats(&asked) { "; heartbeats are left out" }
            } };
            let view = View {
                facts,
                keys: KEYS,
                twin: "callboard log",
                ..View::of(Screen::Audit, Screen::Audit.title(), content)
            };
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Audit, &error).await,
    }
}

async fn found(page: &Page, asked: &AuditRequest) -> Result<AuditFound, EngineError> {
    let before = match asked.before.trim() {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            EngineError::from(Refusal::invalid("before: this is not the number of an event"))
        })?),
    };
    let now = page.engine.store().now();
    let (terms, hints) = asked.terms(page, now).await?;
    let op = page.op();
    let page_of = match &terms {
        None => EventPage { events: Vec::new(), next: None, is_cut: false, whole_from: None },
        Some(terms) => page.engine.event_page(&op, terms, before, EVENTS_SHOWN).await?,
    };
    let tasks = page_of.events.iter().flat_map(named_in).collect();
    let tasks = page.engine.event_tasks(&op, tasks).await?;
    let refused = match &terms {
        None => (0, true),
        Some(terms) => page.engine.calls_refused(&op, terms).await?,
    };
    Ok(AuditFound { page: page_of, tasks, hints, refused, now })
}

/// A part of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPart {
    Events,
    Decisions,
    Refused,
}

/// The links between the parts of the record. The refused calls are those of the filter, with their count.
pub(super) fn parts_of_record(
    current: RecordPart,
    filter: &str,
    (refused, is_exact): (usize, bool),
) -> Markup {
    let filter = without_verbs(filter);
    let events = AuditRequest { q: filter.clone(), ..AuditRequest::default() };
    let calls = AuditRequest { q: format!("{filter} {REFUSED}"), ..AuditRequest::default() };
    let choice =
        |href: String, part, word, count| Choice { href, word, count, is_current: current == part };
    let count = format!("{refused}{}", if is_exact { "" } else { "+" });
    html! { div #parts data-live { (tabs(
        "Parts of the record",
        [
            choice(events.address("/audit", None), RecordPart::Events, "Events", None),
            choice("/decisions".into(), RecordPart::Decisions, "Decisions", None),
            choice(calls.address("/audit", None), RecordPart::Refused, "Refused calls", Some(count)),
        ],
    )) } }
}

/// A filter without its terms for names of events.
fn without_verbs(filter: &str) -> String {
    let mut left = filter.trim().to_owned();
    let is_verb = |(term, _): &(String, String)| term.trim_start_matches('-').starts_with("verb:");
    while let Some((_, without)) = without_each(&left).into_iter().find(is_verb) {
        left = without;
    }
    left
}

/// Whether a filter asks for refused calls.
fn is_refusals(filter: &str) -> bool {
    filter.split_whitespace().any(|term| term == REFUSED)
}

fn bar(asked: &AuditRequest, found: &AuditFound) -> Markup {
    let current = match is_refusals(&asked.q) {
        true => RecordPart::Refused,
        false => RecordPart::Events,
    };
    let actors = found.page.events.iter().map(|event| &event.actor);
    let terms = filter_terms(|key| matches!(key, "actor" | "since" | "task"), actors, &[]);
    html! {
        div.bar {
            (filter_field(
                "/audit", &asked.q, "actor:claude-1 verb:task. since:1d -word", &[],
                terms.into_iter().chain(EventName::ALL.iter().map(|name| (format!("verb:{}", name.as_str()), ""))),
            ))
            (parts_of_record(current, &asked.q, found.refused))
            a.button.button-bare.bar-end href=(asked.address("/audit.ndjson", None)) download {
                (icon("file")) "NDJSON"
            }
            @for hint in &found.hints { p.filter-hint { (hint) } }
        }
    }
}

fn events(asked: &AuditRequest, found: &AuditFound) -> Markup {
    // An older page does not change.
    let is_live = asked.before.trim().is_empty();
    let next = found.page.next.map(|next| (next, asked.address("/audit", Some(next))));
    html! {
        div #log data-live[is_live] {
            @if found.page.events.is_empty() { (nothing(asked, found.page.is_cut)) }
            @else {
                div.box {
                    table.table.audit {
                        thead { tr {
                            th scope="col" { "No." } th scope="col" { "At, UTC" } th scope="col" { "Who" }
                            th scope="col" { "Event" } th scope="col" { "Task" } th scope="col" { "With" }
                        } }
                        tbody #events data-rows="wait" { @for event in &found.page.events { (row(event, found)) } }
                    }
                }
            }
            @if let Some((next, href)) = next {
                p.audit-next {
                    @if found.page.is_cut { "Looked down to event " (next) ". " }
                    a href=(href) { "Older, below " (next) }
                }
            }
            @if let Some(seq) = found.page.whole_from {
                p.audit-next.soft {
                    "The log is whole from event " (seq) " on. Older events of closed tasks were removed ("
                    code { "retention.events_days" } ")."
                }
            }
        }
    }
}

fn nothing(asked: &AuditRequest, is_cut: bool) -> Markup {
    if asked.q.trim().is_empty() && asked.before.trim().is_empty() && !is_cut {
        let words = html! { p { "Everything that people and agents do is written down here, in its order." } };
        return empty("audit", "No event yet", &words);
    }
    let is_refusals = is_refusals(&asked.q);
    let words = match (is_cut, is_refusals) {
        (true, _) => "Earlier events were not looked at yet.",
        (false, true) => "Refused calls of the board's tools are kept here, each with its code.",
        (false, false) => "Drop a word of the filter, or choose a longer time.",
    };
    let drops = if asked.q.trim() == REFUSED { Vec::new() } else { without_each(&asked.q) };
    empty(
        "audit",
        if is_refusals { "No call was refused" } else { "No event matches" },
        &html! {
            p { (words) }
            @if drops.len() > 1 {
                p { @for (n, (term, left)) in drops.iter().enumerate() {
                    @if n > 0 { " · " }
                    @let without = AuditRequest { q: left.clone(), ..AuditRequest::default() };
                    a href=(without.address("/audit", None)) { "without " code { (term) } }
                } }
            }
            p { a href="/audit" { "Show all events" } }
        },
    )
}

fn row(event: &LoggedEvent, found: &AuditFound) -> Markup {
    let whole = plain(&short(event));
    let with: String = with_short_ids(&whole, found).chars().take(WORDS_CHARS_MAX).collect();
    html! {
        tr #{ "e-" (event.seq) } {
            td.mono.faint { (event.seq) }
            td { (clock(event.at, found.now)) }
            td { (actor(&event.actor)) }
            td class={ "mono " (tone(event).class()) } { span.tone { (event.name.as_str()) } }
            td { @if let Some(task) = event.task() { (task_cell(task, found)) } }
            td.faint { bdi title=(whole) { (with) } }
        }
    }
}

/// The task of an event, and those that its words name.
fn named_in(event: &LoggedEvent) -> Vec<TaskId> {
    let words = plain(&short(event));
    let named = words.split(' ').filter_map(|word| word.trim_end_matches(',').parse().ok());
    event.task().into_iter().chain(named.take(NAMED_MAX)).collect()
}

/// The words with ids as people compare them: the short name of a task that the page knows, else the last characters.
fn with_short_ids(words: &str, found: &AuditFound) -> String {
    let is_id = |word: &str| {
        word.rsplit_once('_')
            .is_some_and(|(_, id)| id.len() == 26 && id.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let shown = words.split(' ').map(|part| {
        let word = part.trim_end_matches(',');
        let comma = &part[word.len()..];
        match word.parse::<TaskId>() {
            Ok(task) => match found.tasks.get(&task) {
                Some(known) => format!("{}{comma}", known.name),
                None => format!("{}{comma}", last_of(word)),
            },
            Err(_) if is_id(word) => format!("{}{comma}", last_of(word)),
            Err(_) => part.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Heartbeats are events, too; they are listed for a filter that names events.
fn hides_heartbeats(asked: &AuditRequest) -> bool {
    let terms = FilterText::parse(&asked.q).terms;
    !terms.iter().any(|term| matches!(term.wants, FilterWants::Verb(_)) && !term.is_not)
}

fn task_cell(task: TaskId, found: &AuditFound) -> Markup {
    html! {
        @match found.tasks.get(&task) {
            Some(EventTask { name, title }) => {
                a href={ "/tasks/" (name) } data-row { span.id { (name) } " " bdi { (title) } }
            }
            None => span.faint { "removed, " code { (task) } },
        }
    }
}

/// The time of day, with the date where it is not today's.
fn clock(at: Timestamp, now: Timestamp) -> Markup {
    let (text, today) = (rfc3339_ms(at), rfc3339_ms(now));
    let (date, time) = (&text[..10], &text[11..19]);
    html! {
        time datetime=(text) title=(text) {
            @if *date == today[..10] { (time) } @else { (date[5..]) " " (time[..5]) }
        }
    }
}

/// The colour of an event. Its name says the same.
fn tone(event: &LoggedEvent) -> Tone {
    let verb = event.name.as_str().split_once('.').map_or("", |(_, verb)| verb);
    match event.name {
        EventName::CheckRan | EventName::CheckAttested => match event.read().is_pass() {
            true => Tone::Proved,
            false => Tone::Failed,
        },
        EventName::JobAsked
        | EventName::JobAnswered
        | EventName::ReviewRequested
        | EventName::PlanProposed
        | EventName::MailSent
        | EventName::TaskTold
        | EventName::CommentAdded => Tone::Person,
        EventName::AttemptStarted
        | EventName::JobStarted
        | EventName::JobTaken
        | EventName::TaskClaimed
        | EventName::TaskHeard
        | EventName::AgentAdded => Tone::Now,
        EventName::TaskStatusChanged => match event.data["phase"].as_str().and_then(Phase::parse) {
            Some(Phase::ClosedDone) => Tone::Proved,
            Some(Phase::Review) => Tone::Person,
            Some(Phase::Working) => Tone::Now,
            Some(Phase::Initial | Phase::ClosedCanceled) | None => Tone::Plain,
        },
        _ => match verb {
            "failed" | "refused" | "rejected" => Tone::Failed,
            "expired" | "stale" | "blocked" => Tone::Late,
            "approved" | "completed" | "merged" | "passed" | "succeeded" => Tone::Proved,
            _ => Tone::Plain,
        },
    }
}

/// The events of a filter, the newest first, one JSON document a line. The answer is a stream: nothing is held but one
/// part of it.
pub(super) async fn export(page: Page, Query(asked): Query<AuditRequest>) -> Response {
    let now = page.engine.store().now();
    let terms = match asked.terms(&page, now).await {
        Ok((Some(terms), _)) => terms,
        Ok((None, _)) => {
            let refused = Refusal::invalid("task: no task has this name");
            return page.failure(Screen::Audit, &refused.into()).await;
        }
        Err(error) => return page.failure(Screen::Audit, &error).await,
    };
    let floor = match page.engine.log_floor().await {
        Ok(floor) => floor,
        Err(error) => return page.failure(Screen::Audit, &error).await,
    };
    // The first part decides on the status; a later failure ends the stream early.
    let first = match page.engine.event_page(&page.op(), &terms, None, EVENTS_EXPORTED).await {
        Ok(first) => first,
        Err(error) => return page.failure(Screen::Audit, &error).await,
    };
    let parts = stream::unfold(Some(Ok(first)), move |part| {
        let (engine, op, terms) = (page.engine.clone(), page.op(), terms.clone());
        async move {
            let part: EventPage = match part? {
                Ok(part) => part,
                Err(error) => return Some((Err(std::io::Error::other(said(&error))), None)),
            };
            let next = match part.next {
                None => None,
                Some(_) => Some(engine.event_page(&op, &terms, part.next, EVENTS_EXPORTED).await),
            };
            let lines: String =
                part.events.iter().map(|event| format!("{}\n", document(event))).collect();
            Some((Ok(lines), next))
        }
    });
    // The export of a log that lost its beginning says so, because its lines cannot.
    let mut whole_from = HeaderMap::new();
    if floor.is_raised() {
        whole_from.insert(WHOLE_FROM, floor.seq.into());
    }
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.ndjson\""),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, whole_from, Body::from_stream(parts)).into_response()
}

fn said(error: &EngineError) -> String {
    tracing::warn!(%error, "an export of the log ended early");
    "the log cannot be read now".into()
}

#[cfg(test)]
mod tests {
    use callboard_domain::event::About;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_keeps_the_filter() {
        let asked = AuditRequest { q: " a&b since:1d ".into(), ..AuditRequest::default() };
        assert_eq!(asked.address("/audit", Some(7)), "/audit?q=a%26b%20since:1d&before=7");
        assert_eq!(AuditRequest::default().address("/audit", None), "/audit");
    }

    #[test]
    fn the_parts_of_the_record_keep_the_filter() {
        for (filter, events, refused) in [
            ("", "/audit", "/audit?q=verb:call.refused"),
            ("verb:call.refused", "/audit", "/audit?q=verb:call.refused"),
            (
                "since:1d -verb:task. actor:w1",
                "/audit?q=since:1d%20actor:w1",
                "/audit?q=since:1d%20actor:w1%20verb:call.refused",
            ),
        ] {
            let shown = parts_of_record(RecordPart::Refused, filter, (1000, false)).into_string();
            for href in [events, refused] {
                assert!(shown.contains(&format!("href=\"{href}\"")), "{href}: {shown}");
            }
            assert!(shown.contains("Refused calls <span class=\"faint\">1000+</span>"), "{shown}");
        }
    }

    #[test]
    fn a_row_shows_names_and_codes_and_escapes_them() {
        let event = LoggedEvent {
            seq: 7,
            at: Timestamp(0),
            actor: "agent:w1".parse().expect("an actor"),
            name: EventName::CallRefused,
            about: None::<About>,
            data: json!({"code": "<b>", "text": "secret words", "tool": "claim"}),
        };
        let page = EventPage { events: Vec::new(), next: None, is_cut: false, whole_from: None };
        let found = AuditFound {
            page,
            tasks: HashMap::new(),
            hints: Vec::new(),
            refused: (0, true),
            now: Timestamp(0),
        };
        let shown = row(&event, &found).into_string();
        assert!(shown.contains("code &lt;b&gt;, tool claim"), "{shown}");
        assert!(!shown.contains("secret words"), "{shown}");
        assert!(shown.contains("id=\"e-7\"") && shown.contains("00:00:00"), "{shown}");
    }
}
