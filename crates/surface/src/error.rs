//! Every conversion from an engine's error to what a caller reads.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use callboard_domain::refusal::Refusal;
use callboard_engine::EngineError;
use serde_json::{Map, Value, json};

/// How a toolset names a refusal; the codes differ, the cases do not.
pub type Code = fn(&Refusal) -> &'static str;

pub(crate) const CANCELED: &str = "CANCELED";
pub(crate) const INTERNAL_ERROR: &str = "INTERNAL_ERROR";

/// The word a caller branches on.
pub fn code(error: &EngineError, code: Code) -> &'static str {
    match error {
        EngineError::Refused(refusal) => code(refusal),
        EngineError::Unavailable(_) => "UNAVAILABLE",
        EngineError::Canceled => CANCELED,
        EngineError::Internal(_) => INTERNAL_ERROR,
    }
}

/// `{code, message, hint?, retryable, details?}`.
pub fn render(error: &EngineError, code: Code) -> Value {
    match error {
        EngineError::Refused(refusal) => {
            let mut body = Map::new();
            body.insert("code".into(), code(refusal).into());
            body.insert("message".into(), refusal.message().into());
            if let Some(hint) = refusal.hint() {
                body.insert("hint".into(), hint.into());
            }
            body.insert("retryable".into(), refusal.retryable().into());
            if let Some(details) = refusal.details() {
                body.insert("details".into(), details);
            }
            body.into()
        }
        EngineError::Unavailable(words) => {
            json!({"code": "UNAVAILABLE", "message": words, "retryable": true})
        }
        EngineError::Canceled => {
            json!({"code": CANCELED, "message": "the call was canceled", "retryable": true})
        }
        EngineError::Internal(cause) => broken(TraceId::of(cause)),
    }
}

/// What broke goes to the log; the caller gets the number it has there.
pub fn broken(trace_id: TraceId) -> Value {
    json!({
        "code": INTERNAL_ERROR,
        "message": "something broke inside callboard; it was logged",
        "retryable": true,
        "details": {"trace_id": trace_id.to_string()},
    })
}

/// Names one failure in the answer and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u64);

impl TraceId {
    /// Logs what broke under a new number.
    pub fn of(cause: &str) -> Self {
        let trace_id = Self(random());
        tracing::error!(%trace_id, cause, "a call failed");
        trace_id
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The standard library's only source of randomness; good for names, not for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}
