//! `callboard task verify`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Verify a task in review once more
///
/// Queues the verification; a running callboard up, serve or mcp does it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task verify SHOP-01j8x2k7")]
pub struct VerifyArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_verify(context: &Context, args: VerifyArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_moved(id, open.engine().verification_queue(&open.op("verify"), id).await)
}
