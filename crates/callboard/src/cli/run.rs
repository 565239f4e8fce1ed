//! `callboard run`: an agent works on a task alone.

use callboard_domain::command::{Start, TerminalStart};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{JobId, JobState};
use callboard_engine::context::OpContext;
use callboard_engine::{EngineError, HELD_S, WorkJob, WorkSeen, WorkWish};
use serde_json::json;

use super::context::{Context, Open};
use super::view::plain;
use crate::output::{Exit, Failure, Object};

/// Let an agent work on a task, in a worktree and on a branch of its own
///
/// The task becomes one for an agent alone, which ends your session on it. A server on the machine of
/// its repository starts the agent: up, serve, mcp or worker. With --here this command starts it
/// itself. With --wait or --here, exit code 1 says that the work was not handed over, and why.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard run SHOP-01j8x2k7 --agent claude --wait\n  \
                        callboard run SHOP-01j8x2k7 --here")]
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
    /// Take the task from the actor that holds it, and stop what that actor runs on it
    #[arg(long)]
    take: bool,
    /// Open the task again if it is closed
    #[arg(long)]
    reopen: bool,
    /// Wait until the agent is done, and say how far it is
    #[arg(short = 'f', long)]
    wait: bool,
    /// Run the agent in this process, without a server, until it is done; Ctrl-C stops it
    #[arg(long)]
    here: bool,
}

impl RunArgs {
    fn wish(&self) -> WorkWish {
        WorkWish {
            instructions: self.message.clone(),
            model: self.model.clone(),
            start: Start::Terminal(TerminalStart {
                agent: self.agent.clone(),
                take: self.take,
                reopen: self.reopen,
                held_s: if self.here { HELD_S } else { 0 },
            }),
        }
    }
}

pub async fn cmd_run(context: &Context, args: RunArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("run")?;
    let asked = open.engine().work_submit(&op, id, args.wish()).await;
    let asked = match asked.map_err(|error| refused(error, id))? {
        WorkJob::Start(seen) => *seen,
        WorkJob::Stop(_) => return Err(Failure::new(Exit::Failure, "INTERNAL_ERROR", "no start")),
    };
    let job = asked.record.job.id;
    if args.here {
        return open.run_here(&op, id, job).await;
    }
    let has_runner = open.say_who_starts(id, &asked).await?;
    if args.wait {
        return open.follow(&op, id, job).await;
    }
    if context.out.json {
        let queued = json!({"task": id, "job": job, "runner": has_runner});
        return context.out.object(Object::Run, queued);
    }
    context.out.note(&format!("callboard run {id} --wait follows it"));
    context.out.line(&job.to_string())
}

/// The failure, with the flag that overrides it.
fn refused(error: EngineError, id: TaskId) -> Failure {
    let flag = match &error {
        EngineError::Refused(Refusal::Closed { .. }) => Some("--reopen"),
        EngineError::Refused(Refusal::AlreadyClaimed { .. }) => Some("--take"),
        _ => None,
    };
    let failure = Failure::from(error);
    match flag {
        Some(flag) => failure.hint(format!("callboard run {id} {flag}")),
        None => failure.about(id),
    }
}

impl Open {
    /// Warns when no process is there that would start the agent; returns whether one is.
    async fn say_who_starts(&self, id: TaskId, asked: &WorkSeen) -> Result<bool, Failure> {
        let bound = asked.record.run.bound_to.as_deref();
        let has_runner = self.engine().runner_is_there(bound).await?;
        let waits = matches!(asked.record.job.state, JobState::Queued { .. });
        if has_runner || !waits {
            return Ok(has_runner);
        }
        let is_here = bound.is_none_or(|bound| bound == self.engine().machine());
        let (place, way) = match is_here {
            true => {
                ("on this machine", format!(", or callboard run {id} --here runs the agent now"))
            }
            false => ("on the machine of its repository", String::new()),
        };
        self.out.warning(&format!(
            "queued, but no process {place} starts the job until callboard up, callboard serve or callboard \
             worker runs{way}"
        ));
        Ok(false)
    }

    /// Runs the agent in this process, to its end.
    async fn run_here(&self, op: &OpContext, task: TaskId, job: JobId) -> Result<(), Failure> {
        let work = self.engine().work_here(op, job);
        let followed = self.follow(op, task, job);
        tokio::pin!(work, followed);
        let followed = tokio::select! {
            biased;
            worked = &mut work => {
                worked?;
                return followed.await;
            }
            followed = &mut followed => followed,
        };
        if op.cancel.is_cancelled() {
            // The work goes on until its processes are gone.
            let (stopped, worked) = tokio::join!(self.engine().agent_stop(op, task), work);
            worked?;
            // An agent that ended meanwhile needs no stop.
            if let Err(error) = stopped
                && !matches!(error, EngineError::Refused(_))
            {
                return Err(error.into());
            }
            self.out.note("the agent was stopped");
        } else {
            work.await?;
        }
        followed
    }

    /// Follows the job until it is over.
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
        let phase = left.it.task.phase;
        let is_done = matches!(ended.job().state, JobState::Done { .. });
        if is_done && (phase == Phase::Review || phase.is_closed()) {
            return self.print_changed(&left);
        }
        let words = format!("{task} is {}{}", left.it.task.label, why(&ended));
        let failure = Failure::new(Exit::Failure, "NOT_HANDED_OVER", words);
        Err(failure.hint(format!("callboard logs {job}, callboard task show {task}")))
    }
}

/// The reason in the run's summary; a failed start has its reason there.
fn why(ended: &WorkJob) -> String {
    let WorkJob::Start(seen) = ended else { return String::new() };
    match seen.record.run.summary.as_deref() {
        Some(why) => format!(": {}", plain(why)),
        None => ": the agent ended without handing its work over".into(),
    }
}

fn progress(seen: &WorkJob) -> &'static str {
    let WorkJob::Start(start) = seen else { return "the agent is being stopped" };
    match &start.record.job.state {
        JobState::Done { .. } => "the agent has ended",
        JobState::Failed { .. } if start.record.run.up_at.is_none() => "the agent did not start",
        JobState::Failed { .. } => "the agent failed",
        JobState::Canceled { .. } => "the agent was stopped",
        JobState::Expired { .. } => "the agent took too long",
        _ if start.record.run.up_at.is_some() => "the agent works",
        JobState::Queued { .. } if start.waits_for_place => "waiting until another agent ends",
        JobState::Queued { .. } => "waiting for a process that starts the agent",
        JobState::Running { .. } | JobState::Stale { .. } => "the agent is being started",
    }
}
