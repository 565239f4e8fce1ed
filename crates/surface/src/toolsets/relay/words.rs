//! The toolset's words for states and refusals.

use callboard_domain::job::JobState;
use callboard_domain::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;

use super::SUBMIT;
use crate::error::Said;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum State {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
    Expired,
    Stale,
}

impl State {
    pub(crate) fn of(state: &JobState) -> Self {
        match state {
            JobState::Queued { .. } => State::Queued,
            JobState::Running { .. } => State::Running,
            JobState::Stale { .. } => State::Stale,
            JobState::Done { .. } => State::Succeeded,
            JobState::Failed { .. } => State::Failed,
            JobState::Canceled { .. } => State::Canceled,
            JobState::Expired { .. } => State::Expired,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Queued => "QUEUED",
            State::Running => "RUNNING",
            State::Succeeded => "SUCCEEDED",
            State::Failed => "FAILED",
            State::Canceled => "CANCELED",
            State::Expired => "EXPIRED",
            State::Stale => "STALE",
        }
    }

    /// The core's word.
    pub(crate) fn core(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Succeeded => "done",
            State::Failed => "failed",
            State::Canceled => "canceled",
            State::Expired => "expired",
            State::Stale => "stale",
        }
    }
}

pub(super) fn say(tool: &str, refusal: &Refusal) -> Said {
    let code = match refusal {
        Refusal::InvalidSpec { .. } => "INVALID_SPEC",
        Refusal::InvalidInput { .. } if tool == SUBMIT => "INVALID_SPEC",
        Refusal::JobNotFound { .. } => "JOB_NOT_FOUND",
        Refusal::TooManyJobs { .. } => "RATE_LIMIT",
        Refusal::AuthorizationDenied { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. } => "AUTHORIZATION_DENIED",
        Refusal::OutsideTask { .. } => "SESSION_SCOPE_DENIED",
        Refusal::KeyReused { .. } | Refusal::AnswerNotKept { .. } => refusal.code(),
        _ => "INVALID_PARAMS",
    };
    Said { code, ..Said::plain(refusal) }
}
