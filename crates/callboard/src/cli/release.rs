//! `callboard release`.

use super::context::Context;
use crate::output::Failure;

/// Give a task back that you hold
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard release SHOP-01j8x2k7")]
pub struct ReleaseArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_release(context: &Context, args: ReleaseArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_changed(&open.engine().task_release(&open.op("release"), id).await?)
}
