//! `callboard job list`: jobs of every kind, in the words of the relay toolset.

use callboard_domain::policy::fold;
use callboard_domain::runs::job::{JobKind, JobState};
use callboard_domain::runs::work::Role;
use callboard_engine::{JobSeen, JobsWanted};
use serde_json::{Value, json};

use super::context::Context;
use super::job::{ask, seen_json};
use crate::output::{Failure, List, Style, Table};

/// List jobs: those that are not over, the oldest first, then those that ended, the newest first
///
/// Verifications, messages and stops that ended are listed with --all, or with a state that is asked
/// for: --state failed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard job list\n  callboard job list --state failed")]
pub struct JobListArgs {
    /// Only those that are queued, running, succeeded, failed, canceled, expired or stale
    #[arg(long)]
    state: Option<String>,
    /// Also verifications, messages and stops that ended
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

pub async fn cmd_job_list(context: &Context, args: JobListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let state = args.state.as_deref().map(state_named).transpose()?;
    let wanted = JobsWanted { state, every_kind: args.all, limit: args.limit as usize };
    let jobs = open.engine().job_list(&open.op("jobs_list"), wanted).await?;
    if context.out.json {
        let arguments = json!({ "state": args.state, "limit": args.limit });
        let mut page = ask(&open, "jobs_list", arguments).await?;
        let items = page["items"].as_array().cloned().unwrap_or_default();
        let of = |kinds: fn(JobKind) -> bool| jobs.iter().filter(move |seen| kinds(seen.job.kind));
        let works: Vec<Value> = of(JobKind::is_in_workspace).map(seen_json).collect();
        let others: Vec<Value> = of(|kind| !kind.is_run()).map(seen_json).collect();
        let (total, has_more) = (page["total"].take(), page["hasMore"].take());
        let more = json!({"total": total, "hasMore": has_more, "works": works, "others": others});
        return context.out.list_with(List::Jobs, items, Value::Null, more);
    }
    let mut table = Table::new(&["JOB", "STATE", "ATTEMPT", "SUMMARY"]);
    let names = open.names();
    for seen in &jobs {
        let attempt = seen.run.as_ref().map_or(seen.job.tries, |run| run.attempt);
        table.row([
            (seen.job.id.to_string(), Style::Plain),
            (word(&seen.job.state).to_owned(), Style::Plain),
            (attempt.to_string(), Style::Plain),
            (names.in_text(&summary(seen)).await, Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no jobs");
    }
    context.out.raw(&table.render(&context.out))
}

/// A state in the words of the relay toolset, as in every list of jobs.
pub fn word(state: &JobState) -> &'static str {
    match state {
        JobState::Queued { .. } => "QUEUED",
        JobState::Running { .. } => "RUNNING",
        JobState::Stale { .. } => "STALE",
        JobState::Done { .. } => "SUCCEEDED",
        JobState::Failed { .. } => "FAILED",
        JobState::Canceled { .. } => "CANCELED",
        JobState::Expired { .. } => "EXPIRED",
    }
}

fn state_named(given: &str) -> Result<&'static str, Failure> {
    const KNOWN: [(&str, &str); 7] = [
        ("queued", "queued"),
        ("running", "running"),
        ("succeeded", "done"),
        ("failed", "failed"),
        ("canceled", "canceled"),
        ("expired", "expired"),
        ("stale", "stale"),
    ];
    let found = KNOWN.iter().find(|(name, _)| *name == fold(given)).map(|(_, state)| *state);
    let words = || {
        let known = KNOWN.map(|(name, _)| name).join(", ");
        Failure::usage(format!("'{given}' is not a state of a job; states are {known}"))
    };
    found.ok_or_else(words)
}

/// The subject of a job, and its own summary.
fn summary(seen: &JobSeen) -> String {
    let JobSeen { job, run } = seen;
    let task = job.task.map(|task| task.to_string()).unwrap_or_default();
    let what = match (job.kind, run.as_ref().and_then(|run| run.order.work())) {
        (JobKind::Run, _) => String::new(),
        (_, Some(order)) if order.role == Role::Reviewer => format!("reviews {task}"),
        (JobKind::Work | JobKind::Crew, _) => format!("works on {task}"),
        (JobKind::Verify, _) => format!("verifies {task}"),
        (JobKind::Check, _) => format!("runs the checks of {task}"),
        (JobKind::Deliver, _) => "sends a message".into(),
        (JobKind::Stop, _) => format!("stops the agent of {task}"),
        (JobKind::Embed, _) => "makes vectors of knowledge".into(),
    };
    let reason = match &job.state {
        JobState::Failed { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let said = run.as_ref().and_then(|run| run.summary.clone()).or(reason);
    let parts = [Some(what), said].into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}
