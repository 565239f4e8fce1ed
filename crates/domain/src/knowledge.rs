//! Knowledge, kept for later work. An entry never changes: a better one supersedes it, and an entry that is only
//! true for a while has an expiry.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::decide::judge_tags;
use crate::ids::{AttemptId, IdKind, TaskId, id};
use crate::refusal::Refusal;
use crate::task::attempt::Attempt;
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
pub const QUERY_CHARS_MAX: usize = 2000;
/// The hits of one search.
pub const HITS_MAX: usize = 50;

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

/// An entry in the digest that an attempt was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnowledgeUse {
    pub entry: KnowledgeId,
    pub task: TaskId,
    pub attempt: AttemptId,
    pub actor: Actor,
    pub at: Timestamp,
}

impl KnowledgeUse {
    /// The uses of a digest by the attempt that it was given to. An attempt that is over uses nothing, and an entry
    /// counts once.
    pub fn of(attempt: &Attempt, given: &[KnowledgeId], now: Timestamp) -> Vec<Self> {
        let mut entries = match attempt.is_live(now) {
            true => given.to_vec(),
            false => Vec::new(),
        };
        entries.sort();
        entries.dedup();
        let (task, by) = (attempt.task, attempt.id);
        let used = entries.into_iter().map(|entry| Self {
            entry,
            task,
            attempt: by,
            actor: attempt.actor.clone(),
            at: now,
        });
        used.collect()
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

/// A search, as a caller asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeAsk {
    pub query: String,
    pub limit: usize,
    pub tags: Vec<String>,
    pub min_score: f64,
    pub include_superseded: bool,
    pub include_expired: bool,
}

impl KnowledgeAsk {
    pub fn of(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            limit: 10,
            tags: Vec::new(),
            min_score: 0.0,
            include_superseded: false,
            include_expired: false,
        }
    }

    /// Judges the request; tags come back in lower case, each once.
    pub fn judged(self) -> Result<Self, Refusal> {
        let chars = self.query.chars().count();
        if self.query.trim().is_empty() || chars > QUERY_CHARS_MAX {
            let words = format!("query must be 1..{QUERY_CHARS_MAX} characters, got {chars}");
            return Err(Refusal::invalid(words));
        }
        if !(1..=HITS_MAX).contains(&self.limit) {
            let words = format!("limit must be 1..{HITS_MAX}, got {}", self.limit);
            return Err(Refusal::invalid(words));
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            let words = format!("minScore must be 0..1, got {}", self.min_score);
            return Err(Refusal::invalid(words));
        }
        if self.tags.len() > TAGS_MAX {
            let words = format!("at most {TAGS_MAX} tags, got {}", self.tags.len());
            return Err(Refusal::invalid(words));
        }
        let tags = judge_tags(&self.tags).map_err(Refusal::invalid)?;
        Ok(Self { tags, ..self })
    }
}
