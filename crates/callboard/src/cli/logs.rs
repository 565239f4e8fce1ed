//! `callboard logs`: the output of an agent, also as it is printed.

use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::ArtifactName;
use callboard_engine::context::OpContext;

use super::context::{Context, Open};
use super::id_ref::TaskOrJob;
use super::job::missing;
use super::job_list::word;
use crate::output::{Exit, Failure};

/// Print the output of the agent of a task or a job, also while it works
///
/// With --follow, output is printed within a second of the agent writing it, until the job is over,
/// also from another machine than the agent's.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard logs SHOP-01j8x2k7 -f\n  \
                        callboard logs job_01k0v3e8xq7rjw2m5c9n4d6t0z --tail 20")]
pub struct LogsArgs {
    /// The task, the beginning of its id, or a job
    #[arg(value_name = "TASK|JOB")]
    what: String,
    /// Go on printing until the job is over
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines of what is there
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
}

pub async fn cmd_logs(context: &Context, args: LogsArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op_long("logs")?;
    let job = open.job_with_log(&op, &args.what, args.follow).await?;
    if args.follow {
        return open.follow_log(&op, job, args.tail).await;
    }
    let (seen, text) = open.engine().run_log(&op, job).await?;
    let text = text.ok_or_else(|| missing(&seen, ArtifactName::Logs))?;
    open.out.raw(last_lines(&text, args.tail))
}

impl Open {
    /// The job of a task whose output is printed. A reader that follows waits for a start that is queued.
    async fn job_with_log(
        &self,
        op: &OpContext,
        what: &str,
        follow: bool,
    ) -> Result<JobId, Failure> {
        let task = match self.task_or_job(what).await? {
            TaskOrJob::Task(task) => task,
            TaskOrJob::Job(job) => return self.log_of_job(op, job).await,
        };
        let newest = match follow {
            true => self.engine().work_newest(op, task).await?,
            false => self.engine().work_printed(op, task).await?,
        };
        if let Some(newest) = newest {
            return Ok(newest.job.id);
        }
        let words = format!("no agent has worked on {task}");
        let failure = Failure::new(Exit::NotFound, "ARTIFACT_MISSING", words);
        Err(failure.hint(format!("callboard run {task} starts one")))
    }

    async fn log_of_job(&self, op: &OpContext, job: JobId) -> Result<JobId, Failure> {
        let kind = self.engine().job_see(op, job).await?.job.kind;
        if kind.is_run() {
            return Ok(job);
        }
        let words = format!("{job} is a job of the kind {}; it has no agent", kind.as_str());
        let failure = Failure::new(Exit::NotFound, "ARTIFACT_MISSING", words);
        Err(failure.hint(format!("callboard job show {job}")))
    }

    async fn follow_log(
        &self,
        op: &OpContext,
        job: JobId,
        mut tail: Option<usize>,
    ) -> Result<(), Failure> {
        let mut follow = self.engine().run_follow(op, job).await?;
        loop {
            let text = tokio::select! {
                text = follow.next() => text?,
                () = op.cancel.cancelled() => {
                    return Err(Failure::Silent(Exit::Interrupted as u8));
                }
            };
            let Some(text) = text else { break };
            // The limit counts for what is there at the start; everything new is printed.
            self.out.raw(last_lines(&text, tail.take()))?;
        }
        let over = self.engine().job_see(op, job).await?.job;
        self.out.note(&format!("{job} has ended: {}", word(&over.state)));
        Ok(())
    }
}

fn last_lines(text: &str, count: Option<usize>) -> &str {
    let Some(count) = count else { return text };
    let ends = text.trim_end_matches('\n');
    // From the end: the beginning of a log may be megabytes away.
    let mut breaks = ends.rmatch_indices('\n').map(|(at, _)| at + 1);
    match count {
        0 => "",
        count => breaks.nth(count - 1).map_or(text, |at| &text[at..]),
    }
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn the_last_lines_are_whole() {
        for (count, shown) in
            [(0, ""), (1, "c\n"), (2, "b\nc\n"), (3, "a\nb\nc\n"), (9, "a\nb\nc\n")]
        {
            assert_eq!(last_lines("a\nb\nc\n", Some(count)), shown, "{count}");
        }
        assert_eq!(last_lines("a\nb", Some(1)), "b");
    }
}
