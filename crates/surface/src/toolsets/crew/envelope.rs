//! The envelope of every answer of this toolset, and every way a call can fail.

use callboard_domain::refusal::Refusal;
use callboard_domain::time::Timestamp;
use callboard_engine::EngineError;
use serde_json::{Value, json};

use super::{hints, words};
use crate::error::STORE_DAMAGED;
use callboard_engine::time::rfc3339_ms;

// The codes of the reference. Every refusal of the core becomes one of them (`words.rs`).
pub const PERMISSION_DENIED: &str = "PERMISSION_DENIED";
pub const TOOL_NOT_FOUND: &str = "TOOL_NOT_FOUND";
pub const INVALID_INPUT: &str = "INVALID_INPUT";
pub const AGENT_NOT_FOUND: &str = "AGENT_NOT_FOUND";
pub const RESOURCE_NOT_FOUND: &str = "RESOURCE_NOT_FOUND";
pub const INVALID_AGENT_STATE: &str = "INVALID_AGENT_STATE";
pub const INTERNAL_ERROR: &str = "INTERNAL_ERROR";
pub const TRANSIENT_ERROR: &str = "TRANSIENT_ERROR";

pub(super) type Data = Result<Value, Fault>;

/// Why a tool has no data to give.
#[derive(Debug)]
pub(super) enum Fault {
    /// An expected refusal.
    Said(Said),
    /// An internal fault.
    /// It is retried if it is transient, and reported by mail if retries do not help.
    Broken(EngineError),
}

/// A refusal in the words of this toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub code: &'static str,
    pub message: String,
    /// Details; always an object.
    pub details: Value,
}

impl Said {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: json!({}) }
    }

    /// The refusal with another hint than that of its code.
    pub fn hint(mut self, hint: &str) -> Self {
        self.details["hint"] = hint.into();
        self
    }
}

/// The code of an error that is not transient.
pub fn broken_code(error: &EngineError) -> &'static str {
    match error {
        EngineError::Damaged(_) => STORE_DAMAGED,
        EngineError::Refused(_)
        | EngineError::Unavailable(_)
        | EngineError::Git(_)
        | EngineError::Internal(_)
        | EngineError::Canceled => INTERNAL_ERROR,
    }
}

impl Fault {
    pub fn said(code: &'static str, message: impl Into<String>) -> Self {
        Self::Said(Said::new(code, message))
    }

    pub fn state(message: impl Into<String>) -> Self {
        Self::said(INVALID_AGENT_STATE, message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::said(INVALID_INPUT, message)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Said(words::said(&refusal.brief()))
    }
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::Unavailable(_)
            | EngineError::Git(_)
            | EngineError::Damaged(_)
            | EngineError::Internal(_)
            | EngineError::Canceled => Self::Broken(error),
        }
    }
}

/// A failure that persisted through all retries.
pub fn transient(message: impl Into<String>, attempts: u32) -> Said {
    let details = json!({"attempts": attempts});
    Said { code: TRANSIENT_ERROR, message: message.into(), details }
}

pub(super) fn yes(data: Value, now: Timestamp) -> Value {
    json!({"success": true, "data": data, "timestamp": rfc3339_ms(now)})
}

pub fn no(said: &Said, now: Timestamp) -> Value {
    let mut details = said.details.clone();
    // A refusal's own hint is closer to the case than that of its code.
    if details.get("hint").is_none()
        && let Some(hint) = hints::of_code(said.code)
    {
        details["hint"] = hint.into();
    }
    json!({
        "success": false,
        "error": {"code": said.code, "message": said.message, "details": details},
        "timestamp": rfc3339_ms(now),
    })
}
