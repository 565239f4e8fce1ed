//! What a person does with a job: answer its agent, end it, run it again.

use axum::Form;
use axum::extract::Path;
use axum::response::Response;
use callboard_domain::command::{Start, TerminalStart};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::runs::job::{JobId, JobKind, JobState};
use callboard_domain::runs::run::Order;
use callboard_domain::runs::work::Role;
use callboard_engine::{At, EngineError, JobLook, JobSeen, Stopped, WorkWish};
use maud::{Markup, html};
use serde::Deserialize;

use super::confirm::Confirm;
use super::job::{found, shown};
use super::job_log::JobRequest;
use super::jobs::{asked, asks};
use super::parts::{Tone, countdown, icon, note};
use super::task_verbs::{once, why_not};
use super::{Page, Screen, done, said};

/// The open question with its two answers. `next` is the page that comes after the answer; the job's own without one.
pub(super) fn question(page: &Page, look: &At<JobLook>, next: &str) -> Markup {
    let seen = &look.it.line.seen;
    let Some(question) = asks(seen) else { return html! {} };
    let words = html! {
        p {
            @match &question.command {
                Some(command) => { strong { "May it run " (asked(&question)) "?" } " " bdi { (reason(&question.text, command)) } "." }
                None => strong { bdi { (question.text) } },
            }
            // An unanswered question is refused by time, so the reader sees how long there is.
            @if let Some(times) = look.it.answer_within { " " (countdown("Refused", times, look.now)) }
        }
        @if page.acts() {
            (answer_form(page, seen.job.id, question.number, next))
        }
    };
    note(Tone::Person, "ask", &words)
}

/// The two answers to a question of an agent. `next` is the page that comes after the answer; the job's own without one.
pub(super) fn answer_form(page: &Page, job: JobId, number: u32, next: &str) -> Markup {
    // A button that a reader may not use says why, instead of failing after the click.
    if let Some(why) = why_not(page, PersonVerb::Answer) {
        return html! {
            p.row { button.button disabled { "Allow once" } button.button disabled { "Refuse" } span.faint { (why) } }
        };
    }
    html! {
        form.row method="post" action={ "/jobs/" (job) "/answer" } {
            input type="hidden" name="number" value=(number);
            @if !next.is_empty() { input type="hidden" name="next" value=(next); }
            button.button.button-main name="answer" value="yes" data-key="y" { "Allow once" kbd { "y" } }
            button.button name="answer" value="no" data-key="x" { "Refuse" kbd { "x" } }
        }
    }
}

/// The text of a question without the command, which stands before it.
fn reason<'q>(text: &'q str, command: &str) -> &'q str {
    text.strip_suffix(command).map_or(text, |rest| rest.trim_end().trim_end_matches(':'))
}

/// The buttons of a job, outside of the live parts: an open confirmation stays open.
pub(super) fn verbs(page: &Page, look: &At<JobLook>) -> Markup {
    let line = &look.it.line;
    let job = &line.seen.job;
    let action = |verb: &str| format!("/jobs/{}/{verb}", job.id);
    html! {
        div.row.job-verbs {
            @if let Some(task) = &line.task {
                a.button href={ "/tasks/" (task.name()) } { "Task" kbd { "o" } }
                @if look.it.attempt.is_some() {
                    a.button href={ "/tasks/" (task.name()) "/review" } data-key="d" { (icon("file")) "Diff" kbd { "d" } }
                }
            }
            @if job.is_over() && can_repeat(&line.seen) {
                // `once` makes a double click, or a reload of the answer, queue one job.
                form method="post" action=(action("again")) {
                    input type="hidden" name="once" value=(page.engine.fresh_id());
                    button.button data-busy="Queueing" { (icon("again")) "Run again" }
                }
            }
            @if !job.is_over() && job.kind != JobKind::Embed {
                @let cancel = Confirm {
                    id: "cancel", glyph: "stop", verb: "Cancel the job", busy: "Canceling",
                    action: &action("cancel"), fields: &[], is_small: false,
                };
                (cancel.shown(&html! { p { (consequence(&line.seen)) } }))
            }
        }
    }
}

/// What a cancellation ends, and what stays.
fn consequence(seen: &JobSeen) -> &'static str {
    match (&seen.job.state, seen.job.kind) {
        (JobState::Queued { .. }, _) => "The job does not start. Its task stays as it is.",
        (_, JobKind::Run) => "The processes of the agent end. No patch is made.",
        (_, JobKind::Work | JobKind::Crew) => {
            "The processes of the agent end, and its task is free again. The worktree and the branch stay."
        }
        _ => "The job ends. Its task stays as it is.",
    }
}

/// Whether a person may repeat the work. A crew and the review of a task start their agents themselves.
fn can_repeat(seen: &JobSeen) -> bool {
    seen.run.as_ref().is_some_and(|run| match &run.order {
        Order::Patch(_) => true,
        Order::Work(order) => order.role == Role::Worker && seen.job.task.is_some(),
    })
}

/// The fields of all forms of a job; each form has some of them.
#[derive(Default, Deserialize)]
pub(super) struct JobForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    number: Option<u32>,
    #[serde(default)]
    answer: String,
    /// The page that comes after the form; the job's own without one.
    #[serde(default)]
    next: String,
}

/// Carries out a form of a job, then shows the job with a word about it.
pub(super) async fn act(
    page: Page,
    Path((text, verb)): Path<(String, String)>,
    Form(form): Form<JobForm>,
) -> Response {
    let id = match found(&page, &text).await {
        Ok(id) => id,
        Err(error) => return page.failure(Screen::Jobs, &error).await,
    };
    match carry_out(&page, id, &verb, &form).await {
        Ok((_, words)) if !form.next.is_empty() => done(&form.next, &words),
        Ok((next, words)) => done(&format!("/jobs/{next}"), &words),
        Err(error) => match page.engine.job_look(&page.op(), id).await {
            Ok(look) => {
                let (status, words) = said(&error);
                shown(&page, status, &look, &JobRequest::default(), Some(&words)).await
            }
            Err(_) => page.failure(Screen::Jobs, &error).await,
        },
    }
}

/// Returns the job to show next, and the words about the form.
async fn carry_out(
    page: &Page,
    id: JobId,
    verb: &str,
    form: &JobForm,
) -> Result<(JobId, String), EngineError> {
    let (engine, op) = (&page.engine, page.op());
    let needs = if verb == "answer" { PersonVerb::Answer } else { PersonVerb::RunAgent };
    // Judged here as well: a form can be sent without its page.
    page.reader.rights.judge_verb("web", needs)?;
    match (verb, &*form.answer) {
        ("answer", answer @ ("yes" | "no")) => {
            let granted = answer == "yes";
            // The number of the question that the reader saw: a newer question is not answered by this form.
            engine.run_answer(&op, id, form.number, granted).await?;
            let words = match granted {
                true => "Allowed once. The agent goes on.",
                false => "Refused. The agent goes on without.",
            };
            Ok((id, words.into()))
        }
        ("cancel", _) => {
            let ended = engine.job_cancel(&op, id).await?;
            Ok((id, canceled(ended.is_new, ended.agent.as_ref()).into()))
        }
        ("again", _) => {
            let next = again(page, id, form).await?;
            Ok((next, "Queued again. This is the new job.".into()))
        }
        _ => {
            let message = "the form is unknown; open the page again and use its buttons".into();
            Err(Refusal::InvalidInput { field: None, message }.into())
        }
    }
}

/// The words after a cancellation, which may have come too late.
fn canceled(is_new: bool, agent: Option<&Stopped>) -> &'static str {
    match (is_new, agent) {
        (false, None) => "The job was over already.",
        (_, Some(_)) => "The job was canceled. Its agent was told to end.",
        (true, None) => "The job was canceled.",
    }
}

/// Queues the work of a job once more.
async fn again(page: &Page, id: JobId, form: &JobForm) -> Result<JobId, EngineError> {
    // A command under the form's id is carried out once.
    let op = once(page, &form.once)?;
    let JobSeen { job, run } = page.engine.job_see(&op, id).await?;
    let missing = || Refusal::JobNotFound { job: id.to_string() };
    match run.ok_or_else(missing)?.order {
        Order::Patch(spec) => {
            let mut spec = *spec;
            // A key finds its first job; the form's own key makes a second send find the second job.
            spec.idempotency_key = format!("again-{}", form.once);
            Ok(page.engine.run_submit(&page.op(), spec).await?.record.job.id)
        }
        Order::Work(order) if order.role == Role::Worker => {
            let start = TerminalStart { agent: None, take: false, reopen: false, held_s: 0 };
            let wish = WorkWish {
                instructions: order.instructions,
                model: order.model,
                start: Start::Terminal(start),
            };
            let task = job.task.ok_or_else(missing)?;
            Ok(page.engine.work_submit(&op, task, wish).await?.job().id)
        }
        Order::Work(_) => {
            let message =
                "the crew or the review of the task starts this agent by itself".to_owned();
            Err(Refusal::InvalidInput { field: None, message }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_question_names_its_command_once() {
        let table = [
            ("Try it: make one", "make one", "Try it"),
            ("make", "make", ""),
            ("May I make this?", "make", "May I make this?"),
        ];
        for (text, command, rest) in table {
            assert_eq!(reason(text, command), rest);
        }
    }
}
