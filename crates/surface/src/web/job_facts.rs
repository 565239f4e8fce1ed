//! What is known about a job beside its course: its artifacts, also as downloads, and its facts.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::delivery::destination;
use callboard_domain::runs::run::{ArtifactName, Run, RunRecord};
use callboard_engine::store::FileSpan;
use callboard_engine::{ArtifactText, At, EngineError, JobLook, JobSeen, RunLimits};
use maud::{Markup, html};

use super::frame::Screen;
use super::job::found;
use super::job_log::LogOf;
use super::jobs::machine_name;
use super::parts::{actor, ago, cost, icon, moment, span, tokens};
use super::{CONTENT_POLICY, Page};

pub(super) fn artifacts(seen: &JobSeen, log_bytes: Option<u64>) -> Markup {
    let Some(run) = &seen.run else { return html! {} };
    let mut files: Vec<(ArtifactName, Option<u64>)> = Vec::new();
    for name in run.artifact_names().filter(|name| *name != ArtifactName::Logs) {
        files.push((name, run.artifact(name).map(|artifact| artifact.size)));
    }
    let kept = run.artifact(ArtifactName::Logs).map(|artifact| artifact.size);
    // The log of an agent at work is longer than its part that is an artifact.
    files.extend(log_bytes.or(kept).map(|bytes| (ArtifactName::Logs, Some(bytes))));
    let grows = !seen.job.is_over();
    html! {
        section aria-labelledby="artifacts-title" {
            h2 #artifacts-title { "Artifacts" }
            @if files.is_empty() { p.soft { "None so far." } }
            ul.files { @for (name, bytes) in &files { li.row {
                (icon("file"))
                a href={ "/jobs/" (seen.job.id) "/files/" (name.as_str()) } download { (name.as_str()) }
                @if let Some(bytes) = bytes { span.faint.row-end { (size(*bytes)) @if grows && *name == ArtifactName::Logs { ", grows" } } }
            } } }
        }
    }
}

/// A size in the shortest words.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

pub(super) fn facts(page: &Page, look: &At<JobLook>) -> Markup {
    let line = &look.it.line;
    let JobSeen { job, run } = &line.seen;
    let order = run.as_ref().and_then(|run| run.order.work());
    let spec = run.as_ref().and_then(|run| run.order.patch());
    let attempt = look.it.attempt.as_ref();
    let terminal = run.as_ref().and_then(|run| {
        RunRecord { job: job.clone(), run: run.clone() }
            .terminal()
            .map(|terminal| terminal.attach())
    });
    let model = order.and_then(|order| order.model.as_deref());
    let model = model.or(spec.map(|spec| &*spec.execution.preferred_model));
    let model = model.or(attempt.and_then(|attempt| attempt.model.as_deref()));
    html! {
        section aria-labelledby="facts-title" {
            h2 #facts-title { "Facts" }
            dl.facts {
                dt { "Job" } dd { code { (job.id) } }
                dt { "Kind" } dd { (job.kind.as_str()) @if let Some(order) = order { ", " (order.role.as_str()) } }
                @if let Some(order) = order { dt { "Asked by" } dd { (actor(&order.asked_by)) } }
                @if let Some(attempt) = attempt { dt { "Agent" } dd { (actor(&attempt.actor)) } }
                @if let Some(name) = &look.it.notes.executor { dt { "Executor" } dd { bdi { (name) } } }
                @if let Some(model) = model { dt { "Model" } dd { bdi { (model) } } }
                @if let Some(words) = order.and_then(|order| order.instructions.as_deref()) { dt { "Told" } dd { bdi { (words) } } }
                @if let Some(run) = run {
                    dt { "Machine" } dd { @match run.runs_on.as_deref().or(run.bound_to.as_deref()) {
                        Some(machine) => (machine_name(page, machine)),
                        None => "not chosen yet",
                    } }
                    (confined(&look.it, run))
                    @if let Some(limits) = look.it.limits { (limits_of(limits)) }
                    dt { "Given up at" } dd { (moment(run.expires_at)) }
                    dt { "Tokens" } dd { @match run.usage {
                        Some(used) => { (tokens(used.input_tokens)) " read, " (tokens(used.output_tokens)) " written" }
                        None => "unknown: the agent reported none",
                    } }
                    dt { "Cost" } dd { (cost(run.usage.and_then(|used| used.cost_micros))) }
                    @if let Some(pr) = &run.pr {
                        dt { "Pull request" } dd { (pr.forge) " " (pr.number) ", " (pr.status) ", " code { (pr.branch) } }
                    }
                    @if let Some(exit) = &look.it.notes.exit { dt { "Exit code" } dd { (exit) @if run.attempt > 1 { ", run 1" } } }
                    dt { "Webhook" } dd { @match &run.webhook {
                        Some(webhook) => { "a message to " bdi { (destination(&webhook.url)) } " at the end" }
                        None => span.faint { "none" },
                    } }
                }
                @if let Some(branch) = attempt.and_then(|attempt| attempt.branch.as_deref()) { dt { "Branch" } dd { code { (branch) } } }
                @if let Some(folder) = attempt.and_then(|attempt| attempt.worktree.as_deref()) { dt { "Worktree" } dd { code { (folder) } } }
                @if let Some(attach) = terminal { dt { "Terminal" } dd { code { (attach) } } }
                dt { "Queued" } dd { (ago(job.created_at, look.now)) }
            }
        }
    }
}

/// How the run is confined, and the names of its variables, as the notes of its log say.
fn confined(look: &JobLook, run: &Run) -> Markup {
    let notes = &look.notes;
    // The notes are those of the first run.
    let first = if run.attempt > 1 { ", run 1" } else { "" };
    html! {
        dt { "Sandbox" }
        dd { @match (notes.sandbox.as_slice(), run.started_at) {
            ([], None) => span.faint { "known when the run begins" },
            ([], Some(_)) => span.faint { "unknown: the run left no notes yet" },
            (notes, _) => { (notes.join("; ")) (first) }
        } }
        @if !notes.variables.is_empty() {
            dt { "Variables" }
            dd { details {
                summary { (notes.variables.len()) " names, no values" }
                code { (notes.variables.join(" ")) }
            } }
        }
    }
}

fn limits_of(limits: RunLimits) -> Markup {
    let words =
        |seconds: u64| span(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX));
    let run = limits.run_s.map(|seconds| format!("{} a run", words(seconds)));
    let most = match limits.runs_max {
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    };
    let parts = [
        run,
        Some(format!("{most} at most")),
        Some(format!("{} for an answer", words(limits.answer_s))),
        Some(format!("{} of silence", words(limits.lease_s.into()))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    html! { dt { "Limits" } dd { (parts.join(", ")) } }
}

/// An artifact as a download.
pub(super) async fn file(page: Page, Path((text, name)): Path<(String, String)>) -> Response {
    match file_text(&page, &text, &name).await {
        Ok(text) => {
            let mut headers = HeaderMap::new();
            let kept = [
                (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
                (header::CONTENT_DISPOSITION, "attachment"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            headers.extend(kept.map(|(name, value)| (name, HeaderValue::from_static(value))));
            (headers, text).into_response()
        }
        Err(error) => page.failure(Screen::Jobs, &error).await,
    }
}

async fn file_text(page: &Page, text: &str, name: &str) -> Result<String, EngineError> {
    let id = found(page, text).await?;
    let missing = || Refusal::JobNotFound { job: format!("{text} with {name}") }.into();
    if let Some(LogOf::Check(index)) = name.strip_suffix(".txt").and_then(LogOf::parse) {
        let task = page.engine.job_see(&page.op(), id).await?.job.task.ok_or_else(missing)?;
        let log = page.engine.check_log(&page.op(), task, index, FileSpan::WHOLE).await?;
        return Ok(log.text());
    }
    let found = match ArtifactName::parse(name).ok_or_else(missing)? {
        ArtifactName::Logs => page.engine.run_log(&page.op(), id).await?.1,
        other => match page.engine.run_artifact(&page.op(), id, other).await? {
            ArtifactText::Text(text) => Some(text),
            ArtifactText::Missing(_) => None,
        },
    };
    found.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_shortest_words() {
        for (bytes, words) in [(999, "999 B"), (84_200, "84 kB"), (1_260_000, "1.2 MB")] {
            assert_eq!(size(bytes), words);
        }
    }
}
