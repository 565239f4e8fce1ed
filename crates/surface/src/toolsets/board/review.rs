//! Reviews: requested, approved, rejected; and the merge or rebase of their work.

use callboard_domain::policy::Phase;
use callboard_domain::rights::{PersonVerb, Profile};
use callboard_domain::task::TaskRecord;
use callboard_engine::{Rejection, ReviewEnd, ReviewSeen, Reviewed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{Envelope, NextCall, Reply};
use super::tasks::task_id;
use super::words::Status;
use crate::tool::Call;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Request {
    task_id: String,
    /// what was done
    summary: String,
}

/// The worker's own way into review. The hint names the reviewer agent that the settings start, so that the caller does
/// not start another.
pub(super) async fn request_review(call: &Call<'_>, args: Request) -> Reply {
    let task = task_id(&args.task_id)?;
    let asked = call.engine.review_request(call.op, task, args.summary).await?;
    let mut done = Envelope::yes("Ready for merge").code("REVIEW_REQUESTED");
    if let Some(job) = asked.reviewer {
        done = done.hint(format!("general.auto_review starts a reviewer agent: {job}"));
    }
    Ok(done.answer(call, json!({"status": Status::Review.word()})))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Review {
    task_id: String,
    action: Action,
    feedback: Option<String>,
    /// where what is rejected goes; all but backlog mean IN_PROGRESS
    rejection_action: Option<RejectionAction>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Approve,
    Reject,
    Merge,
    Rebase,
    Preview,
}

impl Action {
    /// The action as the caller wrote it.
    fn word(self) -> &'static str {
        match self {
            Action::Approve => "approve",
            Action::Reject => "reject",
            Action::Merge => "merge",
            Action::Rebase => "rebase",
            Action::Preview => "preview",
        }
    }

    /// The least profile of the action. The tool's row in the table asks only for the lowest of them.
    fn profile(self) -> Profile {
        match self {
            Action::Approve | Action::Preview => PersonVerb::Approve.least_profile(),
            Action::Reject => PersonVerb::SendBack.least_profile(),
            Action::Merge => PersonVerb::Merge.least_profile(),
            Action::Rebase => PersonVerb::Rebase.least_profile(),
        }
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RejectionAction {
    Reopen,
    Return,
    InProgress,
    Backlog,
}

impl RejectionAction {
    /// Where the task goes. Three of the words mean one column.
    fn phase(self) -> Phase {
        match self {
            RejectionAction::Reopen | RejectionAction::Return | RejectionAction::InProgress => {
                Phase::Working
            }
            RejectionAction::Backlog => Phase::Initial,
        }
    }
}

/// One tool for five actions. A missing profile is an answer with a hint, not an error: the caller can ask for help.
pub(super) async fn review(call: &Call<'_>, args: Review) -> Reply {
    let (held, needed) = (call.op.principal.rights.profile(), args.action.profile());
    if held < needed {
        return Ok(not_allowed(call, &args, needed));
    }
    let task = task_id(&args.task_id)?;
    let feedback = args.feedback.unwrap_or_default();
    match args.action {
        Action::Approve => {
            let record = call.engine.review_approve(call.op, task, feedback).await?.it;
            // An approval may also close the task; only one that waits for its merge names a next step.
            // Only a maintainer may merge, and `next_tool` must be a call that this caller can make.
            let done = match (record.task.phase, held < Profile::Maintainer) {
                (Phase::Review, true) => {
                    Envelope::yes("Approved, not merged").hint("Ask a maintainer to merge the task")
                }
                (Phase::Review, false) => {
                    let merge = json!({"task_id": task, "action": "merge"});
                    Envelope::yes("Approved, not merged").next(NextCall::new("review", merge))
                }
                _ => Envelope::yes("Approved"),
            };
            Ok(done.code("APPROVED").answer(call, fields(&record)))
        }
        Action::Reject => {
            let to = args.rejection_action.map_or(Phase::Working, RejectionAction::phase);
            let rejection = Rejection::of(feedback, to);
            let record = call.engine.review_reject(call.op, task, rejection).await?.it;
            let done = Envelope::yes("Rejected").code("REJECTED");
            Ok(done.answer(call, fields(&record)))
        }
        Action::Merge => Ok(settled(call, call.engine.review_merge(call.op, task).await?)),
        Action::Rebase => Ok(settled(call, call.engine.review_rebase(call.op, task).await?)),
        Action::Preview => Ok(previewed(call, &call.engine.review_get(call.op, task).await?.it)),
    }
}

/// A preview of the merge of the committed work. Nothing is changed.
fn previewed(call: &Call<'_>, seen: &ReviewSeen) -> Value {
    let record = &seen.card.record;
    let mut fields = fields(record);
    let foresight = seen.foresight();
    let files = foresight.conflicts.len();
    let uncommitted = match foresight.has_uncommitted {
        true => "; a merge also commits the uncommitted changes",
        false => "",
    };
    // An unknown outlook is a "no": an agent must not take it for a clean merge.
    let envelope = match (&foresight.fault, foresight.repos, files) {
        (Some(words), _, _) => {
            Envelope::no("PREVIEW_FAILED", format!("The preview failed: {words}"))
        }
        (None, 0, _) => Envelope::no("PREVIEW_FAILED", "The task has no workspace on this machine")
            .hint("A run or a session creates the workspace"),
        (None, _, 0) => {
            Envelope::yes(format!("Would merge cleanly{uncommitted}")).code("MERGES_CLEANLY")
        }
        (None, _, _) => {
            let message = format!("Would conflict in {}{uncommitted}", counted(files));
            let next = NextCall::new("get_context", json!({"task_id": record.task.id}));
            Envelope::yes(message)
                .code("WOULD_CONFLICT")
                .hint("Resolve the conflicts in the worktree, or let review rebase start an agent on them")
                .next(next)
        }
    };
    let is_known = foresight.fault.is_none() && foresight.repos > 0;
    fields["conflict_files"] = json!(foresight.conflicts);
    if !foresight.settings.is_empty() {
        fields["settings_files"] = json!(foresight.settings);
    }
    // `null` where git could not tell, so that no caller reads it as "no".
    fields["merges_cleanly"] = json!(is_known.then_some(files == 0));
    fields["commits_behind"] = json!(is_known.then_some(foresight.behind));
    fields["has_uncommitted_changes"] = json!(is_known.then_some(foresight.has_uncommitted));
    envelope.answer(call, fields)
}

/// `1 file`, `2 files`.
fn counted(files: usize) -> String {
    match files {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// The result of a merge or a rebase, with the next step.
fn settled(call: &Call<'_>, reviewed: Reviewed) -> Value {
    let Reviewed { record, end } = reviewed;
    let task = record.task.id;
    let mut fields = fields(&record);
    let look = || NextCall::new("get_context", json!({"task_id": task}));
    let envelope = match end {
        ReviewEnd::Merged(merged) => {
            let message = match (&merged.commit, &merged.pushed) {
                (None, _) => "Nothing to merge".to_owned(),
                // The local merge stands: a failed push does not undo it.
                (Some(_), Some(Err(words))) => format!("Merged, but not pushed: {words}"),
                (Some(_), Some(Ok(()))) => {
                    format!("Merged, pushed to {}", merged.pushed_to.join(", "))
                }
                (Some(_), None) => "Merged".to_owned(),
            };
            fields["merge_commit"] = merged.commit.into();
            fields["pushed"] = json!(merged.pushed.map(|pushed| pushed.is_ok()));
            Envelope::yes(message).code("MERGED")
        }
        ReviewEnd::MergeFailed { words, files } => {
            let has_files = !files.is_empty();
            fields["conflict_files"] = files.into();
            let no = Envelope::no("MERGE_FAILED", format!("Not merged: {words}"));
            match has_files {
                true => {
                    no.hint("Resolve the conflicts in these files, then merge again").next(look())
                }
                false => no,
            }
        }
        ReviewEnd::Rebased { onto } => {
            Envelope::yes(format!("Rebased onto {onto}")).code("REBASED")
        }
        ReviewEnd::RebaseConflict { files } => {
            let count = counted(files.len());
            fields["conflict_files"] = files.into();
            Envelope::no("REBASE_CONFLICT", format!("Rebase conflict in {count}"))
                .hint("Resolve in the worktree, then request_review")
                .next(look())
        }
        ReviewEnd::RebaseFailed { words } => {
            Envelope::no("REBASE_FAILED", format!("Not rebased: {words}"))
        }
    };
    envelope.answer(call, fields)
}

/// Every key of the tool's schema with its empty value; the actions fill in theirs.
fn fields(record: &TaskRecord) -> Value {
    json!({
        "task_id": record.task.id,
        "new_status": Status::of(record.task.phase).word(),
        "conflict_files": [],
        "merge_commit": null,
        "pushed": null,
        "checks": [],
    })
}

/// The answer to a caller whose profile is too low. The task is not looked up: a caller without the right learns
/// nothing about it.
fn not_allowed(call: &Call<'_>, args: &Review, needed: Profile) -> Value {
    let (action, needed) = (args.action.word(), needed.as_str());
    let message = format!("review {action} needs profile {needed}");
    let no = Envelope::no("ACTION_NOT_ALLOWED", message)
        .hint(format!("Ask a caller with profile {needed}"));
    let fields = json!({
        "task_id": args.task_id.trim(),
        "new_status": null,
        "conflict_files": [],
        "merge_commit": null,
        "pushed": null,
        "checks": [],
    });
    no.answer(call, fields)
}
