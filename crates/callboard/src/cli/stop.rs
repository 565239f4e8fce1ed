//! `callboard stop`: stops an agent, with its processes.

use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::Run;
use callboard_engine::context::OpContext;
use callboard_engine::{JobCanceled, Stopped, crew_worker};
use serde_json::json;

use super::context::{Context, Open};
use super::id_ref::TaskOrJob;
use super::job::already_over;
use super::job_list::word;
use crate::output::{Exit, Failure, Object};

/// Stop the agent of a task or of a job, with its processes
///
/// A task that an agent worked on is free again. What the agent wrote and committed stays in the
/// task's worktree. An agent that waits for its turn is not started.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard stop SHOP-01j8x2k7\n  \
                        callboard stop job_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct StopArgs {
    /// The task, the beginning of its id, or a job
    #[arg(value_name = "TASK|JOB")]
    what: String,
}

pub async fn cmd_stop(context: &Context, args: StopArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op_long("stop")?;
    let jobs: Vec<JobId> = match open.task_or_job(&args.what).await? {
        TaskOrJob::Job(job) => {
            open.stop_job(&op, job).await?;
            vec![job]
        }
        TaskOrJob::Task(task) => {
            let stopped = open.engine().agent_stop(&op, task).await;
            let (stopped, runs) = stopped.map_err(|error| Failure::from(error).about(task))?;
            open.say_stopped(Some(stopped), runs.iter().map(|record| &record.run))?;
            runs.iter().map(|record| record.job.id).collect()
        }
    };
    match context.out.json {
        true => context.out.object(Object::RunStopped, json!({ "stopped": jobs })),
        false => context.out.line("stopped"),
    }
}

impl Open {
    async fn stop_job(&self, op: &OpContext, job: JobId) -> Result<(), Failure> {
        let kind = self.engine().job_see(op, job).await?.job.kind;
        if !kind.is_run() {
            let words = format!("{job} is a job of the kind {}; it has no agent", kind.as_str());
            let failure = Failure::new(Exit::Conflict, "NOT_RUNNING", words);
            return Err(failure.hint(format!("callboard job cancel {job}")));
        }
        let ended = self.engine().job_cancel(op, job).await?;
        self.say_canceled(&ended)
    }

    /// Reports what is left of a job that was ended.
    pub fn say_canceled(&self, ended: &JobCanceled) -> Result<(), Failure> {
        if !ended.is_new {
            return Err(already_over(word(&ended.job.state)));
        }
        self.say_stopped(ended.agent, ended.run.iter())
    }

    fn say_stopped<'r>(
        &self,
        stopped: Option<Stopped>,
        mut runs: impl Iterator<Item = &'r Run>,
    ) -> Result<(), Failure> {
        if stopped == Some(Stopped::Lingers) {
            let words = "the agent was told to stop, but some of its processes still run";
            let failure = Failure::new(Exit::Failure, "NOT_GONE", words).retryable();
            return Err(failure.hint("callboard job list --all shows them"));
        }
        if let Some(worker) = runs.find_map(crew_worker) {
            self.out.note(&format!(
                "the crew starts the agent of {worker} again while {worker} has the task; callboard \
                 agent rm {worker} takes it away"
            ));
        }
        Ok(())
    }
}
