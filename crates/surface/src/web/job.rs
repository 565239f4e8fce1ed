//! One job: the open question on top, the steps with their times, the output of its agent and its checks, the facts and
//! the artifacts.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_engine::{At, EngineError, JobLook, JobSeen, JobsWanted};
use maud::{Markup, html};

use super::Page;
use super::frame::{Screen, View};
use super::job_facts::{artifacts, facts};
use super::job_log::{self, JobRequest};
use super::job_steps::steps;
use super::job_verbs::{question, verbs};
use super::jobs::{short, state_badge, title, wait_words, what};
use super::parts::{Tone, actor, ago, icon, lease, note};

/// How many jobs are searched for the end of an id.
/// People type the five last characters, as lists show them; among older jobs that end may not be unique.
const SEARCHED_MAX: usize = 500;
/// The keys of the page, in the order of the help.
const KEYS: &[(&str, &str)] = &[
    ("y", "allow once what the agent asks for"),
    ("x", "refuse it"),
    ("f", "follow the log"),
    ("/", "find in the log"),
    ("o", "open the task"),
    ("d", "open the diff"),
];

pub(super) async fn show(
    page: Page,
    Path(text): Path<String>,
    Query(asked): Query<JobRequest>,
) -> Response {
    let looked = match found(&page, &text).await {
        Ok(id) => page.engine.job_look(&page.op(), id).await,
        Err(error) => Err(error),
    };
    match looked {
        Ok(look) => shown(&page, StatusCode::OK, &look, &asked, None).await,
        Err(error) => page.failure(Screen::Jobs, &error).await,
    }
}

/// The job with this id, or with an id of which only one recent job has this end.
pub(super) async fn found(page: &Page, text: &str) -> Result<JobId, EngineError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let missing = || Refusal::JobNotFound { job: text.to_owned() }.into();
    // An empty end would fit every job.
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(missing());
    }
    let wanted = JobsWanted { state: None, every_kind: true, limit: SEARCHED_MAX };
    let jobs = page.engine.job_list(&page.op(), wanted).await?;
    let mut fits = jobs.iter().map(|seen| seen.job.id).filter(|id| id.to_string().ends_with(text));
    match (fits.next(), fits.next()) {
        (Some(id), None) => Ok(id),
        // Two jobs with one end: neither is guessed.
        _ => Err(missing()),
    }
}

/// The page of a job. `fault` is the message about a form that was refused.
pub(super) async fn shown(
    page: &Page,
    status: StatusCode,
    look: &At<JobLook>,
    asked: &JobRequest,
    fault: Option<&str>,
) -> Response {
    let JobSeen { job, run } = &look.it.line.seen;
    let log = match job_log::read(page, &look.it, asked).await {
        Ok(log) => log,
        Err(error) => return page.failure(Screen::Jobs, &error).await,
    };
    let name = short(&job.id.to_string());
    let content = html! {
        @if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        div.job-head {
            div #head data-live { (head(look)) }
            @if page.acts() { (verbs(page, look)) }
        }
        div.job {
            section.job-main aria-label="Output" {
                div #question data-live { (question(page, look, "")) }
                div #output data-live data-every=[(!job.is_over() && run.is_some()).then_some("2")] {
                    (log.shown(&look.it, asked))
                }
            }
            div.job-side #steps data-live {
                (steps(look, asked, log.of))
                (artifacts(&look.it.line.seen, log.agent_bytes()))
                (facts(page, look))
            }
        }
    };
    let title = title(&look.it.line);
    let mut view = View::of(Screen::Jobs, &title, content);
    view.trail = vec![
        (Screen::Jobs.path().into(), Screen::Jobs.title().into()),
        (format!("/jobs/{}", job.id), name.clone()),
    ];
    view.keys = KEYS;
    view.script = Some("/js/log.js");
    let twin = format!("callboard job show {name}");
    view.twin = &twin;
    page.show(status, view).await
}

/// The title with the facts that tell this job from others.
fn head(look: &At<JobLook>) -> Markup {
    let line = &look.it.line;
    let JobSeen { job, run } = &line.seen;
    html! {
        h1 { bdi { (title(line)) } }
        div.dots {
            (state_badge(&line.seen))
            span { (what(job, &line.seen)) }
            @if let Some(attempt) = &look.it.attempt {
                (actor(&attempt.actor))
                @if attempt.is_live(look.now) { (lease(attempt, look.now)) }
            }
            @if let Some(run) = run.as_ref().filter(|run| run.attempt > 0) {
                span { "run " (run.attempt) ", fence " (run.fence) }
            }
            span { (ago(job.created_at, look.now)) }
            @if let Some(task) = &line.task { a.id href={ "/tasks/" (task.name()) } data-key="o" { (task.name()) } }
        }
        @if let Some(wait) = &line.wait {
            p.why { (icon("clock")) span { (wait_words(wait, look.now)) } }
        }
    }
}
