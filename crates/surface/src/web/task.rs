//! One task: where it stands and since when, what proves it, what happened, and the verbs of a person.

use std::cmp::Ordering;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::board::card::Mode;
use callboard_domain::board::why::Why;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::runs::job::{Job, JobId};
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Entry, Task, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_engine::{AttemptFilter, CardSeen, EngineError, EpicTask};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::board::why_line;
use super::frame::{Screen, View};
use super::parts::{
    Choice, State, Tone, actor, ago, icon, lease, moment, note, outcome, prose, span, tabs, tag,
    title_link,
};
use super::review::short;
use super::review_checks::{CheckPanel, CheckTail, checks, tails};
use super::task_verbs::{form, verbs_of, why_not};
use crate::task_name;

const PARTS_SHOWN: usize = 200;
const ATTEMPTS_SHOWN: usize = 20;
const DEPS_SHOWN: usize = 20;
/// How many verbs stand in the row; the others are below `More`.
const VERBS_SHOWN: usize = 2;
const KEYS: &[(&str, &str)] = &[
    ("w", "write to its agent"),
    ("c", "run the checks"),
    ("e", "edit"),
    ("r", "open the review"),
    ("d", "open the diff"),
    ("l", "open the log of its agent"),
    (".", "more verbs"),
];

/// Everything that the page shows of a task.
pub(super) struct TaskSeen {
    pub card: CardSeen,
    pub now: Timestamp,
    epic: Option<Task>,
    /// The tasks of an epic, and whether there are more.
    parts: Vec<EpicTask>,
    more: bool,
    attempts: Vec<Attempt>,
    /// The job that runs the checks for review.
    check_job: Option<Job>,
    /// The tasks that it waits for.
    deps: Vec<Task>,
    /// The tasks that wait for it.
    waiters: Vec<Task>,
    /// Whether the board has an agent on the task that it can stop.
    pub stops: bool,
    /// The ends of the logs of checks that fail.
    tails: Vec<CheckTail>,
    /// The newest run whose output can be read.
    log: Option<JobId>,
    /// What an open task waits for, and what lets it go on.
    why: Option<Why>,
    /// Whether the activity shows notes alone.
    only_notes: bool,
}

impl TaskSeen {
    pub fn task(&self) -> &Task {
        &self.card.record.task
    }

    pub fn state(&self) -> State {
        State::of(self.task())
    }
}

/// The state of the page in its address.
#[derive(Default, Deserialize)]
pub(super) struct TaskAsked {
    /// `notes`: only the notes of the activity.
    #[serde(default)]
    show: String,
}

pub(super) async fn show(
    page: Page,
    Path(text): Path<String>,
    Query(asked): Query<TaskAsked>,
) -> Response {
    let id = match found(&page, &text).await {
        Ok(id) => id,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    match seen(&page, id).await {
        // Links and bookmarks have the short name.
        Ok(seen) if text != seen.task().name().to_string() => {
            Redirect::to(&format!("/tasks/{}", seen.task().name())).into_response()
        }
        Ok(mut seen) => {
            seen.only_notes = asked.show == "notes";
            shown(&page, StatusCode::OK, &seen, None).await
        }
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

/// The task with this id or short name.
pub(super) async fn found(page: &Page, text: &str) -> Result<TaskId, EngineError> {
    let missing = || Refusal::TaskNotFound { task: "no such id".into() }.into();
    task_name::task_of(&page.engine, &page.op(), text).await?.ok_or_else(missing)
}

pub(super) async fn seen(page: &Page, id: TaskId) -> Result<TaskSeen, EngineError> {
    let op = page.op();
    let looked = page.engine.task_look(&op, id).await?;
    let (record, now) = (looked.it, looked.now);
    let card = page.engine.card_of(&op, id).await?;
    let check_job = page.engine.check_job_get(&op, id).await?;
    let filter =
        AttemptFilter { task: Some(id), limit: ATTEMPTS_SHOWN, ..AttemptFilter::default() };
    let attempts = page.engine.attempt_list(&op, filter).await?.it;
    let epic = match record.task.parent {
        None => None,
        Some(parent) => match page.engine.task_get(&op, parent).await {
            Ok(seen) => Some(seen.it.task),
            Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => None,
            Err(error) => return Err(error),
        },
    };
    let (parts, next) = match record.task.is_plan {
        true => page.engine.epic_task_list(&op, id, None, None, PARTS_SHOWN).await?,
        false => (Vec::new(), None),
    };
    let more = next.is_some();
    let mut deps = Vec::new();
    for dep in record.deps.iter().filter(|dep| !dep.removed).take(DEPS_SHOWN) {
        deps.push(page.engine.task_get(&op, dep.id).await?.it.task);
    }
    let waiters = page.engine.task_waiters(&op, id, DEPS_SHOWN).await?;
    let stops = page.engine.agent_stops(&op, id).await?;
    let tails = tails(page, &record.task).await;
    let log = page.engine.work_printed(&op, id).await?.map(|run| run.job.id);
    let row =
        TaskRow { task: record.task.clone(), deps: Vec::new(), newest: record.newest.clone() };
    let is_open = !record.task.phase.is_closed() && !record.task.is_plan;
    let whys = page.engine.whys(&op, &[row], now).await?;
    let why = whys.into_iter().next().filter(|_| is_open);
    let card = CardSeen { record, card };
    Ok(TaskSeen {
        card,
        now,
        epic,
        parts,
        more,
        attempts,
        check_job,
        deps,
        waiters,
        stops,
        tails,
        log,
        why,
        only_notes: false,
    })
}

/// The page of a task. `fault` is the message about a form that was refused.
pub(super) async fn shown(
    page: &Page,
    status: StatusCode,
    seen: &TaskSeen,
    fault: Option<&str>,
) -> Response {
    let task = seen.task();
    let content = html! {
        @if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        div.head-row.task-head {
            div #head data-live { (head(seen)) }
            @if page.acts() { (acts(page, seen)) }
        }
        @if !task.is_plan { div.phases-box #phases data-live { (phases(seen)) } }
        div #task data-live {
            div.sided {
                div.stack {
                    @if let Some(words) = trouble(seen) { (words) }
                    @if task.is_plan { (parts(seen)) }
                    (checks(page, &checks_of(seen)))
                    (intent(seen))
                    (activity(seen))
                }
                aside.stack { (side(page, seen)) }
            }
        }
    };
    let mut view = View::of(Screen::Board, &task.title, content);
    let name = task.name().to_string();
    view.trail = vec![
        (Screen::Board.path().into(), Screen::Board.title().into()),
        (String::new(), name.clone()),
    ];
    view.keys = KEYS;
    let twin = format!("callboard task show {name}");
    view.twin = &twin;
    page.show(status, view).await
}

fn head(seen: &TaskSeen) -> Markup {
    let task = seen.task();
    let live = seen.card.record.newest.as_ref().filter(|attempt| attempt.is_live(seen.now));
    html! {
        div.head {
            h1 { bdi { (task.title) } }
            div.dots {
                (seen.state().badge())
                @if let Some(who) = task.assignee.as_ref().or(live.map(|live| &live.actor)) { (actor(who)) }
                @if let Some(attempt) = live { (lease(attempt, seen.now)) span { "fence " (attempt.fence) } }
                @if let Some(epic) = &seen.epic { span { "part of " (title_link(epic)) } }
                span { "for " (span(seen.now.ms_since(task.phase_at))) }
                span.id { (task.name()) }
            }
            @if let Some(why) = &seen.why { (why_line(why)) }
            div.row {
                @if task.phase == Phase::Review {
                    a.button.button-main href={ "/tasks/" (task.name()) "/review" } data-key="r" {
                        (icon("review")) "Open review" kbd { "r" }
                    }
                } @else if !seen.attempts.is_empty() {
                    a.button href={ "/tasks/" (task.name()) "/review" } data-key="d" { (icon("file")) "Diff" kbd { "d" } }
                }
                @if let Some(job) = seen.log {
                    a.button href={ "/jobs/" (job) } data-key="l" { (icon("job")) "Log" kbd { "l" } }
                }
            }
        }
    }
}

/// The way of the task through its phases: how long each took, and what the end lets start.
fn phases(seen: &TaskSeen) -> Markup {
    let (task, now) = (seen.task(), seen.now);
    let state = seen.state();
    let place = |state: State| match state {
        State::Blocked | State::Ready => 0,
        State::Working => 1,
        State::Review => 2,
        State::Done | State::Canceled => 3,
    };
    let at = place(state);
    let began = seen.attempts.iter().map(|attempt| attempt.started_at).min();
    let tries = seen.attempts.len();
    let since = span(now.ms_since(task.phase_at));
    let words = |step: usize| match (step, at) {
        (0, 0) => format!("waits {since}"),
        (0, _) => began.map_or_else(String::new, |began| {
            format!("waited {}", span(began.ms_since(task.created_at)))
        }),
        (1, 1) if tries > 1 => format!("{since}, try {tries}"),
        (1, 1) | (2, 2) => since.clone(),
        (1, _) if tries > 1 => format!("{tries} tries"),
        (3, 3) => format!("after {}", span(task.phase_at.ms_since(task.created_at))),
        (3, _) if !seen.waiters.is_empty() => match seen.waiters.len() {
            1 => "1 task waits for it".into(),
            many => format!("{many} tasks wait for it"),
        },
        _ => String::new(),
    };
    let first = if state == State::Blocked { State::Blocked } else { State::Ready };
    let last = if state == State::Canceled { State::Canceled } else { State::Done };
    let steps = [first, State::Working, State::Review, last];
    html! {
        ol.phases aria-label="Phases" { @for (step, state) in steps.into_iter().enumerate() {
            li class=[(step == at).then(|| format!("is-here {}", state.tone().class()))] aria-current=[(step == at).then_some("step")] {
                @match step.cmp(&at) {
                    Ordering::Less => (State::Done.glyph_only()),
                    Ordering::Equal => (state.glyph_only()),
                    // A dashed circle: not reached yet.
                    Ordering::Greater => (State::Blocked.glyph_only()),
                }
                span { (state.word()) }
                span.faint.row-end { (words(step)) }
            }
        } }
    }
}

/// A note about what holds the task, with what lets it go on.
fn trouble(seen: &TaskSeen) -> Option<Markup> {
    let task = seen.task();
    if task.phase.is_closed() {
        return merged(seen);
    }
    if let Some(blocked) = &task.blocked {
        let words = html! {
            (actor(&blocked.by)) " is stuck: " bdi { (blocked.reason) } ". An answer lets the task go on."
        };
        return Some(note(Tone::Late, "warn", &words));
    }
    if let Some(failed) = &seen.card.card.failed {
        let words = html! { "The task was given up " (ago(failed.at, seen.now)) ": " bdi { (failed.reason) } };
        return Some(note(Tone::Failed, "warn", &words));
    }
    let review =
        seen.card.card.review.as_ref().filter(|review| !review.conflict_files.is_empty())?;
    let words = html! {
        "The last merge met conflicts in " (review.conflict_files.join(", ")) "."
    };
    Some(note(Tone::Failed, "warn", &words))
}

/// How a task that was merged ended: the commit, who approved it, and how long it took.
fn merged(seen: &TaskSeen) -> Option<Markup> {
    let (task, review) = (seen.task(), seen.card.card.review.as_ref()?);
    let commit = review.merge_commit.as_deref()?;
    let work = seen.attempts.iter().map(|attempt| attempt.started_at).min();
    let words = html! {
        p {
            "Merged as " code { (short(commit)) } ", approved by " (actor(&review.by)) " "
            (ago(review.decided_at.unwrap_or(review.requested_at), seen.now)) "."
        }
        @if let Some(began) = work {
            p.faint {
                "Waited " (span(began.ms_since(task.created_at))) ", worked on for "
                (span(review.requested_at.ms_since(began).max(0))) ", in review for "
                (span(task.phase_at.ms_since(review.requested_at).max(0))) "."
            }
        }
    };
    Some(note(Tone::Proved, "check", &words))
}

fn intent(seen: &TaskSeen) -> Markup {
    let (body, criteria) = (&seen.card.record.body, &seen.card.card.criteria);
    html! {
        @if !body.is_empty() || !criteria.is_empty() {
            section.box {
                h2.box-head { "Intent" }
                div.box-body.stack-tight {
                    @if !body.is_empty() { (prose(body)) }
                    @if !criteria.is_empty() {
                        h3 { "Done when" }
                        ul.prose { @for line in criteria { li { bdi { (line) } } } }
                    }
                }
            }
        }
    }
}

fn checks_of(seen: &TaskSeen) -> CheckPanel<'_> {
    let task = seen.task();
    CheckPanel {
        task,
        now: seen.now,
        tails: &seen.tails,
        back: format!("/tasks/{}", task.name()),
        run: ("Run the checks", Some("c")),
        none: html! { "No check gates closing. " a href="#edit" { "Add one" } " so that done means proved." },
        running: seen.check_job.as_ref().filter(|job| !job.is_over()).map(|job| job.state.as_str()),
    }
}

fn activity(seen: &TaskSeen) -> Markup {
    let (task, entries) = (seen.task(), &seen.card.record.entries);
    let omitted = (task.entries as usize).saturating_sub(entries.len());
    let here = format!("/tasks/{}", task.name());
    let is_note = |entry: &&Entry| matches!(entry.did.as_str(), "note" | "told its agent");
    let is_shown = |entry: &&Entry| !seen.only_notes || is_note(entry);
    let choices = [
        Choice { href: here.clone(), word: "All", count: None, is_current: !seen.only_notes },
        Choice {
            href: format!("{here}?show=notes"),
            word: "Notes",
            count: None,
            is_current: seen.only_notes,
        },
        Choice {
            href: format!("/audit?q=task:{}", task.name()),
            word: "Events",
            count: None,
            is_current: false,
        },
    ];
    html! {
        section.box {
            div.box-head { h2 { "Activity" } span.row-end { (tabs("Which entries", choices)) } }
            @if omitted > 0 {
                p.box-body.faint { (omitted) " older entries are in " code { "callboard log " (task.name()) } "." }
            }
            ol.feed { @for entry in entries.iter().filter(is_shown) { (feed_item(entry, seen.now)) } }
        }
    }
}

fn feed_item(entry: &Entry, now: Timestamp) -> Markup {
    html! {
        li {
            p { (actor(&entry.who)) " " span.soft { (entry.did) } " " span.faint { (ago(entry.at, now)) } }
            @if let Some(text) = &entry.text {
                @if entry.did == "ran checks" { p.faint { (by_number(text)) } } @else { (prose(text)) }
            }
        }
    }
}

/// Results of checks by their numbers, counted from 1 as on this page: `0 pass, 1 fail` is `check 1 pass, check 2 fail`.
fn by_number(text: &str) -> String {
    let one = |part: &str| match part.split_once(' ') {
        Some((index, result)) => match index.parse::<usize>() {
            Ok(index) => format!("check {} {result}", index + 1),
            Err(_) => part.to_owned(),
        },
        None => part.to_owned(),
    };
    text.split(", ").map(one).collect::<Vec<_>>().join(", ")
}

fn parts(seen: &TaskSeen) -> Markup {
    let done = seen.parts.iter().filter(|part| part.row.task.phase == Phase::ClosedDone).count();
    html! {
        section.box {
            div.box-head { h2 { "Tasks of this epic" } span.faint { (done) " of " (seen.parts.len()) " done" } }
            @if seen.parts.is_empty() { p.box-body.soft { "None yet." } }
            ul.lines { @for EpicTask { row, worker, .. } in &seen.parts {
                li.row {
                    (State::of(&row.task).mark()) (title_link(&row.task))
                    span.row-end.row {
                        @if let Some(worker) = worker { (super::parts::actor_named(worker.as_str())) }
                        span.id { (row.task.name()) }
                    }
                }
            } }
            @if seen.more { p.box-body.faint { "And more." } }
        }
    }
}

fn side(page: &Page, seen: &TaskSeen) -> Markup {
    let CardSeen { record, card } = &seen.card;
    let task = &record.task;
    let attempt = record.newest.as_ref();
    let branch = card.branch.as_ref().or(attempt.and_then(|attempt| attempt.branch.as_ref()));
    html! {
        section.box {
            h2.box-head { "Waits for" }
            @if seen.deps.is_empty() { p.box-body.soft { "Nothing." } }
            ul.lines { @for dep in &seen.deps { li.row {
                (State::of(dep).mark()) (title_link(dep)) span.id { (dep.name()) }
                @if page.acts() && !task.phase.is_closed() {
                    form.row-end method="post" action={ "/tasks/" (task.name()) "/undep" } {
                        input type="hidden" name="dep" value=(dep.id);
                        button.button.button-bare.button-small aria-label="Remove this dependency" { (icon("cross")) }
                    }
                }
            } } }
        }
        @if !seen.waiters.is_empty() {
            section.box {
                h2.box-head { "Lets start" }
                ul.lines { @for task in &seen.waiters { li.row {
                    (State::of(task).mark()) (title_link(task)) span.id { (task.name()) }
                    @if task.open_deps > 1 { span.faint { "waits for " (task.open_deps - 1) " more" } }
                } } }
            }
        }
        @if !seen.attempts.is_empty() {
            section.box {
                h2.box-head { "Attempts " span.faint { (seen.attempts.len()) } }
                ul.lines { @for attempt in seen.attempts.iter().rev() { (attempt_line(attempt, seen.now)) } }
            }
        }
        section.box {
            h2.box-head { "Details" }
            dl.facts.box-body {
                dt { "Id" } dd { code { (task.id) } }
                dt { "Status" } dd { (task.label) ", phase " (task.phase.as_str()) }
                dt { "Priority" } dd { (task.priority) @if task.priority == 0 { " " span.urgent { "P0" } } }
                dt { "Worked on" } dd { (match card.mode { Mode::Auto => "by an agent alone", Mode::Pair => "with a person" }) }
                @if let Some(agent) = &card.agent { dt { "Agent" } dd { (agent) } }
                @if let Some(branch) = branch { dt { "Branch" } dd { code { (branch) } } }
                @if let Some(base) = &card.base_branch { dt { "Into" } dd { code { (base) } } }
                @if let Some(folder) = attempt.and_then(|attempt| attempt.worktree.as_ref()) { dt { "Worktree" } dd { code { (folder) } } }
                dt { "Made" } dd { (moment(task.created_at)) @if let Some(by) = &card.created_by { " by " (by) } }
                dt { "Changed" } dd { (moment(task.updated_at)) }
            }
        }
    }
}

fn attempt_line(attempt: &Attempt, now: Timestamp) -> Markup {
    let (tone, word) = outcome(attempt, now);
    html! {
        li.row {
            (actor(&attempt.actor)) (tag(tone, word))
            span.faint.row-end {
                (attempt.kind.as_str()) ", fence " (attempt.fence) ", "
                @if let Some(model) = &attempt.model { bdi { (model) } ", " }
                (ago(attempt.started_at, now))
            }
        }
    }
}

/// The forms of a person, outside of the live part: a form that is being written stays as it is.
fn acts(page: &Page, seen: &TaskSeen) -> Markup {
    let verbs = verbs_of(seen);
    html! {
        section.acts.stack aria-label="What you can do" {
            div.row {
                @for verb in verbs.iter().take(VERBS_SHOWN) { (form(page, seen, *verb)) }
                @if verbs.len() > VERBS_SHOWN {
                    details.others {
                        summary.button data-key="." { (icon("dots")) "More" kbd { "." } }
                        div.row { @for verb in verbs.iter().skip(VERBS_SHOWN) { (form(page, seen, *verb)) } }
                    }
                }
                @if why_not(page, PersonVerb::Edit).is_none() {
                    details.others #edit {
                        summary.button data-key="e" { (icon("words")) "Edit" kbd { "e" } }
                        div.box.box-body { (super::task_form::edit(seen)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::by_number;

    #[test]
    fn results_of_checks_are_counted_from_one() {
        for (text, words) in [
            ("0 pass", "check 1 pass"),
            ("0 pass, 11 fail", "check 1 pass, check 12 fail"),
            ("none", "none"),
        ] {
            assert_eq!(by_number(text), words);
        }
    }
}
