//! `callboard reject`.

use callboard_domain::policy::Phase;
use callboard_engine::Rejection;

use super::context::Context;
use crate::output::Failure;

/// Send a task back from review, with feedback
///
/// The task is offered again unless an actor still works on it. The next worker reads the feedback.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard reject SHOP-01j8x2k7 -m \"The error path has no test\""
)]
pub struct RejectArgs {
    /// The task, or the beginning of its id
    id: String,
    /// The feedback
    #[arg(short, long, value_name = "TEXT")]
    message: String,
    /// Where it goes: in_progress or backlog
    #[arg(long, value_name = "STATUS", default_value = "in_progress", hide_possible_values = true)]
    to: Back,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Back {
    InProgress,
    Backlog,
}

impl Back {
    fn phase(self) -> Phase {
        match self {
            Back::InProgress => Phase::Working,
            Back::Backlog => Phase::Initial,
        }
    }
}

pub async fn cmd_reject(context: &Context, args: RejectArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let (op, rejection) = (open.op("reject"), Rejection::of(args.message, args.to.phase()));
    open.print_moved(id, open.engine().review_reject(&op, id, rejection).await)
}
