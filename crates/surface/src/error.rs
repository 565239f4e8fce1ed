//! Every conversion from an engine's error to what a caller reads.

use std::sync::atomic::{AtomicU64, Ordering};

use callboard_domain::refusal::Refusal;
use callboard_engine::EngineError;
use serde_json::{Map, Value, json};

/// How a toolset names a refusal; the codes differ, the cases do not.
pub type Code = fn(&Refusal) -> &'static str;

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
            json!({"code": "CANCELED", "message": "the call was canceled", "retryable": true})
        }
        EngineError::Internal(words) => internal(words),
    }
}

/// What broke goes to the log; the caller gets a number to ask about.
pub fn internal(words: &str) -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let trace_id = format!("{:x}-{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    tracing::error!(trace_id, error = words, "a call failed");
    json!({
        "code": "INTERNAL_ERROR",
        "message": "something broke inside callboard; it was logged",
        "retryable": true,
        "details": {"trace_id": trace_id},
    })
}
