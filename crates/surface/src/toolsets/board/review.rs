//! Reviews: asked for, approved, rejected.

use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_domain::task::TaskRecord;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{Envelope, Reply};
use super::tasks::task_id;
use super::words::Status;
use crate::tool::Call;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Request {
    task_id: String,
    /// what was done
    summary: String,
}

pub(super) async fn request_review(call: &Call<'_>, args: Request) -> Reply {
    let task = task_id(&args.task_id)?;
    call.engine.review_request(call.op, task, args.summary).await?;
    let done = Envelope::yes("Ready for merge").code("REVIEW_REQUESTED");
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
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Action::Approve => "approve",
            Action::Reject => "reject",
            Action::Merge => "merge",
            Action::Rebase => "rebase",
        }
    }

    fn profile(self) -> Profile {
        match self {
            Action::Approve | Action::Reject => Profile::Operator,
            Action::Merge | Action::Rebase => Profile::Maintainer,
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
    fn phase(self) -> Phase {
        match self {
            RejectionAction::Reopen | RejectionAction::Return | RejectionAction::InProgress => {
                Phase::Working
            }
            RejectionAction::Backlog => Phase::Initial,
        }
    }
}

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
            let done = Envelope::yes("Approved").code("APPROVED");
            Ok(done.answer(call, fields(&record)))
        }
        Action::Reject => {
            let to = args.rejection_action.map_or(Phase::Working, RejectionAction::phase);
            let record = call.engine.review_reject(call.op, task, feedback, to).await?.it;
            let done = Envelope::yes("Rejected").code("REJECTED");
            Ok(done.answer(call, fields(&record)))
        }
        Action::Merge => {
            let record = call.engine.task_get(call.op, task).await?.it;
            let no = Envelope::no("MERGE_FAILED", "The task has no workspace to merge");
            Ok(no.answer(call, fields(&record)))
        }
        Action::Rebase => {
            let record = call.engine.task_get(call.op, task).await?.it;
            if record.task.phase != Phase::Review {
                return Err(Refusal::ReviewNotReady { task, label: record.task.label }.into());
            }
            let no = Envelope::no("REBASE_FAILED", "The task has no workspace to rebase");
            Ok(no.answer(call, fields(&record)))
        }
    }
}

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

fn not_allowed(call: &Call<'_>, args: &Review, needed: Profile) -> Value {
    let (action, needed) = (args.action.word(), needed.as_str());
    let message = format!("review {action} needs profile {needed}");
    let no = Envelope::no("ACTION_NOT_ALLOWED", message).hint(format!("Ask a {needed} to do it"));
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
