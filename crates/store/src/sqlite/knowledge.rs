//! The rows of knowledge: entries, the keyword index, vectors.

use std::sync::Arc;

use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId, KnowledgeSource};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use super::rows;
use crate::knowledge::index::{self, Counts, Posting};
use crate::knowledge::rank::{Candidate, Legs, Ranked, first_look, rank};
use crate::knowledge::vectors::{Needle, VectorCache, VectorRow, pack};
use crate::knowledge::{
    Embedded, KnowledgeHit, KnowledgeQuery, QueryVector, Unembedded, analyser, snippet,
};

const ENTRY: &str = "k.id, k.title, k.body, k.tags, k.confidence, k.source, k.source_task, \
     t.prefix, k.created_at, k.created_by, k.expires_at, k.superseded_by \
     FROM knowledge k LEFT JOIN tasks t ON t.id = k.source_task";

pub(super) fn insert(db: &Connection, org: i64, entry: &KnowledgeEntry) -> Result<()> {
    let number = counts(db, org)?.entries;
    let indexed = index::index(entry, number);
    db.prepare_cached(
        "INSERT INTO knowledge_counts (org, entries, tokens, version, stamp) \
         VALUES (?1, 1, ?2, 1, 0) ON CONFLICT (org) DO UPDATE SET entries = entries + 1, \
             tokens = tokens + excluded.tokens, version = version + 1",
    )?
    .execute(params![org, indexed.tokens])?;
    db.prepare_cached(
        "INSERT INTO knowledge (id, org, number, title, body, tags, confidence, source, \
             source_task, created_at, created_by, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        entry.id.0.to_bytes(),
        org,
        number,
        entry.title,
        entry.body,
        entry.tags.join(" "),
        entry.confidence,
        entry.source.as_str(),
        entry.source_task.map(|task| task.id.to_bytes()),
        entry.created_at.0,
        entry.created_by.as_str(),
        entry.expires_at.map(|at| at.0),
    ])?;
    let mut add = db.prepare_cached(
        "INSERT INTO knowledge_terms (org, term, part, postings) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (org, term, part) DO UPDATE \
             SET postings = CAST(postings || excluded.postings AS BLOB)",
    )?;
    for (term, posting) in &indexed.terms {
        add.execute(params![org, term, index::row_of(number), posting])?;
    }
    Ok(())
}

pub(super) fn link(
    db: &Connection,
    task: TaskId,
    entry: KnowledgeId,
    kind: EdgeKind,
) -> Result<()> {
    db.prepare_cached("INSERT INTO knowledge_edges (task, entry, kind) VALUES (?1, ?2, ?3)")?
        .execute(params![task.id.to_bytes(), entry.0.to_bytes(), kind.as_str()])?;
    Ok(())
}

pub(super) fn supersede(
    db: &Connection,
    org: i64,
    entry: KnowledgeId,
    by: KnowledgeId,
) -> Result<()> {
    db.prepare_cached("UPDATE knowledge SET superseded_by = ?3 WHERE id = ?1 AND org = ?2")?
        .execute(params![entry.0.to_bytes(), org, by.0.to_bytes()])?;
    db.prepare_cached("UPDATE knowledge_counts SET version = version + 1 WHERE org = ?1")?
        .execute([org])?;
    Ok(())
}

pub(super) fn counts(db: &Connection, org: i64) -> Result<Counts> {
    let read = |row: &Row<'_>| {
        Ok(Counts {
            entries: row.get(0)?,
            tokens: row.get(1)?,
            version: row.get(2)?,
            stamp: row.get(3)?,
        })
    };
    db.prepare_cached(
        "SELECT entries, tokens, version, stamp FROM knowledge_counts WHERE org = ?1",
    )?
    .query_row([org], read)
    .optional()
    .map(Option::unwrap_or_default)
}

pub(super) fn find(db: &Connection, org: i64, id: KnowledgeId) -> Result<Option<KnowledgeEntry>> {
    db.prepare_cached(&format!("SELECT {ENTRY} WHERE k.id = ?1 AND k.org = ?2"))?
        .query_row(params![id.0.to_bytes(), org], entry)
        .optional()
}

fn entry(row: &Row<'_>) -> Result<KnowledgeEntry> {
    let source_task = match row.get::<_, Option<[u8; 16]>>(6)? {
        Some(bytes) => {
            let prefix: Option<String> = row.get(7)?;
            let prefix = prefix.and_then(|prefix| Prefix::parse(&prefix));
            let prefix = prefix.unwrap_or_else(Prefix::fallback);
            Some(TaskId { id: Id::from_bytes(bytes), prefix })
        }
        None => None,
    };
    let source = KnowledgeSource::parse(row.get_ref(5)?.as_str()?);
    let superseded_by = row.get::<_, Option<[u8; 16]>>(11)?;
    Ok(KnowledgeEntry {
        id: KnowledgeId(rows::id(row, 0)?),
        title: row.get(1)?,
        body: row.get(2)?,
        tags: row.get_ref(3)?.as_str()?.split_whitespace().map(str::to_owned).collect(),
        confidence: row.get(4)?,
        source: source.ok_or_else(|| rows::damaged(5, "source"))?,
        source_task,
        created_at: rows::time(row, 8)?,
        created_by: rows::actor(row, 9)?,
        expires_at: row.get::<_, Option<i64>>(10)?.map(Timestamp),
        superseded_by: superseded_by.map(|bytes| KnowledgeId(Id::from_bytes(bytes))),
    })
}

pub(super) fn search(
    db: &Connection,
    org: i64,
    cache: &VectorCache,
    query: &KnowledgeQuery,
    now: Timestamp,
) -> Result<Vec<KnowledgeHit>> {
    // One snapshot for the whole search, whatever is written meanwhile.
    let snapshot = db.unchecked_transaction()?;
    let counts = counts(&snapshot, org)?;
    if counts.entries == 0 {
        return Ok(Vec::new());
    }
    let terms = analyser::query_terms(&query.text);
    let read = |term: &String| postings(&snapshot, org, term);
    let found = terms.iter().map(read).collect::<Result<Vec<_>>>()?;
    let tags = query.tags.iter().map(|tag| read(&index::tag_term(tag)));
    let tags = tags.collect::<Result<Vec<_>>>()?;
    let without = match query.not_produced_by {
        Some(task) => produced_by(&snapshot, task)?,
        None => Vec::new(),
    };
    let cosines = match &query.vector {
        Some(vector) => {
            let cosines = cosines(&snapshot, org, cache, vector, counts)?;
            Some((cosines, vector.calibration))
        }
        None => None,
    };
    let legs = Legs::new(counts, &found, &tags, &without, cosines);
    let mut look_at = first_look();
    loop {
        let numbers = legs.candidates(look_at);
        let candidates = numbers
            .into_iter()
            .map(|number| candidate(&snapshot, org, number))
            .collect::<Result<Vec<_>>>()?;
        match rank(&legs, look_at, candidates, query, now) {
            Ranked::LookAt(more) => look_at = more,
            Ranked::Hits(hits) => {
                let mut shown = Vec::with_capacity(hits.len());
                for (candidate, score) in hits {
                    if let Some(entry) = find(&snapshot, org, candidate.id)? {
                        let snippet = snippet::snippet(&entry.body, &terms);
                        shown.push(KnowledgeHit { entry, score, snippet });
                    }
                }
                return Ok(shown);
            }
        }
    }
}

fn postings(db: &Connection, org: i64, term: &str) -> Result<Vec<Posting>> {
    let mut found = Vec::new();
    let mut select = db.prepare_cached(
        "SELECT part, postings FROM knowledge_terms WHERE org = ?1 AND term = ?2 ORDER BY part",
    )?;
    let mut rows = select.query(params![org, term])?;
    while let Some(row) = rows.next()? {
        index::read_row(row.get(0)?, row.get_ref(1)?.as_blob()?, &mut found);
    }
    Ok(found)
}

fn produced_by(db: &Connection, task: TaskId) -> Result<Vec<u32>> {
    db.prepare_cached(
        "SELECT k.number FROM knowledge_edges e JOIN knowledge k ON k.id = e.entry \
         WHERE e.task = ?1 AND e.kind = 'produced'",
    )?
    .query_map([task.id.to_bytes()], |row| row.get(0))?
    .collect()
}

fn candidate(db: &Connection, org: i64, number: u32) -> Result<Candidate> {
    let read = |row: &Row<'_>| {
        Ok(Candidate {
            number,
            id: KnowledgeId(rows::id(row, 0)?),
            confidence: row.get(1)?,
            created_at: rows::time(row, 2)?,
            expires_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
            is_superseded: row.get(4)?,
        })
    };
    db.prepare_cached(
        "SELECT id, confidence, created_at, expires_at, superseded_by IS NOT NULL \
         FROM knowledge WHERE org = ?1 AND number = ?2",
    )?
    .query_row(params![org, number], read)
}

fn cosines(
    db: &Connection,
    org: i64,
    cache: &VectorCache,
    vector: &QueryVector,
    counts: Counts,
) -> Result<Vec<Option<f32>>> {
    let shelf = cache.shelf(org, &vector.model);
    let seen = shelf.read().unwrap_or_else(std::sync::PoisonError::into_inner).stamp();
    if seen < counts.stamp {
        let read = |row: &Row<'_>| {
            Ok(VectorRow { stamp: row.get(0)?, entry: row.get(1)?, bytes: row.get(2)? })
        };
        let rows = db
            .prepare_cached(
                "SELECT stamp, number, vector FROM knowledge_vectors \
                 WHERE org = ?1 AND model = ?2 AND stamp > ?3 ORDER BY stamp",
            )?
            .query_map(params![org, vector.model, seen], read)?
            .collect::<Result<Vec<_>>>()?;
        shelf.write().unwrap_or_else(std::sync::PoisonError::into_inner).append(rows, counts.stamp);
        cache.trim();
    }
    let vectors = shelf.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(vectors.cosines(&Needle::of(&vector.values), counts.entries))
}

pub(super) fn orgs_unembedded(db: &Connection, model: &str, limit: usize) -> Result<Vec<Arc<str>>> {
    let name = |row: &Row<'_>| Ok(Arc::from(row.get_ref(0)?.as_str()?));
    db.prepare_cached(
        "SELECT o.name FROM knowledge_counts c JOIN orgs o ON o.id = c.org \
             LEFT JOIN knowledge_models m ON m.org = c.org AND m.model = ?1 \
         WHERE coalesce(m.upto, 0) < c.entries ORDER BY c.org LIMIT ?2",
    )?
    .query_map(params![model, limit as i64], name)?
    .collect()
}

pub(super) fn unembedded(
    db: &Connection,
    org: i64,
    model: &str,
    limit: usize,
) -> Result<Vec<Unembedded>> {
    let read = |row: &Row<'_>| {
        Ok(Unembedded {
            org: row.get(0)?,
            number: row.get(1)?,
            id: KnowledgeId(rows::id(row, 2)?),
            title: row.get(3)?,
            body: row.get(4)?,
        })
    };
    db.prepare_cached(
        "SELECT org, number, id, title, body FROM knowledge WHERE org = ?1 AND number >= \
             coalesce((SELECT upto FROM knowledge_models WHERE org = ?1 AND model = ?2), 0) \
         ORDER BY number LIMIT ?3",
    )?
    .query_map(params![org, model, limit as i64], read)?
    .collect()
}

/// Stores vectors. Idempotent, also for several writers at once: existing rows stay.
pub(super) fn put_vectors(db: &mut Connection, model: &str, embedded: &[Embedded]) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut orgs: Vec<i64> = embedded.iter().map(|entry| entry.org).collect();
    orgs.sort_unstable();
    orgs.dedup();
    for org in orgs {
        let stamp: i64 = tx
            .prepare_cached(
                "UPDATE knowledge_counts SET stamp = stamp + 1 WHERE org = ?1 RETURNING stamp",
            )?
            .query_row([org], |row| row.get(0))?;
        let of_org = || embedded.iter().filter(|entry| entry.org == org);
        for entry in of_org() {
            for (part, vector) in entry.parts.iter().enumerate() {
                tx.prepare_cached(
                    "INSERT OR IGNORE INTO knowledge_vectors \
                         (org, model, number, part, stamp, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    org,
                    model,
                    entry.number,
                    part as i64,
                    stamp,
                    pack(vector)
                ])?;
            }
        }
        let upto = of_org().map(|entry| entry.number + 1).max().unwrap_or(0);
        tx.prepare_cached(
            "INSERT INTO knowledge_models (org, model, upto) VALUES (?1, ?2, ?3) \
             ON CONFLICT (org, model) DO UPDATE SET upto = max(upto, excluded.upto)",
        )?
        .execute(params![org, model, upto])?;
    }
    tx.commit()
}
