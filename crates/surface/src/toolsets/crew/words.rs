//! Refusals in the words of this toolset.

use callboard_domain::refusal::Refusal;
use serde_json::json;

use super::envelope::{
    INVALID_AGENT_STATE, INVALID_INPUT, PERMISSION_DENIED, RESOURCE_NOT_FOUND, Said,
};
use super::hints;
use crate::error;

/// A refusal with the reference's code and sentence; other refusals keep the core's sentence.
pub(super) fn said(refusal: &Refusal) -> Said {
    let message = match refusal {
        Refusal::TaskNotFound { task } | Refusal::ParentNotFound { task } => {
            format!("Task with ID '{task}' not found")
        }
        Refusal::InvalidInput { field, message } => return invalid(field.as_deref(), message),
        Refusal::DepsNotClosed { open, .. } => {
            let ids: Vec<String> = open.iter().map(|(task, _)| task.to_string()).collect();
            format!("Task has open dependencies: {}", ids.join(", "))
        }
        Refusal::ChecksNotPassed { checks, .. } => {
            let unmet = checks.iter().map(|c| format!("{} is {}", c.short(), c.result));
            format!("Checks not passed: {}", unmet.collect::<Vec<_>>().join(", "))
        }
        Refusal::AlreadyClaimed { holder, .. } => format!("Task is held by {holder}"),
        // The hint of its code speaks of tools, but the way out of a shared name is the URL: so the message has it.
        shared @ Refusal::SharedActor { .. } => {
            format!("{}; {}", shared.message(), shared.hint().unwrap_or_default())
        }
        other => other.message(),
    };
    let details = refusal.details().filter(|details| details.is_object());
    let said = Said { code: code(refusal), message, details: details.unwrap_or_else(|| json!({})) };
    match hints::of(refusal) {
        Some(hint) => said.hint(hint),
        None => said,
    }
}

/// The fault in the input, with its path. A fault of the whole input has an empty path.
fn invalid(field: Option<&str>, message: &str) -> Said {
    let issue = json!({"path": field.unwrap_or_default(), "message": message});
    Said {
        code: INVALID_INPUT,
        message: format!("Invalid input: {message}"),
        details: json!({"issues": [issue]}),
    }
}

/// The refusal outside an envelope, for protocol errors and the log.
pub(super) fn say(_: &str, refusal: &Refusal) -> error::Said {
    let said = said(refusal);
    error::Said {
        code: said.code,
        message: said.message,
        hint: said.details["hint"].as_str().or(hints::of_code(said.code)).map(str::to_owned),
        retryable: refusal.retryable(),
        details: Some(said.details),
    }
}

/// The reference has four codes for refusals: bad input, a missing thing, a missing right, a wrong state. The match
/// names every refusal, so that a new one gets a code on purpose.
fn code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::InvalidInput { .. }
        | Refusal::UnknownState { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::ParentCycle { .. }
        | Refusal::MixedArguments { .. }
        | Refusal::InvalidSpec { .. }
        | Refusal::InvalidRepoPath { .. }
        | Refusal::InvalidSetting { .. }
        | Refusal::AgentExists { .. }
        | Refusal::KeyReused { .. }
        | Refusal::CrewInput { .. } => INVALID_INPUT,
        Refusal::TaskNotFound { .. }
        | Refusal::ParentNotFound { .. }
        | Refusal::SessionNotFound { .. }
        | Refusal::DanglingDependency { .. }
        | Refusal::CommentNotFound { .. }
        | Refusal::JobNotFound { .. }
        | Refusal::ProjectNotFound { .. }
        | Refusal::PlanNotFound { .. }
        | Refusal::CheckLogNotFound { .. }
        | Refusal::RemovedByRetention { .. }
        | Refusal::AgentNotFound { .. }
        | Refusal::EpicNotFound { .. }
        | Refusal::MailNotFound { .. } => RESOURCE_NOT_FOUND,
        Refusal::NotHolder { .. }
        | Refusal::NotCommentAuthor { .. }
        | Refusal::NotTaskAuthor { .. }
        | Refusal::NotSessionOwner { .. }
        | Refusal::AuthorizationDenied { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. }
        | Refusal::OutsideTask { .. }
        | Refusal::ActorMismatch { .. }
        | Refusal::ClientMismatch { .. }
        | Refusal::CrewDenied { .. }
        | Refusal::MailOfAnother { .. } => PERMISSION_DENIED,
        Refusal::DepsNotClosed { .. }
        | Refusal::ChecksNotPassed { .. }
        | Refusal::AlreadyClaimed { .. }
        | Refusal::StaleFence { .. }
        | Refusal::NotActionable { .. }
        | Refusal::AlreadyStarted { .. }
        | Refusal::AlreadyOver { .. }
        | Refusal::IllegalMove { .. }
        | Refusal::BlockersMax { .. }
        | Refusal::QuotaExceeded(_)
        | Refusal::JobLost { .. }
        | Refusal::TooManyJobs { .. }
        | Refusal::NoPlace { .. }
        | Refusal::TooManyCalls { .. }
        | Refusal::NoQuestion { .. }
        | Refusal::NotCancelable { .. }
        | Refusal::TaskClosed { .. }
        | Refusal::Closed { .. }
        | Refusal::ExecutorMissing { .. }
        | Refusal::SessionActive { .. }
        | Refusal::SessionTerminal { .. }
        | Refusal::Conflict { .. }
        | Refusal::CheckInfrastructure { .. }
        | Refusal::WorkspaceNotReady { .. }
        | Refusal::NoCommit { .. }
        | Refusal::HasDependents { .. }
        | Refusal::NotAuto { .. }
        | Refusal::NotPair { .. }
        | Refusal::NotRunning { .. }
        | Refusal::ReviewNotReady { .. }
        | Refusal::ReviewDecided { .. }
        | Refusal::WorkMoved { .. }
        | Refusal::TaskChanged { .. }
        | Refusal::AgentState { .. }
        | Refusal::MergeConflict { .. }
        | Refusal::NotApproved { .. }
        | Refusal::AgentAtWork { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::PlanDecided { .. } => INVALID_AGENT_STATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_names_its_field() {
        let of = |field, message| (Refusal::invalid_field(field, message), field, message);
        let whole = "arguments must be an object";
        for (refusal, path, message) in [
            of("subject", "subject is required"),
            of("limit", "limit must be 1..500, got 0"),
            of("subjet", "unknown argument 'subjet'; did you mean 'subject'?"),
            (Refusal::invalid(whole), "", whole),
        ] {
            let said = said(&refusal);
            assert_eq!(said.message, format!("Invalid input: {message}"));
            assert_eq!(said.details, json!({"issues": [{"path": path, "message": message}]}));
        }
    }
}
