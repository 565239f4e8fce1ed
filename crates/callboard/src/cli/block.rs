//! `callboard block` and `callboard unblock`.

use super::context::Context;
use crate::output::Failure;

/// Block a task with a reason; it is not offered until it gets an answer
///
/// A note or a comment by another actor is an answer; so is an edit of the task, and taking it.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard block SHOP-01j8x2k7 -m \"needs a key for the payment service\""
)]
pub struct BlockArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Why the task is stuck
    #[arg(short, long, value_name = "TEXT")]
    message: String,
}

pub async fn cmd_block(context: &Context, args: BlockArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_changed(&open.engine().task_block(&open.op("block"), id, args.message).await?)
}

/// Unblock a task, so that it is offered again
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard unblock SHOP-01j8x2k7")]
pub struct UnblockArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_unblock(context: &Context, args: UnblockArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_changed(&open.engine().task_unblock(&open.op("unblock"), id).await?)
}
