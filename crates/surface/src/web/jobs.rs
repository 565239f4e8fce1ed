//! The jobs: those that are not over in the order they came, with the place in the queue and the reason of each wait;
//! then those that ended.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::filter::{FilterHint, FilterText};
use callboard_domain::runs::filter::{JOB_FILTER_KEYS, says_of_jobs};
use callboard_domain::runs::job::{Job, JobKind, JobState};
use callboard_domain::runs::run::{Question, RunRecord};
use callboard_domain::runs::work::Role;
use callboard_domain::time::Timestamp;
use callboard_engine::{At, JOBS_SEARCHED, JobLine, JobSeen, JobWait, JobWaitsFor, JobsWanted};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::parts::{
    Choice, Tone, actor_named, age, badge, empty, filter_field, filter_terms, icon, span, tabs,
    task_link,
};
use super::query::address;

/// Jobs on the page; its last line says how to see others.
const JOBS_SHOWN: usize = 100;
/// Characters of an id in lists.
const SHORT_CHARS: usize = 5;
/// Characters of a machine's name in the table.
const MACHINE_CHARS: usize = 12;
const KEYS: &[(&str, &str)] =
    &[("j k", "next and previous job"), ("Enter", "open the job"), ("f", "filter")];

/// The word in the address, the tab, and `JobState::as_str`.
type StateChoice = (&'static str, &'static str, Option<&'static str>);

/// Each choice of the list.
const STATES: [StateChoice; 7] = [
    ("", "All", None),
    ("queued", "Queued", Some("queued")),
    ("running", "Running", Some("running")),
    ("failed", "Failed", Some("failed")),
    ("succeeded", "Succeeded", Some("done")),
    ("canceled", "Canceled", Some("canceled")),
    ("expired", "Expired", Some("expired")),
];

#[derive(Default, Deserialize)]
pub(super) struct JobListRequest {
    #[serde(default)]
    state: String,
    /// The filter.
    #[serde(default)]
    q: String,
}

pub(super) async fn list(page: Page, Query(asked): Query<JobListRequest>) -> Response {
    // An unknown state is a link of another version: all jobs are shown.
    let known = STATES.iter().find(|(word, ..)| *word == asked.state).unwrap_or(&STATES[0]);
    let wanted = JobsWanted { state: known.2, every_kind: false, limit: JOBS_SHOWN };
    let filter = FilterText::parse(&asked.q);
    match page.engine.jobs_found(&page.op(), wanted, &filter.terms).await {
        Ok(found) => {
            let orders = found.it.iter().filter_map(|line| line.seen.run.as_ref()?.order.work());
            let actors = orders.map(|order| &order.asked_by);
            let content = html! {
                div.bar {
                    (filter_field(
                        Screen::Jobs.path(), &asked.q, "Filter: words, actor:, epic:, since:1d",
                        &[("state", known.0)], filter_terms(|key| JOB_FILTER_KEYS.contains(&key), actors, &[]),
                    ))
                    (states(known.0, &asked.q))
                    @for hint in hints(&filter) { p.filter-hint { (hint) } }
                }
                div #jobs data-live { (table(&page, &found, known, &asked.q)) }
            };
            let mut view = View::of(Screen::Jobs, Screen::Jobs.title(), content);
            view.facts = facts(&found.it);
            view.keys = KEYS;
            view.twin = "callboard job list";
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Jobs, &error).await,
    }
}

/// What part of the filter has no effect.
fn hints(filter: &FilterText) -> Vec<String> {
    let mut hints: Vec<String> = filter.hints.iter().map(FilterHint::message).collect();
    if !filter.terms.iter().all(|term| says_of_jobs(&term.wants)) {
        let keys = JOB_FILTER_KEYS.join(", ");
        hints.push(format!("Jobs are found by words, {keys}; another key was left out."));
    }
    hints
}

/// The list in this state with this filter.
fn path(state: &str, q: &str) -> String {
    let parts: Vec<_> = [("state", state), ("q", q.trim())]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    match parts.is_empty() {
        true => Screen::Jobs.path().into(),
        false => format!("{}{}", Screen::Jobs.path(), address(&parts, &[])),
    }
}

/// The choice of a state, as tabs.
fn states(current: &str, q: &str) -> Markup {
    let choice = |(word, title, _): (&str, &'static str, _)| Choice {
        href: path(word, q),
        word: title,
        count: None,
        is_current: word == current,
    };
    tabs("Which jobs", STATES.map(choice))
}

/// The counts beside the title, over the jobs on the page.
fn facts(lines: &[JobLine]) -> Markup {
    let count = |state| lines.iter().filter(|line| line.seen.job.state.as_str() == state).count();
    let asking = lines.iter().filter(|line| asks(&line.seen).is_some()).count();
    html! {
        span #job-facts data-live {
            (count("running")) " running, " (count("queued")) " queued"
            @if asking > 0 { ", " (asking) " asking" }
        }
    }
}

fn table(page: &Page, found: &At<Vec<JobLine>>, (word, state, _): &StateChoice, q: &str) -> Markup {
    if found.it.is_empty() && !q.trim().is_empty() {
        let words = html! {
            p { "None of the first " (JOBS_SEARCHED) " jobs matches " code { (q) } "." }
            p { a.button href=(path(word, "")) { "Drop the filter" } }
        };
        return empty("search", "Nothing found", &words);
    }
    if found.it.is_empty() {
        let words = html! {
            p { "A job is one run of an agent, or a piece of work of the server: checks, messages, stops." }
            p { code { "callboard run SHOP-12" } " starts an agent on a task; the page of a task has a button for that." }
        };
        let title = match *state {
            "All" => "No jobs yet".to_owned(),
            state => format!("No job is {}", state.to_lowercase()),
        };
        return empty("job", &title, &words);
    }
    html! {
        div.box.jobs {
            table.table {
                thead { tr { th { "State" } th { "Job" } th { "Asked by" } th { "Machine" } th { "Since" } th { "Id" } } }
                tbody data-rows { @for line in &found.it { (row(page, line, found.now)) } }
            }
        }
        @if found.it.len() == JOBS_SHOWN {
            p.pad-top.faint { "The first " (JOBS_SHOWN) ". Choose a state to see others." }
        }
    }
}

/// One job. Its link covers the title; the id is a second link, out of the order of tabs.
fn row(page: &Page, line: &JobLine, now: Timestamp) -> Markup {
    let JobSeen { job, run } = &line.seen;
    let by = run.as_ref().and_then(|run| run.order.work()).map(|order| &order.asked_by);
    // The machine that runs the job, else the only one that may.
    let machine = run.as_ref().and_then(|run| run.runs_on.as_deref().or(run.bound_to.as_deref()));
    html! {
        tr id=(job.id) {
            td { (state_badge(&line.seen)) }
            td {
                a.job-title href={ "/jobs/" (job.id) } data-row { (what(job, &line.seen)) ": " bdi { (title(line)) } }
                @if let Some(task) = &line.task { " " (task_link(task.name())) }
                (why(line, now))
            }
            td { @if let Some(who) = by { (actor_named(who.as_str())) } }
            td { @if let Some(machine) = machine { (machine_name(page, machine)) } }
            td { (age(job.since(), now)) }
            td { a.id href={ "/jobs/" (job.id) } title=(job.id) tabindex="-1" { (short(&job.id.to_string())) } }
        }
    }
}

/// The line below the title: the question, the wait, the processes that hold the run back, or how it ended.
fn why(line: &JobLine, now: Timestamp) -> Markup {
    let line_of = |tone: Tone, glyph: &str, words: Markup| html! { p class={ "why " (tone.class()) } { (icon(glyph)) span { (words) } } };
    let JobSeen { job, run } = &line.seen;
    if let Some(question) = asks(&line.seen) {
        return line_of(Tone::Person, "ask", html! { "asks: " (asked(&question)) });
    }
    if let Some(wait) = &line.wait {
        return line_of(Tone::Quiet, "clock", wait_words(wait, now));
    }
    // The words of the run are clearer than the code of the reason.
    let said = run.as_ref().and_then(|run| run.summary.clone());
    let failed = match &job.state {
        JobState::Failed { reason, .. } => Some(said.clone().unwrap_or_else(|| reason.clone())),
        _ => None,
    };
    match (failed, said) {
        (Some(words), _) => line_of(Tone::Failed, "warn", html! { bdi { (words) } }),
        (None, Some(words)) => line_of(Tone::Quiet, "words", html! { bdi { (words) } }),
        (None, None) => html! {},
    }
}

/// The place in the queue, and what lets the job begin.
pub(super) fn wait_words(wait: &JobWait, now: Timestamp) -> Markup {
    let place = match wait.place {
        1 => "Next in the queue".to_owned(),
        place => format!("Place {place} in the queue"),
    };
    html! {
        (place) ". "
        @match &wait.why {
            JobWaitsFor::Time(at) => { "The next try comes in " (span(at.ms_since(now))) "." }
            JobWaitsFor::Runner(Some(machine)) => {
                "No process starts agents on " bdi { (machine) } "; " code { "callboard up" } " there does."
            }
            JobWaitsFor::Runner(None) => {
                "No process starts agents; " code { "callboard up" } " or " code { "callboard worker" } " does."
            }
            JobWaitsFor::Place(1) => { "The one place for agents is taken." }
            JobWaitsFor::Place(most) => { "All " (most) " places for agents are taken." }
            JobWaitsFor::Turn => { "A runner takes the job in its turn." }
        }
    }
}

/// The question that the agent of a job waits on.
pub(super) fn asks(seen: &JobSeen) -> Option<Question> {
    let record = RunRecord { job: seen.job.clone(), run: seen.run.clone()? };
    record.asks().cloned()
}

/// The command that a question is about, else its text.
pub(super) fn asked(question: &Question) -> Markup {
    html! { @match &question.command {
        Some(command) => code { (command) },
        None => bdi { (question.text) },
    } }
}

/// The state with glyph and word. An agent that asks waits for a person.
pub(super) fn state_badge(seen: &JobSeen) -> Markup {
    if asks(seen).is_some() {
        return badge(Tone::Person, "ask", "Asks");
    }
    let (tone, glyph, word) = state_words(&seen.job.state);
    badge(tone, glyph, word)
}

/// The tone, the glyph and the word of a state: colour is never the only sign.
pub(super) fn state_words(state: &JobState) -> (Tone, &'static str, &'static str) {
    match state {
        JobState::Queued { .. } => (Tone::Quiet, "blocked", "Queued"),
        JobState::Running { .. } => (Tone::Now, "working", "Running"),
        JobState::Stale { .. } => (Tone::Late, "working", "Stale"),
        JobState::Done { .. } => (Tone::Proved, "done", "Succeeded"),
        JobState::Failed { .. } => (Tone::Failed, "failed", "Failed"),
        JobState::Canceled { .. } => (Tone::Quiet, "canceled", "Canceled"),
        JobState::Expired { .. } => (Tone::Quiet, "canceled", "Expired"),
    }
}

/// The kind of work in a word or two.
pub(super) fn what(job: &Job, seen: &JobSeen) -> &'static str {
    let role = seen.run.as_ref().and_then(|run| run.order.work()).map(|order| order.role);
    match (job.kind, role) {
        (JobKind::Run, _) => "Patch",
        (_, Some(Role::Reviewer)) => "Review",
        (JobKind::Work | JobKind::Crew, _) => "Work",
        (JobKind::Verify, _) => "Verification",
        (JobKind::Check, _) => "Checks",
        (JobKind::Deliver, _) => "Message",
        (JobKind::Stop, _) => "Stop",
        (JobKind::Embed, _) => "Vectors",
    }
}

/// The title of the job's task, or of the order for a patch.
pub(super) fn title(line: &JobLine) -> String {
    let spec = line.seen.run.as_ref().and_then(|run| run.order.patch());
    match (&line.task, spec) {
        (Some(task), _) => task.title.clone(),
        (None, Some(spec)) => spec.task.title.clone(),
        (None, None) if line.seen.job.kind == JobKind::Deliver => "to a webhook".into(),
        (None, None) if line.seen.job.kind == JobKind::Embed => "for knowledge".into(),
        (None, None) => "a task that was removed".into(),
    }
}

/// The last characters of an id, which people compare.
pub(super) fn short(id: &str) -> String {
    let skipped = id.chars().count().saturating_sub(SHORT_CHARS);
    id.chars().skip(skipped).collect()
}

/// A machine by its name. A name that no person chose is long, and its beginning is enough.
pub(super) fn machine_name(page: &Page, name: &str) -> Markup {
    if page.engine.is_here(name) {
        return html! { span title=(name) { "this machine" } };
    }
    let shown: String = name.chars().take(MACHINE_CHARS).collect();
    html! { bdi title=(name) { (shown) @if shown.len() < name.len() { "…" } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_its_place_and_what_lets_the_job_begin() {
        let now = Timestamp(0);
        let table = [
            (1, JobWaitsFor::Turn, "Next in the queue. A runner takes the job in its turn."),
            (3, JobWaitsFor::Place(4), "Place 3 in the queue. All 4 places for agents are taken."),
            (2, JobWaitsFor::Place(1), "Place 2 in the queue. The one place for agents is taken."),
            (
                1,
                JobWaitsFor::Time(Timestamp(90_000_000)),
                "Next in the queue. The next try comes in 1 min.",
            ),
            (
                1,
                JobWaitsFor::Runner(Some("<b>".into())),
                concat!(
                    "Next in the queue. No process starts agents on <bdi>&lt;b&gt;</bdi>; <code>callboard",
                    " up</code> there does."
                ),
            ),
        ];
        for (place, why, words) in table {
            assert_eq!(wait_words(&JobWait { place, why }, now).into_string(), words);
        }
    }

    #[test]
    fn an_id_is_shown_by_its_end() {
        for (id, shown) in [("job_01k0v3e8xq7rjw2m5c9n4d6t0z", "d6t0z"), ("abc", "abc")] {
            assert_eq!(short(id), shown);
        }
    }
}
