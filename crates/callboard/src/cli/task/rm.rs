//! `callboard task rm`.

use serde_json::json;

use crate::cli::context::Context;
use crate::output::Failure;

/// Remove a task
///
/// Nobody finds it any more, and what waited for it waits no longer. Its history stays.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task rm SHOP-01j8x2k7")]
pub struct RmArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_rm(context: &Context, args: RmArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.engine().task_remove(&open.op("rm"), id).await?;
    if context.out.json {
        return context.out.document(&json!({"id": id, "removed": true}));
    }
    context.out.line(&format!("{id} removed"))
}
