//! `callboard note`.

use super::context::Context;
use crate::output::Failure;

/// Add a note to a task's history
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard note SHOP-01j8x2k7 \"the API answers 404 since today\""
)]
pub struct NoteArgs {
    /// The task, or the beginning of its id
    id: String,
    /// What to write
    text: String,
}

pub async fn cmd_note(context: &Context, args: NoteArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    open.print_changed(&open.engine().task_note(&open.op("note"), id, args.text).await?)
}
