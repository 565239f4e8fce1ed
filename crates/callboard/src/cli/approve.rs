//! `callboard approve`, which is `callboard task approve` too.

use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_engine::{At, Merged, ReviewEnd, Reviewed};
use callboard_surface::toolsets::graph::view;
use serde_json::{Value, json};

use super::context::{Context, Open};
use crate::output::{Exit, Failure};

/// Approve a task that waits for review
///
/// Closes it as done; work that is not in its target branch yet keeps it in review until it is
/// merged. A human's approval is what a manual, github_pr or gitlab_mr verification waits for; the
/// checks must pass all the same, and exit code 6 says that one does not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard approve SHOP-01j8x2k7 --merge")]
pub struct ApproveArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Merge its work too, as one commit; exit code 5 says that it could not be
    #[arg(long)]
    merge: bool,
    /// What to say about it
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    message: String,
}

pub async fn cmd_approve(context: &Context, args: ApproveArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("approve")?;
    let approved = match open.engine().task_approve(&op, id, args.message).await {
        Ok(approved) => approved,
        refused @ Err(_) => return open.print_moved(id, refused),
    };
    let waits = approved.it.task.phase == Phase::Review;
    if waits && args.merge {
        let At { now, .. } = approved;
        return match open.engine().review_merge(&op, id).await {
            Ok(Reviewed { record, end }) => open.print_merged(At { it: record, now }, end),
            Err(error) => open.print_moved(id, Err(error)),
        };
    }
    if waits {
        context.out.note(&format!("not merged yet: callboard approve {id} --merge"));
    }
    open.print_changed(&approved)
}

impl Open {
    fn print_merged(
        &self,
        seen: At<callboard_domain::task::TaskRecord>,
        end: ReviewEnd,
    ) -> Result<(), Failure> {
        let id = seen.it.task.id;
        let Merged { commit, pushed } = match end {
            ReviewEnd::Merged(merged) => merged,
            ReviewEnd::MergeFailed { words, files } => return Err(not_merged(id, &words, files)),
            // Only a merge was asked for.
            ReviewEnd::Rebased { .. }
            | ReviewEnd::RebaseConflict { .. }
            | ReviewEnd::RebaseFailed { .. } => return self.print_changed(&seen),
        };
        if let Some(Err(words)) = &pushed {
            self.out.warning(&format!("merged, but not pushed: {words}"));
        }
        if self.out.json {
            let mut document = view::task(&seen.it, self.policy(), seen.now);
            document["merge_commit"] = commit.into();
            document["pushed"] = json!(pushed.map(|pushed| pushed.is_ok()));
            return self.out.document(&document);
        }
        match commit {
            Some(commit) => self.out.note(&format!("merged as {commit}")),
            None => self.out.note("there was nothing to merge"),
        }
        self.print_changed(&seen)
    }
}

fn not_merged(id: TaskId, words: &str, files: Vec<String>) -> Failure {
    let hint = match files.is_empty() {
        true => format!("callboard review {id}"),
        false => format!("settle it in these files, then callboard approve {id} --merge"),
    };
    let files: Value = files.into();
    Failure::new(Exit::Conflict, "MERGE_FAILED", format!("approved, but not merged: {words}"))
        .hint(hint)
        .details(json!({"conflict_files": files}))
}
