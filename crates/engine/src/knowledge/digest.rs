//! The digest of a task: the knowledge nearest to it, for the agent that starts it. A failure here never keeps a task
//! from being handed out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{KnowledgeId, KnowledgeUse};
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;
use callboard_store::knowledge::{KnowledgeHit, KnowledgeQuery, KnowledgeVersion, QueryVector};

use crate::Engine;
use crate::context::{OpContext, Principal, Scope};

/// How many words of a body go into the query of a task.
const BODY_WORDS: usize = 40;
/// How long vectors may take, and then the search.
const BUDGET: Duration = Duration::from_millis(150);
const KEPT_MAX: usize = 2000;

/// How much knowledge a task is handed out with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DigestRule {
    pub hits: usize,
    pub min_score: f64,
}

impl Default for DigestRule {
    fn default() -> Self {
        Self { hits: 3, min_score: 0.5 }
    }
}

/// A task to be handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestTask {
    pub task: TaskId,
    pub title: String,
    pub body: String,
    /// Tells versions of the task apart.
    pub updated_at: Timestamp,
}

impl From<&TaskRecord> for DigestTask {
    fn from(record: &TaskRecord) -> Self {
        Self {
            task: record.task.id,
            title: record.task.title.clone(),
            body: record.body.clone(),
            updated_at: record.task.updated_at,
        }
    }
}

impl DigestTask {
    fn query(&self) -> String {
        let words = self.body.split_whitespace().take(BODY_WORDS);
        std::iter::once(self.title.as_str()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    pub references: Vec<KnowledgeHit>,
    /// A configured part could not be used.
    pub degraded: bool,
}

/// Cached digests. An entry holds while neither the task nor the knowledge changes.
#[derive(Default)]
pub(crate) struct Digests {
    made: Mutex<HashMap<(Arc<str>, TaskId), CachedDigest>>,
    /// The entries that an actor was shown with a task. The actor's claim says which attempt they are for.
    handed: Mutex<HashMap<Handed, Vec<KnowledgeId>>>,
}

/// A task that an actor was shown, in an org.
type Handed = (Arc<str>, TaskId, Actor);

struct CachedDigest {
    updated_at: Timestamp,
    version: KnowledgeVersion,
    references: Vec<KnowledgeHit>,
}

impl Digests {
    fn kept(&self) -> MutexGuard<'_, HashMap<(Arc<str>, TaskId), CachedDigest>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand(&self, org: &Arc<str>, task: TaskId, actor: &Actor, digest: &Digest) {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        if handed.len() >= KEPT_MAX {
            handed.clear();
        }
        let entries = digest.references.iter().map(|hit| hit.entry.id).collect();
        handed.insert((org.clone(), task, actor.clone()), entries);
    }

    fn take(&self, org: &Arc<str>, task: TaskId, actor: &Actor) -> Vec<KnowledgeId> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.remove(&(org.clone(), task, actor.clone())).unwrap_or_default()
    }

    fn find(
        &self,
        org: &Arc<str>,
        task: &DigestTask,
        version: KnowledgeVersion,
        now: Timestamp,
    ) -> Option<Digest> {
        let kept = self.kept();
        let found = kept.get(&(org.clone(), task.task))?;
        let holds = found.updated_at == task.updated_at
            && found.version == version
            && found.references.iter().all(|hit| !hit.entry.is_expired(now));
        holds.then(|| Digest { references: found.references.clone(), degraded: false })
    }

    fn keep(
        &self,
        org: &Arc<str>,
        task: &DigestTask,
        version: KnowledgeVersion,
        references: &[KnowledgeHit],
    ) {
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let references = references.to_vec();
        let found = CachedDigest { updated_at: task.updated_at, version, references };
        kept.insert((org.clone(), task.task), found);
    }
}

impl Engine {
    /// One digest per task, in their order, for callers that may read tasks. Never fails: knowledge that cannot be
    /// found is left out, and `degraded` says so.
    pub async fn knowledge_digest(&self, op: &OpContext, tasks: &[DigestTask]) -> Vec<Digest> {
        let wanted = self.parts.digest.hits > 0 && op.principal.may(Scope::TasksRead);
        if tasks.is_empty() || !wanted {
            return vec![Digest::default(); tasks.len()];
        }
        let org = &op.principal.org;
        let store = &self.parts.store;
        let version = match tokio::time::timeout(BUDGET, store.knowledge_version(org)).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) => {
                tracing::warn!(%error, "tasks are handed out without knowledge");
                return vec![nothing(); tasks.len()];
            }
            Err(_) => return vec![nothing(); tasks.len()],
        };
        if version.entries == 0 {
            return vec![Digest::default(); tasks.len()];
        }
        let now = store.now();
        let mut digests: Vec<Option<Digest>> =
            tasks.iter().map(|task| self.digests.find(org, task, version, now)).collect();
        let missing: Vec<&DigestTask> = (tasks.iter().zip(&digests))
            .filter_map(|(task, known)| known.is_none().then_some(task))
            .collect();
        let mut made = self.digests_of(org, version, &missing).await.into_iter();
        for digest in digests.iter_mut().filter(|digest| digest.is_none()) {
            *digest = made.next();
        }
        digests.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// As `knowledge_digest`, for a caller that may take one of the tasks: `knowledge_taken` notes the use.
    pub async fn knowledge_hand(&self, op: &OpContext, tasks: &[DigestTask]) -> Vec<Digest> {
        let digests = self.knowledge_digest(op, tasks).await;
        let Principal { org, actor, .. } = &op.principal;
        for (task, digest) in tasks.iter().zip(&digests) {
            self.digests.hand(org, task.task, actor, digest);
        }
        digests
    }

    /// Notes that an attempt works with the digest that this process handed to its actor. Never fails: an attempt
    /// does not depend on the note.
    pub async fn knowledge_taken(&self, op: &OpContext, attempt: &Attempt) {
        let given = self.digests.take(&op.principal.org, attempt.task, &attempt.actor);
        let uses = KnowledgeUse::of(attempt, &given, self.parts.store.now());
        if uses.is_empty() {
            return;
        }
        if let Err(error) = self.parts.store.knowledge_use(uses).await {
            tracing::warn!(%error, "uses of knowledge are not noted");
        }
    }

    /// Embeds all tasks in one batch, then searches one by one.
    async fn digests_of(
        &self,
        org: &Arc<str>,
        version: KnowledgeVersion,
        tasks: &[&DigestTask],
    ) -> Vec<Digest> {
        if tasks.is_empty() {
            return Vec::new();
        }
        let queries: Vec<String> = tasks.iter().map(|task| task.query()).collect();
        let vectors = self.query_vectors(queries.clone(), BUDGET).await;
        let degraded = vectors.is_none() && self.parts.embedder.is_some();
        let mut vectors = vectors.unwrap_or_default().into_iter();
        let until = tokio::time::Instant::now() + BUDGET;
        let mut made = Vec::with_capacity(tasks.len());
        for (task, text) in tasks.iter().zip(queries) {
            let query = digest_query(self.parts.digest, org, task, text, vectors.next());
            let found = tokio::time::timeout_at(until, self.parts.store.knowledge_search(query));
            made.push(match found.await {
                Ok(Ok(references)) => {
                    if !degraded {
                        self.digests.keep(org, task, version, &references);
                    }
                    Digest { references, degraded }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a task is handed out without knowledge");
                    nothing()
                }
                Err(_) => nothing(),
            });
        }
        made
    }
}

fn nothing() -> Digest {
    Digest { references: Vec::new(), degraded: true }
}

fn digest_query(
    rule: DigestRule,
    org: &Arc<str>,
    task: &DigestTask,
    text: String,
    vector: Option<QueryVector>,
) -> KnowledgeQuery {
    KnowledgeQuery {
        vector,
        min_score: rule.min_score,
        not_produced_by: Some(task.task),
        limit: rule.hits,
        ..KnowledgeQuery::of(org.clone(), text)
    }
}
