//! The toolset's words for states and refusals.

use callboard_domain::job::JobState;
use callboard_domain::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;

use super::SUBMIT;
use crate::error::Said;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum State {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
    Expired,
    Stale,
}

impl State {
    pub(super) fn of(state: &JobState) -> Self {
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

    pub(super) fn word(self) -> &'static str {
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
    pub(super) fn core(self) -> &'static str {
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

const RATE_LIMIT_HINT: &str = "Nothing was queued. Wait until a job is over (jobs_list shows them) or end \
    one with jobs_cancel, then submit again with the same idempotencyKey. The limit is relay.max_queued";

pub(super) fn say(tool: &str, refusal: &Refusal) -> Said {
    let code = match refusal {
        Refusal::InvalidSpec { .. } => "INVALID_SPEC",
        Refusal::InvalidInput { .. } if tool == SUBMIT => "INVALID_SPEC",
        Refusal::JobNotFound { .. } => "JOB_NOT_FOUND",
        Refusal::TooManyJobs { .. } | Refusal::TooManyCalls { .. } => "RATE_LIMIT",
        Refusal::AuthorizationDenied { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. } => "AUTHORIZATION_DENIED",
        Refusal::OutsideTask { .. } => "SESSION_SCOPE_DENIED",
        Refusal::KeyReused { .. } | Refusal::AnswerNotKept { .. } => refusal.code(),
        _ => "INVALID_PARAMS",
    };
    let plain = Said::plain(refusal);
    match refusal {
        Refusal::TooManyJobs { .. } => Said { code, hint: Some(RATE_LIMIT_HINT.into()), ..plain },
        _ => Said { code, ..plain },
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::run::OpenRuns;

    use super::*;

    #[test]
    fn a_full_queue_says_what_to_do() {
        let full = Refusal::TooManyJobs { open: OpenRuns { queued: 1, running: 1 }, limit: 2 };
        let said = say(SUBMIT, &full);
        assert_eq!((said.code, said.retryable), ("RATE_LIMIT", true));
        let hint = said.hint.unwrap_or_default();
        for words in ["jobs_cancel", "same idempotencyKey", "relay.max_queued"] {
            assert!(hint.contains(words), "{words} in {hint}");
        }
    }
}
