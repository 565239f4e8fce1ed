//! `callboard job …`: jobs for agents, in the words of the relay toolset; beside them what agents do on
//! tasks of the board.

use std::str::FromStr;

use callboard_domain::job::JobId;
use callboard_domain::policy::fold;
use callboard_domain::refusal::Refusal;
use callboard_domain::run::{ArtifactName, RunRecord};
use callboard_domain::work::Role;
use callboard_engine::context::OpContext;
use callboard_engine::store::RunSeen;
use callboard_engine::{ArtifactText, EngineError};
use callboard_surface::error;
use callboard_surface::toolsets::relay;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::view::plain;
use crate::output::{Exit, Failure, List, Style, Table, exit_of};

/// Submit jobs for agents, look at them, end them
#[derive(clap::Subcommand, Debug)]
pub enum JobCommand {
    Submit(SubmitArgs),
    List(ListArgs),
    Show(ShowArgs),
    Cancel(CancelArgs),
    Answer(AnswerArgs),
}

impl JobCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            JobCommand::Submit(args) => cmd_job_submit(context, args).await,
            JobCommand::List(args) => cmd_job_list(context, args).await,
            JobCommand::Show(args) => cmd_job_show(context, args).await,
            JobCommand::Cancel(args) => cmd_job_cancel(context, args).await,
            JobCommand::Answer(args) => cmd_job_answer(context, args).await,
        }
    }
}

/// Queue a job
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job submit spec.json")]
pub struct SubmitArgs {
    /// File with the spec as JSON; - reads standard input
    spec: String,
}

/// List jobs in the order of the queue
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job list --state running")]
pub struct ListArgs {
    /// Only those that are queued, running, succeeded, failed, canceled, expired or stale
    #[arg(long)]
    state: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

/// Show how far a job is
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job show job_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct ShowArgs {
    /// The job's id, as job list shows it
    job: String,
}

/// End a job that is not over
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job cancel job_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct CancelArgs {
    /// The job's id, as job list shows it
    job: String,
}

/// Answer what a job's agent asks
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job answer job_01k0v3e8xq7rjw2m5c9n4d6t0z yes")]
pub struct AnswerArgs {
    /// The job's id, as job list shows it
    job: String,
    /// yes or no
    answer: YesNo,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum YesNo {
    Yes,
    No,
}

async fn ask(open: &Open, tool: &str, arguments: Value) -> Result<Value, Failure> {
    let front = open.app.front(&[&relay::TOOLSET]);
    let op = open.op("call");
    let answer = front.ask(tool, arguments, |tool| OpContext { tool, ..op }).await;
    let (answer, speaker) = answer.map_err(|unknown| Failure::usage(unknown.0))?;
    answer.map_err(|error| Failure::rendered(exit_of(&error), &error::render(&error, speaker)))
}

async fn cmd_job_submit(context: &Context, args: SubmitArgs) -> Result<(), Failure> {
    let text = match args.spec.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        path => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| Failure::io(format!("cannot read {}", args.spec), &error))?;
    let open = context.open().await?;
    let answer = ask(&open, "jobs_submit", json!({ "spec": text })).await?;
    if context.out.json {
        return context.out.document(&answer);
    }
    if let Some(note) = answer["note"].as_str() {
        context.out.warning(note);
    }
    context.out.line(answer["jobId"].as_str().unwrap_or_default())
}

async fn cmd_job_list(context: &Context, args: ListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let arguments = json!({ "state": args.state, "limit": args.limit });
    let mut page = ask(&open, "jobs_list", arguments).await?;
    let mut works = open.engine().work_list(&open.op("jobs_list"), args.limit as usize).await?;
    let wanted = args.state.as_deref().map(fold);
    works.retain(|work| wanted.as_ref().is_none_or(|state| state == work.job.state.as_str()));
    if context.out.json {
        let works: Vec<Value> = works.iter().map(work_json).collect();
        let items = page["items"].as_array().cloned().unwrap_or_default();
        let (total, has_more) = (page["total"].take(), page["hasMore"].take());
        let more = json!({"total": total, "hasMore": has_more, "works": works});
        return context.out.list_with(List::Jobs, items, Value::Null, more);
    }
    let mut table = Table::new(&["JOB", "STATE", "ATTEMPT", "SUMMARY"]);
    for item in page["items"].as_array().into_iter().flatten() {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        table.row([
            (text("id"), Style::Plain),
            (text("state"), Style::Plain),
            (item["attempt"].to_string(), Style::Plain),
            (text("summary"), Style::Plain),
        ]);
    }
    for RunRecord { job, run } in &works {
        let task = job.task.map(|task| task.to_string()).unwrap_or_default();
        let what = match run.order.work().map(|order| order.role) {
            Some(Role::Reviewer) => format!("reviews {task}"),
            Some(Role::Worker | Role::Crew) | None => format!("works on {task}"),
        };
        let summary = run.summary.as_ref().map(|words| format!("{what}: {words}"));
        table.row([
            (job.id.to_string(), Style::Plain),
            (job.state.as_str().to_uppercase(), Style::Plain),
            (run.attempt.to_string(), Style::Plain),
            (summary.unwrap_or(what), Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no jobs");
    }
    context.out.raw(&table.render(&context.out))
}

async fn cmd_job_show(context: &Context, args: ShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let job = match open.work(&args.job).await? {
        Some(work) => work_json(&work),
        None => ask(&open, "jobs_get", json!({ "jobId": args.job })).await?,
    };
    if context.out.json {
        return context.out.document(&job);
    }
    for (key, value) in job.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::String(text) => context.out.line(&format!("{key}: {}", plain(text)))?,
            Value::Object(map) => {
                for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                    let value = value.as_str().map_or_else(|| value.to_string(), plain);
                    context.out.line(&format!("{key}.{name}: {value}"))?;
                }
            }
            other => context.out.line(&format!("{key}: {other}"))?,
        }
    }
    Ok(())
}

impl Open {
    /// What an agent does on a task, if the job is that.
    async fn work(&self, job: &str) -> Result<Option<RunRecord>, Failure> {
        let Ok(id) = JobId::from_str(job.trim()) else { return Ok(None) };
        match self.engine().run_find(&self.op("jobs_get"), id).await {
            Ok(seen) => Ok(Some(seen.record).filter(|record| record.run.order.work().is_some())),
            Err(EngineError::Refused(Refusal::JobNotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn work_json(record: &RunRecord) -> Value {
    let RunRecord { job, run } = record;
    json!({
        "id": job.id,
        "taskId": job.task,
        "role": run.order.work().map(|order| order.role.as_str()),
        "state": job.state.as_str().to_uppercase(),
        "attempt": run.attempt,
        "summary": run.summary,
        "machine": run.runs_on,
        "question": question_json(record),
    })
}

/// What an agent waits to be told.
pub fn question_json(record: &RunRecord) -> Value {
    let asked = record.asks();
    asked.map_or(Value::Null, |asked| {
        json!({
            "job": record.job.id,
            "task": record.job.task,
            "number": asked.number,
            "text": asked.text,
            "command": asked.command,
        })
    })
}

async fn cmd_job_cancel(context: &Context, args: CancelArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let answer = ask(&open, "jobs_cancel", json!({ "jobId": args.job })).await?;
    if context.out.json {
        return context.out.document(&answer);
    }
    let state = answer["state"].as_str().unwrap_or_default();
    if answer["ok"] == true {
        return context.out.line(state);
    }
    let words = format!("the job is over: {state}");
    Err(Failure::new(Exit::Conflict, "ALREADY_TERMINAL", words))
}

async fn cmd_job_answer(context: &Context, args: AnswerArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let granted = matches!(args.answer, YesNo::Yes);
    let record =
        open.engine().run_answer(&open.op("job_answer"), job_id(&args.job)?, None, granted).await?;
    let state = record.job.state.as_str();
    if context.out.json {
        return context.out.document(&json!({ "granted": granted, "state": state }));
    }
    context.out.line(if granted { "granted" } else { "refused" })
}

pub fn job_id(text: &str) -> Result<JobId, Failure> {
    let words = || format!("'{text}' is no job; job ids begin with job_");
    JobId::from_str(text.trim()).map_err(|_| Failure::usage(words()))
}

/// Print what a job's agent printed, so far if it is at work on a task
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard logs job_01k0v3e8xq7rjw2m5c9n4d6t0z -f")]
pub struct LogsArgs {
    /// The job's id, as job list shows it
    job: String,
    /// Wait until the job is over
    #[arg(short, long)]
    follow: bool,
}

pub async fn cmd_logs(context: &Context, args: LogsArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let (op, job) = (open.op_long("logs")?, job_id(&args.job)?);
    if args.follow {
        let mut feed = open.engine().run_feed(Some(job)).await?;
        while !open.engine().run_find(&op, job).await?.record.job.is_over() {
            tokio::select! {
                _ = feed.next() => {}
                () = op.cancel.cancelled() => return Ok(()),
            }
        }
    }
    let (seen, text) = open.engine().run_log(&op, job).await?;
    let text = text.ok_or_else(|| missing(&seen, ArtifactName::Logs))?;
    open.out.raw(&text)
}

pub async fn artifact(open: &Open, job: JobId, name: ArtifactName) -> Result<String, Failure> {
    match open.engine().run_artifact(&open.op("resources"), job, name).await? {
        ArtifactText::Text(text) => Ok(text),
        ArtifactText::Missing(seen) => Err(missing(&seen, name)),
    }
}

fn missing(seen: &RunSeen, name: ArtifactName) -> Failure {
    let job = &seen.record.job;
    let words = format!("{} is {} and has no {}", job.id, job.state.as_str(), name.as_str());
    Failure::new(Exit::NotFound, "ARTIFACT_MISSING", words)
}
