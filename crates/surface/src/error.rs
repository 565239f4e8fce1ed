//! Every conversion from an engine's error to the answer for a caller.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use callboard_domain::refusal::Refusal;
use callboard_engine::EngineError;
use serde_json::{Map, Value, json};

/// How a toolset words refusals. The codes and sentences differ, the cases do not.
#[derive(Clone, Copy)]
pub struct Voice {
    /// A refusal of one of the toolset's tools.
    pub say: fn(tool: &str, &Refusal) -> Said,
    /// The code while the store cannot be reached; the call may be repeated.
    pub unavailable: &'static str,
    pub unavailable_hint: Option<&'static str>,
    /// The database is damaged; retrying does not help.
    pub damaged: &'static str,
    /// The code of a call that its client ended.
    pub canceled: &'static str,
    /// The code of a fault of the server itself.
    pub internal: &'static str,
}

/// A refusal in a toolset's words.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    pub retryable: bool,
    /// Facts of the refusal as data, for callers that branch on more than the code.
    pub details: Option<Value>,
}

impl Said {
    /// The refusal in the core's own words.
    pub fn plain(refusal: &Refusal) -> Self {
        Self {
            code: refusal.code(),
            message: refusal.message(),
            hint: refusal.hint(),
            retryable: refusal.retryable(),
            details: refusal.details(),
        }
    }
}

/// The toolset's voice and the called tool.
#[derive(Clone, Copy)]
pub struct Speaker {
    pub voice: &'static Voice,
    pub tool: &'static str,
}

// The codes that all vocabularies share. A toolset whose reference has another word gives it in its `Voice`.
pub(crate) const CANCELED: &str = "CANCELED";
pub(crate) const INTERNAL_ERROR: &str = "INTERNAL_ERROR";
/// Git failed on a repository of the server; its words are the message.
pub(crate) const GIT_FAILED: &str = "GIT_FAILED";
pub(crate) const GIT_FAILED_HINT: &str =
    "Nothing was changed. Make git work in that repository for the server's user, then try again";
pub(crate) const STORE_DAMAGED: &str = "STORE_DAMAGED";
/// The way out of a damaged database, for every vocabulary.
pub(crate) const DAMAGED_HINT: &str = "callboard doctor names the damage; restore a backup with \
     callboard restore FILE (in PostgreSQL: callboard migrate)";

/// The code that a caller branches on.
pub fn code(error: &EngineError, speaker: Speaker) -> &'static str {
    let Speaker { voice, tool } = speaker;
    match error {
        EngineError::Refused(refusal) => (voice.say)(tool, refusal).code,
        EngineError::Unavailable(_) => voice.unavailable,
        EngineError::Canceled => voice.canceled,
        EngineError::Git(_) => GIT_FAILED,
        EngineError::Damaged(_) => voice.damaged,
        EngineError::Internal(_) => voice.internal,
    }
}

/// `{code, message, hint?, retryable, details?}`.
pub fn render(error: &EngineError, speaker: Speaker) -> Value {
    let Speaker { voice, tool } = speaker;
    match error {
        EngineError::Refused(refusal) => {
            let said = (voice.say)(tool, refusal);
            let mut body = Map::new();
            body.insert("code".into(), said.code.into());
            body.insert("message".into(), said.message.into());
            if let Some(hint) = said.hint {
                body.insert("hint".into(), hint.into());
            }
            body.insert("retryable".into(), said.retryable.into());
            if let Some(details) = said.details {
                body.insert("details".into(), details);
            }
            body.into()
        }
        EngineError::Unavailable(words) => match voice.unavailable_hint {
            Some(hint) => {
                json!({"code": voice.unavailable, "message": words, "hint": hint, "retryable": true})
            }
            None => json!({"code": voice.unavailable, "message": words, "retryable": true}),
        },
        EngineError::Canceled => {
            json!({"code": voice.canceled, "message": "the call was canceled", "retryable": true})
        }
        EngineError::Git(words) => json!({
            "code": GIT_FAILED,
            "message": words,
            "hint": GIT_FAILED_HINT,
            "retryable": true,
        }),
        // The operator has to act, so the log gets the cause even if the caller drops the answer.
        EngineError::Damaged(words) => {
            tracing::error!(cause = words, "the database is damaged");
            json!({
                "code": voice.damaged,
                "message": words,
                "hint": DAMAGED_HINT,
                "retryable": false,
            })
        }
        EngineError::Internal(cause) => broken(voice.internal, TraceId::of(cause)),
    }
}

/// The answer for an internal fault: details go to the log, and the caller gets the trace id.
pub fn broken(code: &str, trace_id: TraceId) -> Value {
    json!({
        "code": code,
        "message": "an internal error occurred; the server's log has it",
        "retryable": true,
        "details": {"trace_id": trace_id.to_string()},
    })
}

/// The id of one failure, in the answer and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u64);

impl TraceId {
    /// Logs a fault under a new id.
    pub fn of(cause: &str) -> Self {
        let trace_id = Self(random());
        tracing::error!(%trace_id, cause, "a call failed");
        trace_id
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sixteen digits always, so that an id can be searched for as a word.
        write!(f, "{:016x}", self.0)
    }
}

/// A random number from the standard library's only source; good for names, not for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}
