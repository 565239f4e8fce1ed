//! The columns of a handle's state, in every database.

use callboard_domain::handle::{HandleState, Live};
use callboard_domain::time::Timestamp;
use serde_json::{Map, Value};

/// The columns that change with the state.
pub(crate) struct Columns {
    /// The word of MCP's tasks. `working` and `input_required` are one state of ours: live, without and with questions.
    pub state: String,
    /// The end of the runner's lease, for a live handle only. A CHECK of the table says so.
    pub alive_until: Option<i64>,
    pub cancel_asked: bool,
    /// JSON objects, by the key of the question.
    pub questions: String,
    pub answers: String,
    /// The result of a completed call as JSON, or the error of a failed one.
    pub outcome: Option<String>,
}

/// The columns that change.
pub(crate) const STEPS: [&str; 9] = [
    "state",
    "alive_until",
    "cancel_asked",
    "questions",
    "answers",
    "outcome",
    "message",
    "updated_at",
    "expires_at",
];

impl Columns {
    /// Questions and answers of a call that is over are dropped: only a live call reads them.
    pub fn of(state: &HandleState) -> Self {
        let ended = |word: &str, outcome: Option<&Value>| Self {
            state: word.into(),
            alive_until: None,
            cancel_asked: false,
            questions: "{}".into(),
            answers: "{}".into(),
            outcome: outcome.map(Value::to_string),
        };
        match state {
            HandleState::Live(live) => Self {
                state: if live.questions.is_empty() { "working" } else { "input_required" }.into(),
                alive_until: Some(live.alive_until.0),
                cancel_asked: live.cancel_asked,
                questions: text(&live.questions),
                answers: text(&live.answers),
                outcome: None,
            },
            HandleState::Completed { result } => ended("completed", Some(result)),
            HandleState::Failed { error } => ended("failed", error.as_ref()),
            HandleState::Cancelled => ended("cancelled", None),
        }
    }

    /// The state; `None` when the row is damaged.
    pub fn state(&self) -> Option<HandleState> {
        let outcome = || self.outcome.as_deref().map(serde_json::from_str).transpose().ok();
        Some(match self.state.as_str() {
            "working" | "input_required" => HandleState::Live(Live {
                alive_until: Timestamp(self.alive_until?),
                cancel_asked: self.cancel_asked,
                questions: serde_json::from_str(&self.questions).ok()?,
                answers: serde_json::from_str(&self.answers).ok()?,
            }),
            // A CHECK demands a result of a completed call. A failed one may have no error of its own.
            "completed" => HandleState::Completed { result: outcome()?? },
            "failed" => HandleState::Failed { error: outcome()? },
            "cancelled" => HandleState::Cancelled,
            _ => return None,
        })
    }
}

fn text(map: &Map<String, Value>) -> String {
    serde_json::to_string(map).expect("a map of JSON is JSON")
}
