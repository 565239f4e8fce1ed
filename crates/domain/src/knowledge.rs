//! Knowledge, kept for later work. An entry never changes: a better one supersedes it, and an entry that is only
//! true for a while has an expiry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::actor::Actor;
use crate::ids::{Id, IdError, IdKind, TaskId};
use crate::time::Timestamp;

pub const TITLE_CHARS_MAX: usize = 200;
pub const BODY_CHARS_MAX: usize = 32_000;
pub const TAGS_MAX: usize = 16;
pub const TAG_CHARS_MAX: usize = 50;
/// Learnings of one completed task.
pub const LEARNINGS_MAX: usize = 20;
pub const CONFIDENCE_DEFAULT: u8 = 80;
pub const CONFIDENCE_MAX: u8 = 100;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnowledgeId(pub Id);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeEntry {
    pub id: KnowledgeId,
    pub title: String,
    pub body: String,
    /// In lower case, each once.
    pub tags: Vec<String>,
    /// 0..100: how sure its author was.
    pub confidence: u8,
    pub source: KnowledgeSource,
    pub source_task: Option<TaskId>,
    pub created_at: Timestamp,
    pub created_by: Actor,
    /// From this moment on the entry is no longer true.
    pub expires_at: Option<Timestamp>,
    pub superseded_by: Option<KnowledgeId>,
}

impl KnowledgeEntry {
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KnowledgeSource {
    /// The entry came with the completion of a task.
    TaskCompletion,
    /// The entry was stored by itself.
    Agent,
}

impl KnowledgeSource {
    pub fn as_str(self) -> &'static str {
        match self {
            KnowledgeSource::TaskCompletion => "task_completion",
            KnowledgeSource::Agent => "agent",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::TaskCompletion, Self::Agent].into_iter().find(|source| source.as_str() == text)
    }
}

/// The relation of a task to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The work on the task produced the entry.
    Produced,
    /// The entry should be known to actors that work on the task.
    References,
}

impl EdgeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EdgeKind::Produced => "produced",
            EdgeKind::References => "references",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Produced, Self::References].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// An entry as a caller wrote it; `decide` judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKnowledge {
    pub id: KnowledgeId,
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub confidence: Option<u8>,
}

impl fmt::Display for KnowledgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", IdKind::Knowledge.sign(), self.0)
    }
}

impl fmt::Debug for KnowledgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KnowledgeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(IdKind::Knowledge.sign())
            .and_then(Id::parse)
            .map(Self)
            .ok_or(IdError::Foreign)
    }
}

impl Serialize for KnowledgeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KnowledgeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a knowledge id"))
    }
}
