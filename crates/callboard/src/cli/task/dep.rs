//! `callboard task dep`.

use crate::cli::context::Context;
use crate::output::Failure;

/// Add and remove dependencies between tasks
#[derive(clap::Subcommand, Debug)]
pub enum DepCommand {
    /// Make a task wait for another one
    #[command(after_help = "Example:\n  callboard task dep add SHOP-01j8x2k7 SHOP-01j8x1aa")]
    Add(DepArgs),
    /// Remove a dependency, so that a task no longer waits for another one
    #[command(after_help = "Example:\n  callboard task dep rm SHOP-01j8x2k7 SHOP-01j8x1aa")]
    Rm(DepArgs),
}

#[derive(clap::Args, Debug)]
pub struct DepArgs {
    /// The task that waits
    id: String,
    /// The task it waits for
    dep: String,
}

impl DepCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            DepCommand::Add(args) => cmd_task_dep_add(context, args).await,
            DepCommand::Rm(args) => cmd_task_dep_rm(context, args).await,
        }
    }
}

async fn cmd_task_dep_add(context: &Context, args: DepArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let (task, dep) = (open.task_id(&args.id).await?, open.task_id(&args.dep).await?);
    open.print_changed(&open.engine().dependency_add(&open.op("dep_add"), task, dep).await?)
}

async fn cmd_task_dep_rm(context: &Context, args: DepArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let (task, dep) = (open.task_id(&args.id).await?, open.task_id(&args.dep).await?);
    open.print_changed(&open.engine().dependency_remove(&open.op("dep_rm"), task, dep).await?)
}
