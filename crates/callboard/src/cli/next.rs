//! `callboard next`.

use super::context::Context;
use crate::output::Failure;

/// Show what can be started now, best first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard next --limit 1 --json")]
pub struct NextArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn cmd_next(context: &Context, args: NextArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let rows = open.engine().task_next(&open.op("list"), args.limit as usize).await?;
    open.print_rows(&rows, false)?;
    if rows.it.is_empty() && !context.out.json {
        context.out.note(
            "nothing is free to start; callboard task list --open shows what is held or blocked",
        );
    }
    Ok(())
}
