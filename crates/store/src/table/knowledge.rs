//! Entries of knowledge. The keyword index and the vectors stand with each backend.

use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::knowledge::{
    EdgeKind, KnowledgeEntry, KnowledgeId, KnowledgeSource, KnowledgeUse,
};

use super::cell::table;
use super::{Cells, RowReader};
use crate::knowledge::Unembedded;
use crate::knowledge::index::Counts;
use crate::knowledge::rank::Candidate;

/// The columns of an entry `k` with its task `t`.
pub(crate) const ENTRY: &str = "k.id, k.title, k.body, k.tags, k.confidence, k.source, \
     k.source_task, t.prefix, k.created_at, k.created_by, k.expires_at, k.superseded_by";
/// LEFT, because an entry that an agent stored by itself has no task.
pub(crate) const ENTRY_FROM: &str = "knowledge k LEFT JOIN tasks t ON t.id = k.source_task";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<KnowledgeEntry, R::Error> {
    Ok(KnowledgeEntry {
        id: KnowledgeId(row.id()?),
        title: row.text()?,
        body: row.text()?,
        // Tags have no blanks in them, so one text holds all.
        tags: row.str()?.split_whitespace().map(str::to_owned).collect(),
        confidence: row.count()?,
        source: row.word("source", KnowledgeSource::parse)?,
        // A task may have been removed since; its knowledge stays.
        source_task: row.task_or_gone()?,
        created_at: row.time()?,
        created_by: row.actor()?,
        expires_at: row.time_if()?,
        superseded_by: row.id_if()?.map(KnowledgeId),
    })
}

table! {
    ENTRIES = "knowledge";
    fn values(org: i64, number: u32, entry: &'a KnowledgeEntry) {
        id: entry.id.0,
        org: org,
        // Counts the entries of the org from 0 without gaps. The index and the vectors name an entry by it.
        number: number,
        title: &entry.title,
        body: &entry.body,
        tags: entry.tags.join(" "),
        // 0 to 100, as the author judged.
        confidence: entry.confidence,
        source: entry.source.as_str(),
        source_task: entry.source_task,
        created_at: entry.created_at,
        created_by: &entry.created_by,
        expires_at: entry.expires_at,
        superseded_by: entry.superseded_by.map(|by| by.0),
    }
}

table! {
    EDGES = "knowledge_edges";
    /// The key is (task, entry), so a task has one edge to an entry, of one kind.
    fn edge_values(task: TaskId, entry: KnowledgeId, kind: EdgeKind) {
        task: task,
        entry: entry.0,
        kind: kind.as_str(),
    }
}

table! {
    USES = "knowledge_uses";
    /// The key is (entry, task): the newest attempt of a task stands for the earlier ones.
    fn use_values(used: &'a KnowledgeUse) {
        entry: used.entry.0,
        task: used.task,
        attempt: used.attempt,
        actor: &used.actor,
        at: used.at,
    }
}

/// The columns of a use `u` with its task `t`.
pub(crate) const USE: &str = "u.entry, u.task, t.prefix, u.attempt, u.actor, u.at";

/// Nothing for a use by a task that was removed since.
pub(crate) fn read_use<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<Option<KnowledgeUse>, R::Error> {
    let entry = KnowledgeId(row.id()?);
    let task = row.task_or_gone()?;
    let (attempt, actor, at) = (AttemptId(row.id()?), row.actor()?, row.time()?);
    Ok(task.map(|task| KnowledgeUse { entry, task, attempt, actor, at }))
}

/// The columns of an org's counts.
pub(crate) const COUNTS: &str = "entries, tokens, version, stamp";

/// `version` rises with every entry that is added or superseded, `stamp` with every batch of vectors.
pub(crate) fn read_counts<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Counts, R::Error> {
    Ok(Counts { entries: row.count()?, tokens: row.int()?, version: row.int()?, stamp: row.int()? })
}

/// The columns that the ranking needs of an entry.
/// No title and no body: a search looks at up to 12,800 candidates and shows a few of them.
pub(crate) const CANDIDATE: &str =
    "number, id, confidence, created_at, expires_at, superseded_by IS NOT NULL";

pub(crate) fn read_candidate<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Candidate, R::Error> {
    Ok(Candidate {
        number: row.count()?,
        id: KnowledgeId(row.id()?),
        confidence: row.count()?,
        created_at: row.time()?,
        expires_at: row.time_if()?,
        is_superseded: row.flag()?,
    })
}

/// The columns of an entry that a model embeds.
pub(crate) const UNEMBEDDED: &str = "org, number, id, title, body";

pub(crate) fn read_unembedded<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<Unembedded, R::Error> {
    Ok(Unembedded {
        org: row.int()?,
        number: row.count()?,
        id: KnowledgeId(row.id()?),
        title: row.text()?,
        body: row.text()?,
    })
}
