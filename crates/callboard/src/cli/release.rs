//! `callboard release`.

use callboard_domain::refusal::Refusal;

use super::context::Context;
use crate::output::Failure;

/// Give back a task that you hold
///
/// With --force a person takes the task from its holder: the holder's attempt is over, an agent that
/// Callboard runs on it is stopped, and the task is offered again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard release SHOP-01j8x2k7 --force")]
pub struct ReleaseArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Also when another actor holds it; for people only
    #[arg(long)]
    force: bool,
}

pub async fn cmd_release(context: &Context, args: ReleaseArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("release");
    if args.force && !open.principal.actor.is_human() {
        return Err(Refusal::invalid("--force is for people; act as human:NAME").into());
    }
    let released = match args.force {
        true => open.engine().task_take_back(&op, id).await,
        false => open.engine().task_release(&op, id).await,
    };
    let released = released.map_err(|error| {
        let failure = Failure::from(error).about(id);
        failure.or_hint(format!("callboard release {id} --force, if you are a person"))
    })?;
    open.print_changed(&released)
}
