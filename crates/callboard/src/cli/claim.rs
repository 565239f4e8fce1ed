//! `callboard claim`.

use super::context::Context;
use crate::output::Failure;

/// Take a task, so that nobody else does
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard claim SHOP-01j8x2k7")]
pub struct ClaimArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_claim(context: &Context, args: ClaimArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_changed(&open.engine().task_claim(&open.op("claim"), id).await?)
}
