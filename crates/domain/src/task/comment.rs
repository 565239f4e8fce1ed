//! Comments on a task that ask for an answer. An open blocker keeps the task from being taken.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::actor::Actor;
use crate::ids::{Id, IdError, TaskId};
use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommentId(pub Id);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommentKind {
    Question,
    Blocker,
    Note,
    Reference,
    /// Proposes to give the task up; a human decides.
    Nack,
}

impl CommentKind {
    pub const ALL: [CommentKind; 5] = [
        CommentKind::Question,
        CommentKind::Blocker,
        CommentKind::Note,
        CommentKind::Reference,
        CommentKind::Nack,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CommentKind::Question => "question",
            CommentKind::Blocker => "blocker",
            CommentKind::Note => "note",
            CommentKind::Reference => "reference",
            CommentKind::Nack => "nack",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether the author must give a reason.
    pub fn needs_rationale(self) -> bool {
        match self {
            CommentKind::Blocker | CommentKind::Nack => true,
            CommentKind::Question | CommentKind::Note | CommentKind::Reference => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    pub id: CommentId,
    pub task: TaskId,
    pub kind: CommentKind,
    pub body: String,
    pub rationale: Option<String>,
    /// The comment this one answers; an answer cannot be answered.
    pub parent: Option<CommentId>,
    pub author: Actor,
    pub created_at: Timestamp,
    pub resolved: Option<Resolved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    pub at: Timestamp,
    pub by: Actor,
    pub words: Option<String>,
}

impl Comment {
    pub fn is_open(&self) -> bool {
        self.resolved.is_none()
    }

    pub fn blocks(&self) -> bool {
        self.kind == CommentKind::Blocker && self.is_open()
    }
}

impl fmt::Display for CommentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cmt_{}", self.0)
    }
}

impl fmt::Debug for CommentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CommentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.strip_prefix("cmt_").and_then(Id::parse);
        id.map(Self).ok_or(IdError::Foreign)
    }
}

impl Serialize for CommentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a comment id"))
    }
}
