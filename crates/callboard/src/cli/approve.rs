//! `callboard approve`, also available as `callboard task approve`.

use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::mark::ReviewMark;
use callboard_engine::ports::MergeWish;
use callboard_engine::{At, Merged, ReviewEnd, Reviewed};
use callboard_surface::toolsets::graph::view;
use serde_json::{Value, json};

use super::context::{Context, Open};
use crate::output::{Exit, Failure, Object};

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
    /// Push the branch it is merged into to origin as well [default: board.push_after_merge]
    #[arg(long, requires = "merge")]
    push: bool,
    /// Merge changes of Callboard's own settings too; review names the files
    #[arg(long, requires = "merge")]
    settings: bool,
    /// What to say about it
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    message: String,
}

pub async fn cmd_approve(context: &Context, args: ApproveArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("approve")?;
    let approved =
        match open.engine().task_approve(&op, id, args.message, ReviewMark::default()).await {
            Ok(approved) => approved,
            refused @ Err(_) => return open.print_moved(id, refused),
        };
    let waits = approved.it.task.phase == Phase::Review;
    if waits && args.merge {
        let At { now, .. } = approved;
        let (push, settings) = (args.push, args.settings);
        let wish = MergeWish { push, settings, ..MergeWish::default() };
        return match open.engine().review_merge_with(&op, id, wish).await {
            Ok(Reviewed { record, end }) => {
                open.print_merged(At { it: record, now }, end, args.push)
            }
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
        push: bool,
    ) -> Result<(), Failure> {
        let id = seen.it.task.id;
        let merged = match end {
            ReviewEnd::Merged(merged) => merged,
            ReviewEnd::MergeFailed { words, files } => return Err(not_merged(id, &words, files)),
            // Only a merge was requested.
            ReviewEnd::Rebased { .. }
            | ReviewEnd::RebaseConflict { .. }
            | ReviewEnd::RebaseFailed { .. } => return self.print_changed(&seen),
        };
        if self.out.json {
            self.warn_of_push(&merged);
            let mut document = view::task(&seen.it, self.policy(), seen.now);
            document["merge_commit"] = merged.commit.into();
            document["pushed"] = json!(merged.pushed.map(|pushed| pushed.is_ok()));
            document["pushed_to"] = json!(merged.pushed_to);
            return self.out.object(Object::Task, document);
        }
        match &merged.commit {
            Some(commit) => self.out.note(&format!("merged as {commit}")),
            None => self.out.note("there was nothing to merge"),
        }
        self.say_pushed(&merged, push);
        self.print_changed(&seen)
    }

    /// Prints which branches a merge pushed, and a note if a requested push was not possible.
    pub fn say_pushed(&self, merged: &Merged, wanted: bool) {
        for branch in &merged.pushed_to {
            self.out.note(&format!("pushed to {branch}"));
        }
        if wanted && merged.commit.is_some() && merged.pushed.is_none() {
            self.out.note("nothing was pushed: the repository has no origin");
        }
        self.warn_of_push(merged);
    }

    pub fn warn_of_push(&self, merged: &Merged) {
        if let Some(Err(words)) = &merged.pushed {
            self.out.warning(&format!("merged, but not pushed: {words}"));
        }
    }
}

fn not_merged(id: TaskId, words: &str, files: Vec<String>) -> Failure {
    let hint = match files.is_empty() {
        true => format!("callboard review {id}"),
        false => {
            format!("resolve the conflicts in these files, then callboard approve {id} --merge")
        }
    };
    let files: Value = files.into();
    Failure::new(Exit::Conflict, "MERGE_FAILED", format!("approved, but not merged: {words}"))
        .hint(hint)
        .details(json!({"conflict_files": files}))
}
