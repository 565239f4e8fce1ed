//! `callboard task rm`.

use callboard_domain::ids::TaskId;
use serde_json::json;

use crate::cli::context::{Context, Open};
use crate::cli::view::plain;
use crate::output::{Failure, Object};

/// Remove a task
///
/// The task leaves every list, and tasks that waited for it wait no longer; those that can start now
/// are named. Its history stays.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task rm SHOP-01j8x2k7")]
pub struct RmArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_task_rm(context: &Context, args: RmArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let freed = open.engine().task_remove(&open.op("rm"), id).await?;
    if context.out.json {
        return context
            .out
            .object(Object::TaskRemoved, json!({"id": id, "removed": true, "freed": freed}));
    }
    context.out.line(&format!("{id} removed"))?;
    for task in freed {
        say_free(&open, task).await?;
    }
    Ok(())
}

async fn say_free(open: &Open, task: TaskId) -> Result<(), Failure> {
    let title = open.engine().task_get(&open.op("get"), task).await?.it.task.title;
    open.out.note(&format!("{task} has no open dependency any more: {}", plain(&title)));
    Ok(())
}
