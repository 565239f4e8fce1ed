//! The toolset's words for states and refusals.

use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobState;
use schemars::JsonSchema;
use serde::Deserialize;

use super::SUBMIT;
use crate::error::Said;

// STALE: the runner fell silent. It may still report, or the job goes back to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum StateWord {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
    Expired,
    Stale,
}

impl StateWord {
    pub(super) fn of(state: &JobState) -> Self {
        match state {
            JobState::Queued { .. } => StateWord::Queued,
            JobState::Running { .. } => StateWord::Running,
            JobState::Stale { .. } => StateWord::Stale,
            JobState::Done { .. } => StateWord::Succeeded,
            JobState::Failed { .. } => StateWord::Failed,
            JobState::Canceled { .. } => StateWord::Canceled,
            JobState::Expired { .. } => StateWord::Expired,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            StateWord::Queued => "QUEUED",
            StateWord::Running => "RUNNING",
            StateWord::Succeeded => "SUCCEEDED",
            StateWord::Failed => "FAILED",
            StateWord::Canceled => "CANCELED",
            StateWord::Expired => "EXPIRED",
            StateWord::Stale => "STALE",
        }
    }

    /// The core's word.
    pub(super) fn core(self) -> &'static str {
        match self {
            StateWord::Queued => "queued",
            StateWord::Running => "running",
            StateWord::Succeeded => "done",
            StateWord::Failed => "failed",
            StateWord::Canceled => "canceled",
            StateWord::Expired => "expired",
            StateWord::Stale => "stale",
        }
    }
}

/// The plain hint does not know that a submit can be repeated under its key.
const RATE_LIMIT_HINT: &str = "Nothing was queued. Wait until a job is over (jobs_list shows them) or end \
    one with jobs_cancel, then submit again with the same idempotencyKey. The limit is relay.max_queued";

/// A refusal in the reference's codes. Most rules of tasks cannot be broken by a job, so the rest share one code.
pub(super) fn say(tool: &str, refusal: &Refusal) -> Said {
    let code = match refusal {
        Refusal::InvalidSpec { .. } => "INVALID_SPEC",
        // The only argument of a submit is the spec.
        Refusal::InvalidInput { .. } if tool == SUBMIT => "INVALID_SPEC",
        Refusal::JobNotFound { .. } => "JOB_NOT_FOUND",
        Refusal::TooManyJobs { .. } | Refusal::TooManyCalls { .. } => "RATE_LIMIT",
        Refusal::AuthorizationDenied { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. } => "AUTHORIZATION_DENIED",
        Refusal::OutsideTask { .. } => "SESSION_SCOPE_DENIED",
        Refusal::KeyReused { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::RemovedByRetention { .. } => refusal.code(),
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
    use callboard_domain::runs::run::OpenRuns;

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
