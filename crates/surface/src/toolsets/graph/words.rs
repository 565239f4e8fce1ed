//! The graph toolset's words for core facts.

use callboard_domain::refusal::Refusal;
use callboard_domain::task::attempt::Health;

use crate::error::Said;

/// Graph's words are the core's own.
pub(super) fn say(_tool: &str, refusal: &Refusal) -> Said {
    Said::plain(refusal)
}

/// A silent session is still active; only its health says stalled.
pub(super) fn session_status(health: Health) -> &'static str {
    match health {
        Health::Active | Health::Stalled => "active",
        Health::Finished => "finished",
        Health::Canceled => "canceled",
    }
}

/// The healths a `status` filter means.
pub(super) fn healths_of(status: SessionStatus) -> Vec<Health> {
    match status {
        SessionStatus::Active => vec![Health::Active, Health::Stalled],
        SessionStatus::Finished => vec![Health::Finished],
        SessionStatus::Canceled => vec![Health::Canceled],
    }
}

// The words of these enums are those of the published schema, apart from the domain's own, which may change.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionStatus {
    Active,
    Finished,
    Canceled,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionHealth {
    Active,
    Stalled,
    Finished,
    Canceled,
}

impl From<SessionHealth> for Health {
    fn from(word: SessionHealth) -> Self {
        match word {
            SessionHealth::Active => Health::Active,
            SessionHealth::Stalled => Health::Stalled,
            SessionHealth::Finished => Health::Finished,
            SessionHealth::Canceled => Health::Canceled,
        }
    }
}

#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExecutionState {
    Active,
    Stalled,
    AwaitingReview,
}

impl From<ExecutionState> for callboard_domain::task::attempt::ExecutionState {
    fn from(word: ExecutionState) -> Self {
        match word {
            ExecutionState::Active => Self::Active,
            ExecutionState::Stalled => Self::Stalled,
            ExecutionState::AwaitingReview => Self::AwaitingReview,
        }
    }
}
