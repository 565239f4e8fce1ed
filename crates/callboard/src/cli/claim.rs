//! `callboard claim`.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_engine::EngineError;

use super::context::Context;
use crate::output::Failure;

/// Claim a task, so that no other actor takes it
///
/// A closed task, or one that waits for others, is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard claim SHOP-01j8x2k7")]
pub struct ClaimArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Also take a task that is closed or waits for others
    #[arg(long)]
    anyway: bool,
}

pub async fn cmd_claim(context: &Context, args: ClaimArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("claim");
    let claimed = match args.anyway {
        true => open.engine().task_claim(&op, id).await,
        false => open.engine().task_claim_startable(&op, id).await,
    };
    open.print_changed(&claimed.map_err(|error| refused(error, id))?)
}

fn refused(error: EngineError, id: TaskId) -> Failure {
    use Refusal::{Closed, DepsNotClosed};
    let is_early = matches!(&error, EngineError::Refused(Closed { .. } | DepsNotClosed { .. }));
    let failure = Failure::from(error);
    if is_early { failure.hint(format!("callboard claim {id} --anyway")) } else { failure }
}
