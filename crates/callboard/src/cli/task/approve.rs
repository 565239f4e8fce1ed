//! `callboard task approve`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Approve a task that waits for review
///
/// Closes it as done. A human's approval is what a manual, github_pr or gitlab_mr verification
/// waits for; the checks must pass all the same, and exit code 6 says that one does not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task approve SHOP-01j8x2k7")]
pub struct ApproveArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_approve(context: &Context, args: ApproveArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("approve")?;
    open.print_moved(id, open.engine().task_approve(&op, id).await)
}
