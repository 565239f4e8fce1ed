//! The code of each refusal, and whether the call can succeed later.

use super::{Refusal, Unactionable};

impl Refusal {
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidInput { .. }
            | Self::AlreadyOver { .. }
            | Self::MixedArguments { .. }
            | Self::CrewInput { .. } => "INVALID_INPUT",
            Self::TaskNotFound { .. } | Self::ParentNotFound { .. } => "TASK_NOT_FOUND",
            Self::ProjectNotFound { .. } => "PROJECT_NOT_FOUND",
            Self::InvalidRepoPath { .. } => "INVALID_REPO_PATH",
            Self::InvalidSetting { .. } => "INVALID_SETTING",
            Self::PlanNotFound { .. } => "PLAN_NOT_FOUND",
            Self::PlanDecided { .. } => "PLAN_DECIDED",
            Self::AgentNotFound { .. } => "AGENT_NOT_FOUND",
            Self::AgentExists { .. } => "AGENT_EXISTS",
            Self::MailNotFound { .. } => "MAIL_NOT_FOUND",
            Self::EpicNotFound { .. } => "EPIC_NOT_FOUND",
            Self::AgentState { .. } => "INVALID_AGENT_STATE",
            Self::MergeConflict { .. } => "MERGE_CONFLICT",
            Self::ParentCycle { .. } => "PARENT_CYCLE",
            Self::HasDependents { .. } => "HAS_DEPENDENTS",
            Self::ReviewNotReady { .. } => "REVIEW_NOT_READY",
            Self::ReviewDecided { .. } => "REVIEW_DECIDED",
            Self::WorkMoved { .. } => "WORK_MOVED",
            Self::TaskChanged { .. } => "TASK_CHANGED",
            Self::NotApproved { .. } => "NOT_APPROVED",
            Self::AgentAtWork { .. } => "AGENT_AT_WORK",
            Self::NotAuto { .. } | Self::NotPair { .. } => "TASK_TYPE_MISMATCH",
            Self::NotRunning { .. } => "NOT_RUNNING",
            Self::SessionNotFound { .. } => "SESSION_NOT_FOUND",
            Self::DanglingDependency { .. } => "DANGLING_DEPENDENCY",
            Self::UnknownState { .. } => "UNKNOWN_STATE",
            Self::DependencyCycle { .. } => "DEPENDENCY_CYCLE",
            Self::DepsNotClosed { .. } => "DEPS_NOT_CLOSED",
            Self::ChecksNotPassed { .. } => "CHECKS_NOT_PASSED",
            Self::AlreadyClaimed { .. } | Self::NotHolder { .. } | Self::StaleFence { .. } => {
                "ALREADY_CLAIMED"
            }
            Self::NotActionable { .. } => "NOT_ACTIONABLE",
            Self::IllegalMove { .. } | Self::BlockersMax { .. } | Self::AlreadyStarted { .. } => {
                "INVARIANT_VIOLATED"
            }
            Self::CommentNotFound { .. } => "COMMENT_NOT_FOUND",
            Self::QuotaExceeded(_) => "QUOTA_EXCEEDED",
            Self::JobLost { .. } => "JOB_LOST",
            Self::JobNotFound { .. } => "JOB_NOT_FOUND",
            Self::InvalidSpec { .. } => "INVALID_SPEC",
            Self::TooManyJobs { .. } | Self::NoPlace { .. } | Self::TooManyCalls { .. } => {
                "RATE_LIMIT"
            }
            Self::NoQuestion { .. } => "NO_QUESTION",
            Self::NotCancelable { .. } => "NOT_CANCELABLE",
            Self::TaskClosed { .. } | Self::Closed { .. } => "TASK_CLOSED",
            Self::ExecutorMissing { .. } => "EXECUTOR_NOT_FOUND",
            Self::SessionActive { .. } => "SESSION_ACTIVE",
            Self::ActorMismatch { .. } => "ACTOR_MISMATCH",
            Self::ClientMismatch { .. } => "CLIENT_MISMATCH",
            Self::NotSessionOwner { .. } => "NOT_SESSION_OWNER",
            Self::SessionTerminal { .. } => "SESSION_TERMINAL",
            Self::Conflict { .. } => "CONFLICT",
            Self::CheckInfrastructure { .. } => "CHECK_INFRASTRUCTURE",
            Self::WorkspaceNotReady { .. } => "WORKSPACE_NOT_READY",
            Self::NoCommit { .. } => "NO_COMMIT",
            Self::CheckLogNotFound { .. } => "CHECK_LOG_NOT_FOUND",
            Self::RemovedByRetention { .. } => "REMOVED_BY_RETENTION",
            Self::AuthorizationDenied { .. }
            | Self::ProfileDenied { .. }
            | Self::SharedActor { .. }
            | Self::MailOfAnother { .. }
            | Self::CrewDenied { .. }
            | Self::NotTaskAuthor { .. }
            | Self::NotCommentAuthor { .. } => "AUTHORIZATION_DENIED",
            Self::OutsideTask { .. } => "SESSION_SCOPE_DENIED",
            Self::KeyReused { .. } => "KEY_REUSED",
            Self::AnswerNotKept { .. } => "ANSWER_NOT_KEPT",
        }
    }

    /// True when the call can succeed later without other changes by the caller.
    pub fn retryable(&self) -> bool {
        match self {
            Self::DepsNotClosed { .. }
            | Self::AlreadyClaimed { .. }
            | Self::NotActionable { why: Unactionable::Blocker(_), .. }
            | Self::SessionActive { .. }
            | Self::AgentAtWork { .. }
            | Self::Conflict { .. }
            | Self::TooManyJobs { .. }
            | Self::NoPlace { .. }
            | Self::TooManyCalls { .. }
            | Self::CheckInfrastructure { .. }
            | Self::WorkspaceNotReady { .. }
            | Self::NoCommit { .. } => true,
            Self::InvalidInput { .. }
            | Self::TaskNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::DanglingDependency { .. }
            | Self::UnknownState { .. }
            | Self::DependencyCycle { .. }
            | Self::ChecksNotPassed { .. }
            | Self::TaskClosed { .. }
            | Self::Closed { .. }
            | Self::ExecutorMissing { .. }
            | Self::ActorMismatch { .. }
            | Self::ClientMismatch { .. }
            | Self::NotSessionOwner { .. }
            | Self::SessionTerminal { .. }
            | Self::CheckLogNotFound { .. }
            | Self::RemovedByRetention { .. }
            | Self::AuthorizationDenied { .. }
            | Self::NotHolder { .. }
            | Self::StaleFence { .. }
            | Self::NotActionable { .. }
            | Self::IllegalMove { .. }
            | Self::AlreadyStarted { .. }
            | Self::AlreadyOver { .. }
            | Self::BlockersMax { .. }
            | Self::CommentNotFound { .. }
            | Self::NotCommentAuthor { .. }
            | Self::NotTaskAuthor { .. }
            | Self::QuotaExceeded(_)
            | Self::JobNotFound { .. }
            | Self::InvalidSpec { .. }
            | Self::NoQuestion { .. }
            | Self::NotCancelable { .. }
            | Self::ProfileDenied { .. }
            | Self::SharedActor { .. }
            | Self::OutsideTask { .. }
            | Self::MixedArguments { .. }
            | Self::ProjectNotFound { .. }
            | Self::ParentNotFound { .. }
            | Self::ParentCycle { .. }
            | Self::HasDependents { .. }
            | Self::ReviewNotReady { .. }
            | Self::ReviewDecided { .. }
            | Self::WorkMoved { .. }
            | Self::TaskChanged { .. }
            | Self::NotApproved { .. }
            | Self::NotAuto { .. }
            | Self::NotPair { .. }
            | Self::NotRunning { .. }
            | Self::InvalidRepoPath { .. }
            | Self::InvalidSetting { .. }
            | Self::PlanNotFound { .. }
            | Self::PlanDecided { .. }
            | Self::AgentNotFound { .. }
            | Self::AgentExists { .. }
            | Self::MailNotFound { .. }
            | Self::MailOfAnother { .. }
            | Self::EpicNotFound { .. }
            | Self::AgentState { .. }
            | Self::CrewInput { .. }
            | Self::MergeConflict { .. }
            | Self::CrewDenied { .. }
            | Self::KeyReused { .. }
            | Self::AnswerNotKept { .. }
            | Self::JobLost { .. } => false,
        }
    }
}
