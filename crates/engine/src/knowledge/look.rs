//! Knowledge as a person looks through it: by words, by tag and by whether an entry is still in force, each entry with
//! the task it came from.

use callboard_domain::actor::Actor;
use callboard_domain::event::EventName;
use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{
    HITS_MAX, KnowledgeAsk, KnowledgeEntry, KnowledgeId, KnowledgeUse,
};
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_store::BackQuery;
use callboard_store::knowledge::KnowledgeHit;

use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

/// How many of the newest entries are looked at without a query.
const NEWEST_MAX: usize = 200;

/// Whether an entry can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnowledgeForce {
    #[default]
    Current,
    Superseded,
    Expired,
}

impl KnowledgeForce {
    pub const ALL: [Self; 3] = [Self::Current, Self::Superseded, Self::Expired];

    /// An entry that was superseded counts as that, whether or not it has expired as well.
    pub fn of(entry: &KnowledgeEntry, now: Timestamp) -> Self {
        match entry {
            entry if entry.superseded_by.is_some() => Self::Superseded,
            entry if entry.is_expired(now) => Self::Expired,
            _ => Self::Current,
        }
    }
}

/// How many uses of an entry a list names.
pub const USES_SHOWN: usize = 3;

/// An entry in a list.
#[derive(Clone, Debug)]
pub struct KnowledgeLine {
    pub entry: KnowledgeEntry,
    /// 0..1; `None` without a query.
    pub score: Option<f64>,
    /// The part of the body around the first match; `None` without a query.
    pub snippet: Option<String>,
    /// The task that the entry came from; `None` also when it was removed.
    pub task: Option<Task>,
    /// The entry that took its place.
    pub newer: Option<KnowledgeEntry>,
    /// The newest uses with their tasks, at most `USES_SHOWN`.
    pub uses: Vec<(KnowledgeUse, Task)>,
    /// Whether more tasks used the entry.
    pub has_more_uses: bool,
}

/// What is known about a query, or the newest entries without one.
#[derive(Clone, Debug)]
pub struct KnowledgeLook {
    pub lines: Vec<KnowledgeLine>,
    /// How many entries fit, by `KnowledgeForce::ALL`.
    pub counts: [usize; 3],
    /// All entries of the org.
    pub entries: u32,
    /// No model is installed.
    pub is_words_only: bool,
    /// A model is installed, and could not answer in time.
    pub is_degraded: bool,
}

impl Engine {
    /// Entries that an actor wrote down, among the newest `NEWEST_MAX` of the org; the newest first.
    pub async fn knowledge_by(
        &self,
        op: &OpContext,
        actor: &Actor,
        limit: usize,
    ) -> Result<Vec<KnowledgeEntry>, EngineError> {
        op.principal.judge(op.tool, Scope::KnowledgeRead)?;
        let newest = self.parts.store.knowledge_newest(&op.principal.org, NEWEST_MAX).await?;
        Ok(newest.into_iter().filter(|entry| entry.created_by == *actor).take(limit).collect())
    }

    /// The best entries for a query, or the newest ones for an empty query, at most `limit` of one force.
    pub async fn knowledge_look(
        &self,
        op: &OpContext,
        query: &str,
        tag: Option<&str>,
        force: KnowledgeForce,
        limit: usize,
    ) -> Result<At<KnowledgeLook>, EngineError> {
        op.principal.judge(op.tool, Scope::KnowledgeRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let entries = store.knowledge_version(org).await?.entries;
        let (hits, is_degraded) = match query.trim().is_empty() {
            true => {
                let newest = store.knowledge_newest(org, NEWEST_MAX).await?;
                let fits = |entry: &KnowledgeEntry| {
                    tag.is_none_or(|tag| entry.tags.iter().any(|known| known == tag))
                };
                let newest = newest.into_iter().filter(fits);
                (newest.map(|entry| (entry, None)).collect::<Vec<_>>(), false)
            }
            false => {
                let ask = KnowledgeAsk {
                    limit: HITS_MAX,
                    tags: tag.map(str::to_owned).into_iter().collect(),
                    include_superseded: true,
                    include_expired: true,
                    ..KnowledgeAsk::of(query)
                };
                let found = self.knowledge_search(op, ask).await?;
                let scored = |hit: KnowledgeHit| (hit.entry, Some((hit.score, hit.snippet)));
                (found.hits.into_iter().map(scored).collect(), found.degraded)
            }
        };
        let now = store.now();
        let counts = KnowledgeForce::ALL.map(|force| {
            hits.iter().filter(|(entry, _)| KnowledgeForce::of(entry, now) == force).count()
        });
        let mut lines = Vec::new();
        let fits = hits.into_iter().filter(|(entry, _)| KnowledgeForce::of(entry, now) == force);
        for (entry, scored) in fits.take(limit) {
            let (score, snippet) = scored.unzip();
            let task = self.task_if(org, entry.source_task).await?;
            let newer = match entry.superseded_by {
                Some(newer) => store.knowledge(org, newer).await?,
                None => None,
            };
            let (uses, has_more_uses) = (Vec::new(), false);
            lines.push(KnowledgeLine { entry, score, snippet, task, newer, uses, has_more_uses });
        }
        let entries_shown = lines.iter().map(|line| line.entry.id).collect();
        for used in store.knowledge_uses(entries_shown, USES_SHOWN + 1).await? {
            let line = lines.iter_mut().find(|line| line.entry.id == used.entry);
            let Some(line) = line else { continue };
            if line.uses.len() == USES_SHOWN {
                line.has_more_uses = true;
            } else if let Some(task) = self.task_if(org, Some(used.task)).await? {
                line.uses.push((used, task));
            }
        }
        let is_words_only = self.parts.embedder.is_none();
        let it = KnowledgeLook { lines, counts, entries, is_words_only, is_degraded };
        Ok(At { it, now })
    }

    async fn task_if(&self, org: &str, id: Option<TaskId>) -> Result<Option<Task>, EngineError> {
        match id {
            Some(id) => Ok(self.parts.store.task(org, id).await?.map(|record| record.task)),
            None => Ok(None),
        }
    }

    /// The newest entries that work on a task brought, at most `limit`.
    pub async fn knowledge_of_task(
        &self,
        op: &OpContext,
        task: TaskId,
        limit: usize,
    ) -> Result<Vec<KnowledgeEntry>, EngineError> {
        op.principal.judge(op.tool, Scope::KnowledgeRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let query = BackQuery {
            names: Some(vec![EventName::KnowledgeStored]),
            task: Some(task),
            ..BackQuery::of(org.clone(), limit)
        };
        let mut entries = Vec::new();
        for event in store.events_back(query).await? {
            let Some(id) = event.read().knowledge() else { continue };
            entries.extend(store.knowledge(org, id).await?);
        }
        Ok(entries)
    }

    pub async fn knowledge_get(
        &self,
        op: &OpContext,
        id: KnowledgeId,
    ) -> Result<Option<KnowledgeEntry>, EngineError> {
        op.principal.judge(op.tool, Scope::KnowledgeRead)?;
        Ok(self.parts.store.knowledge(&op.principal.org, id).await?)
    }
}
