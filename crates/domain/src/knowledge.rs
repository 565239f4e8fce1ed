//! Knowledge, kept for later work. An entry never changes: a better one supersedes it, and an entry that is only
//! true for a while has an expiry.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{IdKind, TaskId, id};
use crate::time::Timestamp;
use crate::words::words;

pub const TITLE_CHARS_MAX: usize = 200;
pub const BODY_CHARS_MAX: usize = 32_000;
pub const TAGS_MAX: usize = 16;
pub const TAG_CHARS_MAX: usize = 50;
/// Learnings of one completed task.
pub const LEARNINGS_MAX: usize = 20;
pub const CONFIDENCE_DEFAULT: u8 = 80;
pub const CONFIDENCE_MAX: u8 = 100;

id!(KnowledgeId, IdKind::Knowledge.sign(), "not a knowledge id");

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

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum KnowledgeSource {
        /// The entry came with the completion of a task.
        TaskCompletion => "task_completion",
        /// The entry was stored by itself.
        Agent => "agent",
    }
}

words! {
    /// The relation of a task to an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum EdgeKind {
        /// The work on the task produced the entry.
        Produced => "produced",
        /// The entry should be known to actors that work on the task.
        References => "references",
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
