//! The execution toolset's words: states, codes and fixed sentences for core facts.

use callboard_domain::command::LeaseTarget;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::{Hold, Quota, Refusal, Unactionable, UnmetCheck};
use callboard_domain::task::standing::Standing;
use serde_json::{Value, json};

use crate::error::Said;
use callboard_engine::time::rfc3339_ms;

/// The state that a task is in, in one of seven words. A task in the middle of work without a holder is free again, so
/// it shows as ready.
pub(super) fn state(at: Standing) -> &'static str {
    match at.phase {
        // Before "claimed": a holder of a blocked task cannot go on either.
        Phase::Initial if at.deps_open || at.blocked => "blocked",
        Phase::Initial if at.held => "claimed",
        Phase::Initial => "ready",
        Phase::Working if at.is_free() => "ready",
        Phase::Working => "in_progress",
        Phase::Review => "needs_review",
        Phase::ClosedDone => "done",
        Phase::ClosedCanceled => "cancelled",
    }
}

/// The seven states as an argument.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StatusWord {
    Blocked,
    Ready,
    Claimed,
    InProgress,
    NeedsReview,
    Done,
    Cancelled,
}

impl StatusWord {
    /// The lease target that a holder requests by naming the state.
    pub(super) fn target(self) -> LeaseTarget {
        match self {
            StatusWord::InProgress => LeaseTarget::Working,
            StatusWord::Ready => LeaseTarget::Free,
            StatusWord::Cancelled => LeaseTarget::Canceled,
            // A holder cannot name these: they follow from dependencies, from a claim or from the verification.
            StatusWord::Blocked
            | StatusWord::Claimed
            | StatusWord::NeedsReview
            | StatusWord::Done => LeaseTarget::Elsewhere,
        }
    }

    /// The state as the caller wrote it.
    pub(super) fn word(self) -> &'static str {
        match self {
            StatusWord::Blocked => "blocked",
            StatusWord::Ready => "ready",
            StatusWord::Claimed => "claimed",
            StatusWord::InProgress => "in_progress",
            StatusWord::NeedsReview => "needs_review",
            StatusWord::Done => "done",
            StatusWord::Cancelled => "cancelled",
        }
    }
}

/// A refusal in this toolset's codes. Codes are dotted: the part before the dot says whether the input, the task, the
/// quota or the rights are at fault. The match names every refusal, so that a new one gets a code on purpose.
pub(super) fn say(tool: &str, refusal: &Refusal) -> Said {
    let claims = tool == "claim_task";
    let plain = Said::plain(refusal);
    match refusal {
        Refusal::InvalidInput { .. }
        | Refusal::MixedArguments { .. }
        | Refusal::ProjectNotFound { .. }
        | Refusal::UnknownState { .. }
        | Refusal::CommentNotFound { .. }
        | Refusal::InvalidRepoPath { .. }
        | Refusal::InvalidSetting { .. }
        | Refusal::PlanNotFound { .. }
        | Refusal::AgentNotFound { .. }
        | Refusal::AgentExists { .. }
        | Refusal::MailNotFound { .. }
        | Refusal::MailOfAnother { .. }
        | Refusal::EpicNotFound { .. }
        | Refusal::AgentState { .. }
        | Refusal::CrewInput { .. }
        | Refusal::CrewDenied { .. }
        | Refusal::MergeConflict { .. }
        | Refusal::RemovedByRetention { .. }
        | Refusal::CheckLogNotFound { .. } => Said { code: "input.invalid", hint: None, ..plain },
        Refusal::TaskNotFound { task }
        | Refusal::ParentNotFound { task }
        | Refusal::DanglingDependency { task } => Said {
            code: "task.not_found",
            message: format!("task not found: {task}"),
            hint: Some("get_next_actionable shows what can be started".into()),
            ..plain
        },
        Refusal::AlreadyClaimed { task, holder, hold } => {
            let Hold { kind, until, .. } = hold;
            let until = until.map(rfc3339_ms);
            let message = match &until {
                Some(until) => format!("task {task} is held by {holder} until {until}"),
                None => format!("task {task} is held by {holder}"),
            };
            let kind = kind.map(|kind| kind.as_str());
            Said {
                code: "task.already_claimed",
                message,
                hint: Some("get_next_actionable shows other work".into()),
                // Only a claim can succeed by waiting: a lease ends, but a holder's own call does not become right.
                retryable: claims,
                details: Some(json!({"holder": holder, "leaseExpiresAt": until, "kind": kind})),
            }
        }
        Refusal::NotHolder { holder, .. } => Said {
            code: "task.already_claimed",
            hint: Some(match holder {
                Some(_) => "stop working on the task; get_next_actionable shows other work".into(),
                None => "claim_task".into(),
            }),
            details: Some(json!({ "holder": holder })),
            ..plain
        },
        Refusal::StaleFence { current, .. } => Said {
            code: "task.already_claimed",
            details: Some(json!({ "fence": current })),
            ..plain
        },
        Refusal::SessionActive { .. }
        | Refusal::NotSessionOwner { .. }
        | Refusal::ActorMismatch { .. }
        | Refusal::ClientMismatch { .. } => Said { code: "task.already_claimed", ..plain },
        Refusal::NotActionable { task, why } => not_actionable(task.to_string(), why),
        // A claim waits for the dependencies; any other call breaks a rule of the task.
        Refusal::DepsNotClosed { task, open } if claims => {
            let open: Vec<String> = open.iter().map(|(id, _)| id.to_string()).collect();
            let deps = open.join(", ");
            Said {
                code: "task.not_actionable",
                message: format!("task {task} is blocked by open dependencies: {deps}"),
                hint: Some(
                    "claim the task when these dependencies are done; get_next_actionable shows other work".into(),
                ),
                retryable: true,
                details: Some(
                    json!({"state": "blocked", "reason": "open_dependencies", "open": open}),
                ),
            }
        }
        Refusal::DepsNotClosed { task, open } => {
            let open: Vec<String> = open.iter().map(|(id, _)| id.to_string()).collect();
            let message = format!("task {task} has open dependencies: {}", open.join(", "));
            let details = Some(json!({ "open": open }));
            Said { code: "task.invariant_violated", message, retryable: false, details, ..plain }
        }
        Refusal::ChecksNotPassed { task, checks } => {
            let unmet: Vec<String> = checks.iter().map(UnmetCheck::short).collect();
            let message = format!("task {task} has checks that are not pass: {}", unmet.join(", "));
            Said { code: "task.invariant_violated", message, ..plain }
        }
        Refusal::IllegalMove { task, from, to, completed_by_caller, failed } => {
            let from = state(*from);
            let message = if let ("complete_task", Some(reason)) = (tool, failed) {
                format!("task {task} was completed, and its verification failed: {reason}")
            } else if tool == "complete_task" {
                format!("task {task} cannot be completed from {from}")
            } else {
                format!("task {task} cannot go from {from} to {to}")
            };
            let mut details = json!({"from": from, "to": to, "allowed": allowed(from)});
            if *completed_by_caller && tool == "complete_task" {
                details["alreadyCompleted"] = true.into();
            }
            if let Some(reason) = failed {
                details["verificationFailure"] = json!({ "reason": reason });
            }
            let hint = match (tool, completed_by_caller, failed) {
                ("complete_task", _, Some(_)) => Some(format!(
                    "get_task and list_comments say what is missing. A person lets agents claim the task again \
                     with callboard task reopen {task}, then claim_task and complete_task"
                )),
                ("complete_task", true, None) => plain.hint,
                _ if hands_over(from, to) => Some(
                    "complete_task hands over the output; the task's contract decides the rest"
                        .into(),
                ),
                _ => Some("get_task shows the task's state; claim_task takes a ready task".into()),
            };
            Said { code: "task.invariant_violated", message, hint, details: Some(details), ..plain }
        }
        Refusal::AlreadyStarted { task, at, .. } => {
            let state = state(*at);
            let words = "dependencies can be added only while blocked or ready";
            let message = format!("task {task} is {state}; {words}");
            Said { code: "task.invariant_violated", message, ..plain }
        }
        Refusal::AlreadyOver { task, at, .. } => {
            let state = state(*at);
            let message = format!("task {task} is {state}; its dependencies cannot be changed");
            let hint = Some("add a new task with the wanted dependencies instead".into());
            Said { code: "task.invariant_violated", message, hint, ..plain }
        }
        Refusal::DependencyCycle { .. }
        | Refusal::ParentCycle { .. }
        | Refusal::HasDependents { .. }
        | Refusal::ReviewNotReady { .. }
        | Refusal::ReviewDecided { .. }
        | Refusal::WorkMoved { .. }
        | Refusal::TaskChanged { .. }
        | Refusal::NotApproved { .. }
        | Refusal::AgentAtWork { .. }
        | Refusal::NotAuto { .. }
        | Refusal::NotPair { .. }
        | Refusal::NotRunning { .. }
        | Refusal::TaskClosed { .. }
        | Refusal::Closed { .. }
        | Refusal::ExecutorMissing { .. }
        | Refusal::SessionTerminal { .. }
        | Refusal::SessionNotFound { .. }
        | Refusal::Conflict { .. }
        | Refusal::CheckInfrastructure { .. }
        | Refusal::WorkspaceNotReady { .. }
        | Refusal::NoCommit { .. }
        | Refusal::JobLost { .. }
        | Refusal::JobNotFound { .. }
        | Refusal::InvalidSpec { .. }
        | Refusal::TooManyJobs { .. }
        | Refusal::NoPlace { .. }
        | Refusal::NoQuestion { .. }
        | Refusal::NotCancelable { .. }
        | Refusal::PlanDecided { .. }
        | Refusal::BlockersMax { .. } => {
            Said { code: "task.invariant_violated", retryable: false, ..plain }
        }
        Refusal::TooManyCalls { .. } => Said { code: "quota.too_many_calls", ..plain },
        Refusal::KeyReused { .. } => Said { code: "input.key_reused", ..plain },
        Refusal::AnswerNotKept { .. } => Said { code: "input.answer_not_kept", ..plain },
        Refusal::QuotaExceeded(quota) => {
            Said { code: "quota.exceeded", details: Some(quota_details(quota)), ..plain }
        }
        Refusal::AuthorizationDenied { .. }
        | Refusal::OutsideTask { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. }
        | Refusal::NotTaskAuthor { .. }
        | Refusal::NotCommentAuthor { .. } => Said { code: "auth.insufficient_scope", ..plain },
    }
}

/// Whether a caller wants to end work on a task by naming the final state.
fn hands_over(from: &str, to: &str) -> bool {
    matches!(from, "claimed" | "in_progress") && matches!(to, "needs_review" | "done")
}

/// The moves that the holder still has from a state.
/// Shown in `details`, so that a caller need not try each word.
fn allowed(from: &str) -> &'static [&'static str] {
    match from {
        "claimed" | "in_progress" => &["in_progress", "ready", "cancelled"],
        "blocked" => &["ready"],
        _ => &[],
    }
}

/// The refusal of a claim on a task that has no holder and still cannot be taken. Only a blocker goes away by itself.
fn not_actionable(task: String, why: &Unactionable) -> Said {
    let (message, details, retryable): (String, Value, bool) = match why {
        Unactionable::Blocker(comment) => (
            format!("task {task} has an open blocker comment: {comment}"),
            json!({"reason": "blocked_by_review", "commentId": comment.to_string()}),
            true,
        ),
        Unactionable::Plan => (
            format!("task {task} is a plan with children"),
            json!({"state": "ready", "reason": "plan"}),
            false,
        ),
        Unactionable::Standing(at) => (
            format!("task {task} is {}", state(*at)),
            json!({"state": state(*at), "reason": "state"}),
            false,
        ),
    };
    let hint = Some("get_next_actionable shows other work".into());
    Said { code: "task.not_actionable", message, hint, retryable, details: Some(details) }
}

/// The numbers of a quota, and when it begins anew.
fn quota_details(quota: &Quota) -> Value {
    json!({
        "metric": quota.metric,
        "limit": quota.limit,
        "used": quota.used,
        "requested": quota.requested,
        "period": quota.period,
        "nextResetAt": rfc3339_ms(quota.next_reset_at),
    })
}
