//! `callboard job …`: jobs for agents, in the words of the relay toolset, and beside them the work of agents on tasks
//! of the board.

use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::artifact_removed;
use callboard_domain::runs::job::{JobId, JobKind, JobState};
use callboard_domain::runs::run::{ArtifactName, RunRecord};
use callboard_engine::context::OpContext;
use callboard_engine::store::RunSeen;
use callboard_engine::{ArtifactText, EngineError, JobSeen};
use callboard_surface::error;
use callboard_surface::toolsets::relay;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::job_list::{JobListArgs, cmd_job_list, word};
use super::view::plain;
use crate::output::{Exit, Failure, Object, exit_of};

/// Submit, list, show, answer and cancel jobs for agents
#[derive(clap::Subcommand, Debug)]
pub enum JobCommand {
    Submit(SubmitArgs),
    List(JobListArgs),
    Show(JobShowArgs),
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

/// Show a job and its progress
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job show job_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct JobShowArgs {
    /// The job's id, as job list shows it
    job: String,
}

/// End a job that is not over
///
/// An agent that is at work is stopped with its processes, and its task is free again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard job cancel job_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct CancelArgs {
    /// The job's id, as job list shows it
    job: String,
}

/// Answer a question of a job's agent
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

/// Calls a tool of the relay toolset as an agent does, so that specs and errors are judged in one place.
pub async fn ask(open: &Open, tool: &str, arguments: Value) -> Result<Value, Failure> {
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
        return context.out.object(Object::JobSubmitted, answer);
    }
    if let Some(note) = answer["note"].as_str() {
        context.out.warning(note);
    }
    context.out.line(answer["jobId"].as_str().unwrap_or_default())
}

async fn cmd_job_show(context: &Context, args: JobShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.job_id(&args.job).await?;
    let job = match open.other_than_patch(id).await? {
        Some(seen) => seen_json(&seen),
        None => ask(&open, "jobs_get", json!({ "jobId": id })).await?,
    };
    if context.out.json {
        return context.out.object(Object::Job, job);
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
    /// A job of a kind that the relay toolset does not show.
    async fn other_than_patch(&self, id: JobId) -> Result<Option<JobSeen>, Failure> {
        match self.engine().job_see(&self.op("jobs_get"), id).await {
            Ok(seen) => Ok(Some(seen).filter(|seen| seen.job.kind != JobKind::Run)),
            Err(EngineError::Refused(Refusal::JobNotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub fn seen_json(seen: &JobSeen) -> Value {
    let JobSeen { job, run } = seen;
    let run = run.as_ref();
    let record = run.map(|run| RunRecord { job: job.clone(), run: run.clone() });
    let reason = match &job.state {
        JobState::Failed { reason, .. } => Some(reason),
        _ => None,
    };
    json!({
        "id": job.id,
        "kind": job.kind,
        "taskId": job.task,
        "role": run.and_then(|run| run.order.work()).map(|order| order.role.as_str()),
        "state": word(&job.state),
        "reason": reason,
        // A job without an agent, such as a delivery, counts its tries alone.
        "attempt": run.map_or(job.tries, |run| run.attempt),
        "summary": run.and_then(|run| run.summary.as_ref()),
        "machine": run.and_then(|run| run.runs_on.as_ref()),
        "question": record.as_ref().map_or(Value::Null, question_json),
    })
}

/// The question that an agent waits to have answered.
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
    let job = open.job_id(&args.job).await?;
    let ended = open.engine().job_cancel(&open.op_long("jobs_cancel")?, job).await;
    let ended = ended.map_err(|error| of_job(error, job))?;
    open.say_canceled(&ended)?;
    let state = word(&ended.job.state);
    match context.out.json {
        true => context.out.object(Object::JobCanceled, json!({ "ok": true, "state": state })),
        false => context.out.line(state),
    }
}

/// A failure whose hint names this job.
fn of_job(error: EngineError, job: JobId) -> Failure {
    let is_fixed = matches!(&error, EngineError::Refused(Refusal::NotCancelable { .. }));
    let failure = Failure::from(error);
    if is_fixed {
        failure.hint(format!("callboard job show {job} shows the state of the job"))
    } else {
        failure
    }
}

pub fn already_over(state: &str) -> Failure {
    Failure::new(Exit::Conflict, "ALREADY_TERMINAL", format!("the job has ended: {state}"))
}

async fn cmd_job_answer(context: &Context, args: AnswerArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let granted = matches!(args.answer, YesNo::Yes);
    let job = open.job_id(&args.job).await?;
    let record = open.engine().run_answer(&open.op("job_answer"), job, None, granted).await?;
    let state = record.job.state.as_str();
    if context.out.json {
        let answered = json!({ "granted": granted, "state": state });
        return context.out.object(Object::JobAnswered, answered);
    }
    context.out.line(if granted { "granted" } else { "refused" })
}

pub async fn artifact(open: &Open, job: JobId, name: ArtifactName) -> Result<String, Failure> {
    match open.engine().run_artifact(&open.op("resources"), job, name).await? {
        ArtifactText::Text(text) => Ok(text),
        ArtifactText::Missing(seen) => Err(missing(&seen, name)),
    }
}

pub fn missing(seen: &RunSeen, name: ArtifactName) -> Failure {
    let job = &seen.record.job;
    if seen.record.run.artifact(name).is_some() {
        return artifact_removed(job.id, name).into();
    }
    let words = format!("{} is {} and has no {}", job.id, job.state.as_str(), name.as_str());
    Failure::new(Exit::NotFound, "ARTIFACT_MISSING", words)
}
