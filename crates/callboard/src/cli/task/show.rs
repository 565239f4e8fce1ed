//! `callboard task show`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Show one task with its checks, verification, comments and history
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task show SHOP-01j8x2k7 --json")]
pub struct ShowArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_show(context: &Context, args: ShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("get");
    let seen = open.engine().task_get(&op, id).await?;
    let comments = open.engine().comment_list(&op, id).await?;
    open.print_task(&seen, &comments)
}
