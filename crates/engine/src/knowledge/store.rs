//! Verbs on knowledge: storing entries and finding them again.

use std::time::Duration;

use callboard_domain::command::{Command, KnowledgeStore};
use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{
    EdgeKind, KnowledgeAsk, KnowledgeEntry, KnowledgeId, NewKnowledge,
};
use callboard_domain::time::Timestamp;
use callboard_store::Outcome;
use callboard_store::knowledge::{KnowledgeHit, KnowledgeQuery, QueryVector};

use crate::context::{OpContext, Scope};
use crate::quota::Metric;
use crate::{Engine, EngineError};

/// How long a search waits for the vector of its query.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request to store an entry; the engine adds its id.
#[derive(Clone, Debug, Default)]
pub struct KnowledgeDraft {
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub confidence: Option<u8>,
    pub expires_at: Option<Timestamp>,
    pub task: Option<(TaskId, EdgeKind)>,
    pub supersedes: Option<KnowledgeId>,
}

/// The result of `knowledge_store`.
#[derive(Clone, Debug)]
pub struct KnowledgeStored {
    pub entry: KnowledgeEntry,
    pub created: bool,
    /// An earlier call with the same retry key stored it.
    pub replayed: bool,
    /// Whether a vector will be made for it.
    pub embeds: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeFound {
    pub hits: Vec<KnowledgeHit>,
    /// Vectors are configured and could not be used.
    pub degraded: bool,
}

impl Engine {
    /// Stores one entry. The quota is looked up before the transaction and judged in it, last of all rules.
    pub async fn knowledge_store(
        &self,
        op: &OpContext,
        draft: KnowledgeDraft,
    ) -> Result<KnowledgeStored, EngineError> {
        let new = NewKnowledge {
            id: KnowledgeId(self.parts.ids.next_id()),
            title: draft.title,
            body: draft.body,
            tags: draft.tags,
            confidence: draft.confidence,
        };
        let KnowledgeDraft { expires_at, task, supersedes, .. } = draft;
        let org = &op.principal.org;
        let over_quota = self.over_quota(org, Metric::KnowledgeStored, 1).await?;
        let command = KnowledgeStore { new, expires_at, task, supersedes, over_quota };
        let command = Command::KnowledgeStore(command);
        let applied = self.act_within(op, Scope::KnowledgeWrite, command).await?;
        if !applied.replayed {
            self.learned(org, 1).await;
        }
        let Outcome::Knowledge(entry) = applied.outcome else {
            return Err(EngineError::Internal(format!("{} answered with no knowledge", op.tool)));
        };
        Ok(KnowledgeStored {
            entry: *entry,
            created: applied.changed,
            replayed: applied.replayed,
            embeds: self.parts.embedder.is_some(),
        })
    }

    /// Counts new entries and wakes the loop that embeds them; the call does not wait for that.
    pub(crate) async fn learned(&self, org: &str, entries: u64) {
        self.quota_count(org, Metric::KnowledgeStored, entries).await;
        self.knowledge_nudge();
    }

    /// Finds entries by words and, where an embedder is configured, by meaning. A late or broken embedder only makes
    /// the answer `degraded`: words alone decide then.
    pub async fn knowledge_search(
        &self,
        op: &OpContext,
        ask: KnowledgeAsk,
    ) -> Result<KnowledgeFound, EngineError> {
        op.principal.judge(op.tool, Scope::KnowledgeRead)?;
        let ask = ask.judged()?;
        let org = &op.principal.org;
        // An org without entries pays for no vector.
        if self.parts.store.knowledge_version(org).await?.entries == 0 {
            return Ok(KnowledgeFound { hits: Vec::new(), degraded: false });
        }
        let vectors = self.query_vectors(vec![ask.query.clone()], PATIENCE).await;
        let degraded = vectors.is_none() && self.parts.embedder.is_some();
        let query = KnowledgeQuery {
            vector: vectors.and_then(|mut vectors| vectors.pop()),
            tags: ask.tags,
            min_score: ask.min_score,
            include_superseded: ask.include_superseded,
            include_expired: ask.include_expired,
            limit: ask.limit,
            ..KnowledgeQuery::of(org.clone(), ask.query)
        };
        let hits = self.parts.store.knowledge_search(query).await?;
        Ok(KnowledgeFound { hits, degraded })
    }

    /// The vectors of the queries, all or none; `None` also without an embedder.
    pub(crate) async fn query_vectors(
        &self,
        texts: Vec<String>,
        patience: Duration,
    ) -> Option<Vec<QueryVector>> {
        let embedder = self.parts.embedder.as_ref()?;
        let asked = texts.len();
        let made = match tokio::time::timeout(patience, embedder.embed(texts)).await {
            Ok(Ok(made)) if made.len() == asked => made,
            Ok(Ok(made)) => {
                tracing::warn!(
                    asked,
                    got = made.len(),
                    "the embedder gave the wrong number of vectors"
                );
                return None;
            }
            Ok(Err(fault)) => {
                tracing::warn!(%fault, "a search has no vectors; only its words decide");
                return None;
            }
            Err(_) => {
                tracing::info!("the embedder is late; only the words of the search decide");
                return None;
            }
        };
        let vector = |values| QueryVector {
            model: embedder.model().to_owned(),
            values,
            calibration: embedder.calibration(),
        };
        Some(made.into_iter().map(vector).collect())
    }
}
