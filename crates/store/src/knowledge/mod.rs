//! Searching knowledge: one analyser, one index and one ranking for every database. A backend only reads and writes
//! the rows.

pub mod analyser;
pub(crate) mod index;
pub(crate) mod rank;
pub(crate) mod snippet;
pub(crate) mod vectors;

use std::sync::Arc;

use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{KnowledgeEntry, KnowledgeId};

/// A search in one org.
#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeQuery {
    pub org: Arc<str>,
    pub text: String,
    /// `None`: words alone decide.
    pub vector: Option<QueryVector>,
    /// Tags that an entry must have, all of them.
    pub tags: Vec<String>,
    /// 0..1; hits below it are left out.
    pub min_score: f64,
    pub include_superseded: bool,
    pub include_expired: bool,
    /// Leaves out the entries that this task produced.
    pub not_produced_by: Option<TaskId>,
    pub limit: usize,
}

impl KnowledgeQuery {
    pub fn of(org: Arc<str>, text: impl Into<String>) -> Self {
        Self {
            org,
            text: text.into(),
            vector: None,
            tags: Vec::new(),
            min_score: 0.0,
            include_superseded: false,
            include_expired: false,
            not_produced_by: None,
            limit: 10,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct QueryVector {
    /// Vectors of two models cannot be compared, so the store reads those of this one.
    pub model: String,
    pub values: Vec<f32>,
    pub calibration: Calibration,
}

/// The scale of a model's cosines: the floor scores 0, a span above it 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    pub floor: f32,
    pub span: f32,
}

impl Default for Calibration {
    /// Measured with all-MiniLM-L6-v2.
    fn default() -> Self {
        Self { floor: 0.10, span: 0.65 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeHit {
    pub entry: KnowledgeEntry,
    /// 0..1, comparable between queries.
    pub score: f64,
    /// At most 240 characters of the body, around the first match.
    pub snippet: String,
}

/// The version of an org's knowledge: equal while nothing was added, superseded or embedded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KnowledgeVersion {
    pub entries: u32,
    /// Digests are cached by this number and the next.
    pub changes: i64,
    pub vectors: i64,
}

impl From<index::Counts> for KnowledgeVersion {
    fn from(counts: index::Counts) -> Self {
        Self { entries: counts.entries, changes: counts.version, vectors: counts.stamp }
    }
}

/// An entry that a model has not embedded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unembedded {
    pub org: i64,
    pub number: u32,
    pub id: KnowledgeId,
    pub title: String,
    pub body: String,
}

/// An entry's vectors: one, or several for a long text; none when it cannot be embedded.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    pub org: i64,
    pub number: u32,
    pub parts: Vec<Vec<f32>>,
}
