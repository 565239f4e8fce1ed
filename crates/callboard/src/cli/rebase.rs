//! `callboard rebase`.

use callboard_engine::{At, ReviewEnd, Reviewed};
use serde_json::json;

use super::context::Context;
use crate::output::{Exit, Failure};

/// Rebase a task's work onto the newest target branch
///
/// Changes nothing but the task's own branch. After a conflict everything is as it was, the task goes
/// back to work and exit code 5 names the files.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard rebase SHOP-01j8x2k7")]
pub struct RebaseArgs {
    /// The task, or the beginning of its id
    id: String,
}

pub async fn cmd_rebase(context: &Context, args: RebaseArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("rebase")?;
    let rebased = open.engine().review_rebase(&op, id).await;
    let Reviewed { record, end } = rebased.map_err(|error| Failure::from(error).about(id))?;
    let failed = |words: String| Failure::new(Exit::Conflict, "REBASE_FAILED", words);
    match end {
        ReviewEnd::Rebased { onto } => context.out.note(&format!("rebased onto {onto}")),
        ReviewEnd::RebaseConflict { files } => {
            let words = format!("not rebased: conflicts in {}", files.join(", "));
            let hint =
                format!("resolve the conflicts in the task's worktree, then callboard rebase {id}");
            return Err(failed(words).hint(hint).details(json!({"conflict_files": files})));
        }
        ReviewEnd::RebaseFailed { words } => {
            return Err(
                failed(format!("not rebased: {words}")).hint(format!("callboard review {id}"))
            );
        }
        // Only a rebase was requested.
        ReviewEnd::Merged(_) | ReviewEnd::MergeFailed { .. } => {}
    }
    open.print_changed(&At { it: record, now: open.engine().store().now() })
}
