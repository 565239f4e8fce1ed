//! `callboard done`.

use callboard_domain::policy::Phase;

use super::context::Context;
use crate::output::Failure;

/// Close a task as done
///
/// Runs the command checks that do not pass for the files as they are. Exit code 6 says that a
/// check or a dependency stands in the way.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard done SHOP-01j8x2k7")]
pub struct DoneArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_done(context: &Context, args: DoneArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let done = open.policy().first_of(Phase::ClosedDone).map(|label| label.name.clone());
    let to = done.expect("no policy without a closed_done label is let through");
    let op = open.op_long("transition")?;
    open.print_moved(id, open.engine().task_transition(&op, id, to).await)
}
