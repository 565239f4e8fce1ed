//! One task: where it stands and since when, what proves it, what happened, and the verbs of a person.

use std::cmp::Ordering;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::board::column::is_silent;
use callboard_domain::board::feed::FeedShow;
use callboard_domain::board::why::{Why, WhyGlyph};
use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::KnowledgeEntry;
use callboard_domain::policy::Phase;
use callboard_domain::pulls::Pull;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::runs::job::{Job, JobId};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::comment::Comment;
use callboard_domain::task::{Task, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_engine::store::knowledge::KnowledgeHit;
use callboard_engine::{
    At, AttemptFilter, CardSeen, DigestTask, EngineError, EpicTask, JobLook, TaskFeed,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::board::why_line;
use super::frame::{Screen, View};
use super::job_verbs::question;
use super::parts::{State, Tone, actor, ago, icon, lease, note, prose, span, title_link};
use super::query::address;
use super::review::short;
use super::review_checks::{CheckPanel, CheckTail, checks, tails};
use super::task_comments::open_comments;
use super::task_feed::{activity, write_box};
use super::task_form::{RefusedEdit, edit};
use super::task_side::{parts, side};
use super::task_verbs::{Verb, form, verbs_of, why_not};
use crate::task_name;

const PARTS_SHOWN: usize = 200;
const ATTEMPTS_SHOWN: usize = 20;
const DEPS_SHOWN: usize = 20;
/// How much of a name that no task has is said.
const NAME_CHARS_SHOWN: usize = 60;
/// Fewer characters are no end of an id.
const END_CHARS_MIN: usize = 4;
/// How many entries of knowledge are named that the work brought.
const BROUGHT_SHOWN: usize = 10;
/// A longer intent is cut, and the page says so.
const BODY_BYTES_SHOWN: usize = 64 * 1024;
const KEYS: &[(&str, &str)] = &[
    ("w", "write to its agent"),
    ("c", "run the checks"),
    ("e", "edit"),
    ("r", "open the review"),
    ("d", "open the diff"),
    ("l", "open the log of its agent"),
    ("y", "allow once what its agent asks for"),
    ("x", "refuse it"),
    (".", "more verbs"),
];

/// Everything that the page shows of a task.
pub(super) struct TaskSeen {
    pub card: CardSeen,
    pub now: Timestamp,
    pub epic: Option<Task>,
    /// The tasks of an epic, and whether there are more.
    pub parts: Vec<EpicTask>,
    pub more: bool,
    pub attempts: Vec<Attempt>,
    /// The newest runs of agents on the task.
    pub runs: Vec<RunRecord>,
    pub pulls: Vec<Pull>,
    /// The knowledge that a worker gets with the task, and the entries that the work brought.
    pub given: Vec<KnowledgeHit>,
    pub brought: Vec<KnowledgeEntry>,
    /// The check that failed again and again in the newest attempt: its index, and how often.
    streak: Option<(usize, usize)>,
    /// The job that runs the checks for review.
    check_job: Option<Job>,
    /// The tasks that it waits for.
    pub deps: Vec<Task>,
    /// The tasks that wait for it.
    pub waiters: Vec<Task>,
    /// Whether the board has an agent on the task that it can stop.
    pub stops: bool,
    /// The ends of the logs of checks that fail.
    tails: Vec<CheckTail>,
    /// The newest run whose output can be read.
    log: Option<JobId>,
    /// The open comments that wait to be settled, the newest first.
    pub comments: Vec<Comment>,
    /// The run whose agent waits for an answer.
    asking: Option<At<JobLook>>,
    /// What an open task waits for, and what lets it go on.
    pub why: Option<Why>,
    pub feed: TaskFeed,
    /// The part of the feed that the reader asked for.
    pub asked: TaskAsked,
    /// An edit that was refused: its form opens with what was typed.
    pub refused: Option<RefusedEdit>,
}

impl TaskSeen {
    pub fn is_live(&self) -> bool {
        self.card.record.newest.as_ref().is_some_and(|attempt| attempt.is_live(self.now))
    }

    /// Whether an agent or a person has the task.
    pub fn is_held(&self) -> bool {
        self.is_live() || self.task().assignee.is_some()
    }

    pub fn task(&self) -> &Task {
        &self.card.record.task
    }

    pub fn state(&self) -> State {
        State::of(self.task())
    }

    /// Whether its agent is silent. An agent that waits for an answer is not.
    fn is_silent(&self, page: &Page) -> bool {
        let asks = self.why.as_ref().is_some_and(|why| why.glyph == WhyGlyph::Asks);
        !asks && is_silent(self.card.record.newest.as_ref(), page.engine.policy(), self.now)
    }
}

/// The state of the page in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct TaskAsked {
    /// The part of the activity: `all`, `notes`, `mail` or `events`.
    #[serde(default)]
    show: String,
    /// Only entries below this number.
    #[serde(default)]
    before: String,
}

impl TaskAsked {
    pub fn show(&self) -> FeedShow {
        FeedShow::parse(&self.show).unwrap_or_default()
    }

    /// The parts of the query that lead to this page again.
    fn kept(&self) -> Vec<(&str, &str)> {
        let fields = [("show", self.show.as_str()), ("before", &self.before)];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The number below which entries lie; what is no number is left out.
    pub fn before(&self) -> Option<u64> {
        self.before.parse().ok()
    }
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
    match seen_as(&page, id, asked).await {
        // Links and bookmarks have the short name.
        Ok(seen) if text != seen.task().name().to_string() => {
            let kept = seen.asked.kept();
            let query = if kept.is_empty() { String::new() } else { address(&kept, &[]) };
            Redirect::to(&format!("/tasks/{}{query}", seen.task().name())).into_response()
        }
        Ok(seen) => shown(&page, StatusCode::OK, &seen, None).await,
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

/// The task with this id or short name, or the only one whose id ends so.
pub(super) async fn found(page: &Page, text: &str) -> Result<TaskId, EngineError> {
    if let Some(id) = task_name::task_of(&page.engine, &page.op(), text).await? {
        return Ok(id);
    }
    let end = text.to_lowercase();
    let is_end = |id: &TaskId| end.len() >= END_CHARS_MIN && id.id.to_string().ends_with(&end);
    let fits = page.engine.task_ids(&page.op(), text, 2).await?;
    match fits[..] {
        [id] if is_end(&id) => Ok(id),
        _ => {
            Err(Refusal::TaskNotFound { task: text.chars().take(NAME_CHARS_SHOWN).collect() }
                .into())
        }
    }
}

pub(super) async fn seen(page: &Page, id: TaskId) -> Result<TaskSeen, EngineError> {
    seen_as(page, id, TaskAsked::default()).await
}

async fn seen_as(page: &Page, id: TaskId, asked: TaskAsked) -> Result<TaskSeen, EngineError> {
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
    let streak = match record.newest.as_ref().filter(|newest| newest.is_live(now)) {
        Some(newest) => page.engine.check_streak(&op, id, newest).await?,
        None => None,
    };
    let mut comments = page.engine.comment_list(&op, id).await?;
    comments.retain(Comment::waits);
    let runs = page.engine.work_runs(&op, id).await?;
    let asking = match runs.iter().find(|record| record.asks().is_some()) {
        Some(record) => Some(page.engine.job_look(&op, record.job.id).await?),
        None => None,
    };
    let pulls = page.engine.pulls_of_task(&op, id).await?;
    let digests = page.engine.knowledge_digest(&op, &[DigestTask::from(&record)]).await;
    let given = digests.into_iter().flat_map(|digest| digest.references).collect();
    let brought = match page.engine.knowledge_of_task(&op, id, BROUGHT_SHOWN).await {
        Ok(brought) => brought,
        // A reader without the scope sees the task without them.
        Err(EngineError::Refused(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let (wanted, reader) = ((asked.show(), asked.before()), page.inbox());
    let feed = page.engine.task_feed(&op, &record, &attempts, reader.as_ref(), wanted).await?;
    let card = CardSeen { record, card };
    Ok(TaskSeen {
        card,
        now,
        epic,
        parts,
        more,
        attempts,
        runs,
        pulls,
        given,
        brought,
        streak,
        comments,
        check_job,
        deps,
        waiters,
        stops,
        tails,
        log,
        asking,
        why,
        feed,
        asked,
        refused: None,
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
        @if let Some(versions) = seen.refused.as_ref().and_then(|refused| refused.versions(seen)) {
            div.pad-top { (versions) }
        } @else if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        @if seen.refused.is_some() { div.box.box-body #edit { (edit(page, seen)) } }
        div.head-row.task-head {
            div #head data-live { (head(seen)) }
            section.acts aria-label="What you can do" {
                div.row {
                    span.row #ways data-live { (ways(seen)) }
                    @if page.acts() { (acts(page, seen)) }
                }
            }
        }
        @if !task.is_plan { div.phases-box #phases data-live { (phases(seen)) } }
        div.sided {
            div.stack {
                div.stack #task data-live {
                    @if let Some(words) = trouble(page, seen) { (words) }
                    @if !task.phase.is_closed() { (open_comments(page, seen, "")) }
                    @if task.is_plan { (parts(seen)) }
                    (checks(page, &checks_of(page, seen)))
                    (intent(seen))
                    (activity(seen))
                }
                (write_box(page, seen))
            }
            aside.stack #side data-live { (side(page, seen)) }
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
                @if let Some(attempt) = live { (lease(attempt, seen.now)) span { "attempt " (seen.attempts.len().max(1)) ", fence " (attempt.fence) } }
                @if let Some(epic) = &seen.epic { span { "part of " (title_link(epic)) } }
                span { "for " (span(seen.now.ms_since(task.phase_at))) }
                span.id { (task.name()) }
            }
            // The note below holds the question with its answers.
            @if let Some(why) = seen.why.as_ref().filter(|_| seen.asking.is_none()) { (why_line(why)) }
        }
    }
}

/// The ways to the work: its review or its diff, and the log of its agent.
fn ways(seen: &TaskSeen) -> Markup {
    let task = seen.task();
    html! {
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
        (1, _) => worked(seen, tries),
        (3, 3) => format!("after {}", span(task.phase_at.ms_since(task.created_at))),
        (3, _) if !seen.waiters.is_empty() => match seen.waiters.len() {
            1 => "lets 1 task start".into(),
            many => format!("lets {many} tasks start"),
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

/// How long the task was worked on before it was handed over.
fn worked(seen: &TaskSeen, tries: usize) -> String {
    let began = seen.attempts.iter().map(|attempt| attempt.started_at).min();
    let handed = seen.card.card.review.as_ref().map(|review| review.requested_at);
    let took = began.zip(handed).map(|(began, handed)| span(handed.ms_since(began).max(0)));
    match (took, tries) {
        (Some(took), 2..) => format!("{took}, {tries} tries"),
        (Some(took), _) => took,
        (None, 2..) => format!("{tries} tries"),
        (None, _) => String::new(),
    }
}

/// A note about what holds the task, with the verbs that let it go on.
fn trouble(page: &Page, seen: &TaskSeen) -> Option<Markup> {
    let task = seen.task();
    if task.phase.is_closed() {
        return Some(ended(seen));
    }
    if let Some(look) = &seen.asking {
        return Some(question(page, look, &format!("/tasks/{}", task.name())));
    }
    let verbs = |verbs: &[Verb]| {
        html! { @if page.acts() { div.row {
            @if why_not(page, PersonVerb::Write).is_none() {
                a.button href="#write-text" { (icon("comment")) "Write a hint" }
            }
            @for verb in verbs { (form(page, seen, *verb)) }
        } } }
    };
    if let Some(blocked) = &task.blocked {
        let words = html! {
            p { (actor(&blocked.by)) " is stuck: " bdi { (blocked.reason) } ". An answer lets the task go on." }
            (verbs(&[Verb::Unblock]))
        };
        return Some(note(Tone::Late, "warn", &words));
    }
    if let Some(failed) = &seen.card.card.failed {
        let words = html! {
            p { "The task was given up " (ago(failed.at, seen.now)) ": " bdi { (failed.reason) } }
        };
        return Some(note(Tone::Failed, "warn", &words));
    }
    let newest = seen.card.record.newest.as_ref();
    if let (Some((index, times)), Some(newest)) = (seen.streak, newest) {
        let words = html! {
            p {
                b { "Check " (index + 1) " failed " (times) " times in a row. " }
                (actor(&newest.actor)) " still holds the task. A hint often helps more than another try."
            }
            (verbs(&[Verb::Check, if seen.stops { Verb::Stop } else { Verb::Release }]))
        };
        return Some(note(Tone::Failed, "warn", &words));
    }
    if let Some(newest) = newest.filter(|_| seen.is_silent(page)) {
        let words = html! {
            p {
                b { "Its agent is silent. " }
                @match newest.lease() {
                    Some(lease) => { "Its lease ends in " (span(lease.expires_at.ms_since(seen.now).max(0))) ", then the task is free again." }
                    None => { (actor(&newest.actor)) " holds the task without a lease, until a person takes it back." }
                }
            }
            (verbs(&[if seen.stops { Verb::Stop } else { Verb::Release }]))
        };
        return Some(note(Tone::Late, "sleep", &words));
    }
    let review =
        seen.card.card.review.as_ref().filter(|review| !review.conflict_files.is_empty())?;
    let words = html! {
        p { "The last merge met conflicts in " (review.conflict_files.join(", ")) "." }
        @if task.phase == Phase::Review {
            p { a href={ "/tasks/" (task.name()) "/review" } { "The review" } " offers a rebase." }
        }
    };
    Some(note(Tone::Failed, "warn", &words))
}

/// How a task ended: the outcome, the merge commit, who approved it, and where the time went.
fn ended(seen: &TaskSeen) -> Markup {
    let (task, review) = (seen.task(), seen.card.card.review.as_ref());
    let merged = review.and_then(|review| Some((review, review.merge_commit.as_deref()?)));
    let work = seen.attempts.iter().map(|attempt| attempt.started_at).min();
    let done = task.phase == Phase::ClosedDone;
    // Work that was never handed over has no time in review.
    let handed = review.map_or(task.phase_at, |review| review.requested_at);
    let words = html! {
        p {
            @match (merged, done) {
                (Some((review, commit)), _) => {
                    "Merged as " code { (short(commit)) } ", approved by " (actor(&review.by)) " "
                    (ago(review.decided_at.unwrap_or(review.requested_at), seen.now)) "."
                }
                (None, true) => { "Done " (ago(task.phase_at, seen.now)) "; no merge was made here." }
                (None, false) => { "Canceled " (ago(task.phase_at, seen.now)) "." }
            }
        }
        @if let Some(began) = work {
            p.faint {
                "Waited " (span(began.ms_since(task.created_at).max(0))) ", worked on for "
                (span(handed.ms_since(began).max(0)))
                @if review.is_some() { ", in review for " (span(task.phase_at.ms_since(handed).max(0))) }
                "; " (span(task.phase_at.ms_since(task.created_at).max(0))) " in all."
            }
        }
    };
    match done {
        true => note(Tone::Proved, "check", &words),
        false => note(Tone::Quiet, "canceled", &words),
    }
}

fn intent(seen: &TaskSeen) -> Markup {
    let (body, criteria) = (&seen.card.record.body, &seen.card.card.criteria);
    let shown = &body[..body.floor_char_boundary(BODY_BYTES_SHOWN)];
    html! {
        @if !body.is_empty() || !criteria.is_empty() {
            section.box {
                h2.box-head { "Intent" }
                div.box-body.stack-tight {
                    @if !body.is_empty() { (prose(shown)) }
                    @if shown.len() < body.len() {
                        p.faint {
                            "The first 64 KB of " (body.len() / 1024) " KB. All of it: "
                            code { "callboard task show " (seen.task().name()) }
                        }
                    }
                    @if !criteria.is_empty() {
                        h3 { "Done when" }
                        ul.prose { @for line in criteria { li { bdi { (line) } } } }
                    }
                }
            }
        }
    }
}

fn checks_of<'s>(page: &Page, seen: &'s TaskSeen) -> CheckPanel<'s> {
    let task = seen.task();
    CheckPanel {
        task,
        now: seen.now,
        tails: &seen.tails,
        back: format!("/tasks/{}", task.name()),
        run: ("Run the checks", Some("c")),
        none: html! {
            "No check gates closing. "
            @if page.acts() && why_not(page, PersonVerb::Edit).is_none() {
                button.link type="button" popovertarget="edit" { "Add one" } " so that done means proved."
            } @else { "A check makes done mean proved." }
        },
        running: seen.check_job.as_ref().filter(|job| !job.is_over()).map(|job| job.state.as_str()),
    }
}

/// The forms of a person, outside of the live part: a form that is being written stays as it is.
fn acts(page: &Page, seen: &TaskSeen) -> Markup {
    let (shown, others) = verbs_of(seen);
    html! {
        @for verb in shown { (form(page, seen, verb)) }
        @if !others.is_empty() {
            details.menu.others {
                summary.button data-key="." { (icon("dots")) "More" kbd { "." } }
                div { @for verb in others { (form(page, seen, verb)) } }
            }
        }
        @if seen.refused.is_none() && why_not(page, PersonVerb::Edit).is_none() {
            button.button type="button" popovertarget="edit" data-key="e" { (icon("words")) "Edit" kbd { "e" } }
            div.panel #edit popover role="dialog" aria-label="Edit the task" {
                div.popover-body.stack { h2 { "Edit " (seen.task().name()) } (edit(page, seen)) }
            }
        }
    }
}
