//! `callboard task move`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Move a task to another status
///
/// Leaving the first status needs closed dependencies; closing as done runs the checks.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task move SHOP-01j8x2k7 canceled")]
pub struct MoveArgs {
    /// The task, or the beginning of its id
    id: String,
    /// One of the statuses that callboard config shows
    status: String,
}

pub async fn cmd_task_move(context: &Context, args: MoveArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("transition")?;
    open.print_moved(id, open.engine().task_transition(&op, id, args.status).await)
}
