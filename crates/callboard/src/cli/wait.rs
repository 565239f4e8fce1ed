//! `callboard wait`.

use std::time::Duration;

use callboard_engine::WaitOutcome;
use serde_json::json;

use super::context::Context;
use super::duration::duration;
use crate::output::{Exit, Failure};

/// Wait until a task reaches a status
///
/// Exit code 8 says that the timeout came first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard wait SHOP-01j8x2k7 --for review,done --timeout 50s")]
pub struct WaitArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Statuses or phases to wait for, or closed, or ready
    #[arg(long = "for", value_name = "STATES", value_delimiter = ',', default_value = "closed")]
    states: Vec<String>,
    /// How long at most, like 50s, 10m or 2h
    #[arg(long, default_value = "50s", value_parser = duration)]
    timeout: Duration,
}

pub async fn cmd_wait(context: &Context, args: WaitArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("get")?;
    match open.engine().task_wait(&op, id, &args.states, args.timeout).await? {
        WaitOutcome::Reached(seen) => open.print_changed(&seen),
        WaitOutcome::TimedOut(seen) => {
            let task = &seen.it.task;
            let message = format!("{id} is still {}", task.label);
            let timed_out = Failure::new(Exit::TimedOut, "WAIT_TIMED_OUT", message);
            Err(timed_out.retryable().details(json!({"task": id, "status": task.label})))
        }
    }
}
