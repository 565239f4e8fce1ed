//! `callboard task reopen`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Send a task back from review
///
/// The task starts again from the beginning, without a holder, and every actor may take it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task reopen SHOP-01j8x2k7")]
pub struct ReopenArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_reopen(context: &Context, args: ReopenArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_moved(id, open.engine().task_reopen(&open.op("reopen"), id).await)
}
