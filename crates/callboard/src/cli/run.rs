//! `callboard run`: an agent works on a task alone.

use callboard_domain::card::Mode;
use callboard_domain::command::CardUpdate;
use callboard_domain::ids::TaskId;
use callboard_domain::job::{JobId, JobState};
use callboard_domain::policy::Phase;
use callboard_engine::context::OpContext;
use callboard_engine::{EngineError, WorkJob, WorkWish};
use serde_json::json;

use super::context::{Context, Open};
use super::view::plain;
use crate::output::{Exit, Failure};

/// Let an agent work on a task, in a worktree and on a branch of its own
///
/// The task becomes one for an agent alone, which ends a session on it. A server on the machine of
/// its repository starts the agent: up, serve, mcp or worker. With --wait, exit code 1 says that
/// the work was not handed over.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard run SHOP-01j8x2k7 --agent claude --wait")]
pub struct RunArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Which agent [default: the task's, else general.default_worker_agent]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Which of its models [default: the one in the settings]
    #[arg(long)]
    model: Option<String>,
    /// What to tell it beside the task
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Wait until the agent is done, and say how far it is
    #[arg(short = 'f', long)]
    wait: bool,
}

pub async fn cmd_run(context: &Context, args: RunArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("run")?;
    let refused = |error: EngineError| Failure::from(error).about(id);
    let update = CardUpdate { mode: Some(Mode::Auto), agent: args.agent, ..CardUpdate::of(id) };
    open.engine().card_update(&op, update).await.map_err(refused)?;
    let wish = WorkWish { instructions: args.message, model: args.model };
    let job = open.engine().work_submit(&op, id, wish).await.map_err(refused)?.job().id;
    if args.wait {
        return open.follow(&op, id, job).await;
    }
    if context.out.json {
        return context.out.document(&json!({"task": id, "job": job}));
    }
    context.out.note(&format!("callboard run {id} --wait follows it"));
    context.out.line(&job.to_string())
}

impl Open {
    /// Until nothing of the run is left to wait for.
    async fn follow(&self, op: &OpContext, task: TaskId, job: JobId) -> Result<(), Failure> {
        let watch = self.engine().task_watch(task).await?;
        let mut said = "";
        let ended = loop {
            let seen = self.engine().work_get(op, task, job).await?;
            let words = progress(&seen);
            if words != said && !self.out.json {
                self.out.note(words);
            }
            said = words;
            if seen.job().is_over() {
                break seen;
            }
            tokio::select! {
                () = watch.changed() => {}
                () = op.cancel.cancelled() => return Err(EngineError::Canceled.into()),
            }
        };
        let left = self.engine().task_get(op, task).await?;
        if left.it.task.phase != Phase::Initial {
            return self.print_changed(&left);
        }
        let why = match &ended {
            WorkJob::Start(seen) => seen.record.run.summary.as_deref(),
            WorkJob::Stop(_) => None,
        };
        let why = why.map(|why| format!(": {}", plain(why))).unwrap_or_default();
        let words = format!("{task} is {} again{why}", left.it.task.label);
        let failure = Failure::new(Exit::Failure, "NOT_HANDED_OVER", words);
        Err(failure.hint(format!("callboard task show {task}")))
    }
}

fn progress(seen: &WorkJob) -> &'static str {
    let WorkJob::Start(start) = seen else { return "the agent is being stopped" };
    match &start.record.job.state {
        _ if seen.job().is_over() => "the agent is done",
        _ if start.record.run.up_at.is_some() => "the agent works",
        JobState::Queued { .. } if start.waits_for_place => "waiting until another agent is done",
        JobState::Queued { .. } => "waiting for a server that starts the agent",
        _ => "the agent is being started",
    }
}
