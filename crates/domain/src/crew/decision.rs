//! One row of what the crew did and why. Rows of calls are written by the calls themselves.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::AgentId;
use crate::ids::{Id, IdError};
use crate::time::Timestamp;

pub const TITLE_CHARS_MAX: usize = 500;
pub const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub Id);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: DecisionId,
    pub agent: AgentId,
    pub decision: String,
    pub reasoning: String,
    /// JSON, two spaces an indent; `None` for what an agent wrote itself.
    pub context: Option<String>,
    pub at: Timestamp,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log-{}", self.0)
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DecisionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix("log-").and_then(Id::parse).map(Self).ok_or(IdError::Foreign)
    }
}

impl Serialize for DecisionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
