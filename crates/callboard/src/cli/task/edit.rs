//! `callboard task edit`.

use callboard_domain::command::{NewCheck, TaskEdit};

use super::text_or_stdin;
use crate::cli::context::Context;
use crate::output::Failure;

/// Change a task's words, priority or checks
///
/// New checks replace the old ones and start without a result.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task edit SHOP-01j8x2k7 --priority 100")]
pub struct EditArgs {
    /// The task, or the beginning of its id
    id: String,
    /// What is to be done, in a line
    #[arg(long)]
    title: Option<String>,
    /// What is wanted, as Markdown; - reads standard input
    #[arg(long)]
    body: Option<String>,
    /// 0..1000, smaller first
    #[arg(long, value_name = "N")]
    priority: Option<u16>,
    /// A shell command, or "manual: TEXT"; may be given several times
    #[arg(long = "check", value_name = "CHECK")]
    checks: Vec<String>,
    /// Take all checks away
    #[arg(long, conflicts_with = "checks")]
    no_checks: bool,
}

pub async fn cmd_task_edit(context: &Context, args: EditArgs) -> Result<(), Failure> {
    let body = args.body.map(text_or_stdin).transpose()?;
    let open = context.open().await?;
    let new_checks = args.no_checks || !args.checks.is_empty();
    let edit = TaskEdit {
        task: open.task_id(&args.id).await?,
        title: args.title,
        body,
        priority: args.priority,
        checks: new_checks
            .then(|| args.checks.iter().map(|line| NewCheck::of_line(line)).collect()),
    };
    open.print_changed(&open.engine().task_edit(&open.op("edit"), edit).await?)
}
