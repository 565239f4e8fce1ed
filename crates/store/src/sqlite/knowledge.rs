//! The rows of knowledge: entries, the keyword index, vectors.

use std::sync::Arc;

use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId, KnowledgeUse};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use crate::knowledge::index::{self, Counts, Posting};
use crate::knowledge::rank::{Candidate, Legs, Ranked, first_look, rank};
use crate::knowledge::vectors::{Needle, VectorCache, VectorRow, pack};
use crate::knowledge::{
    Embedded, KnowledgeHit, KnowledgeQuery, QueryVector, Unembedded, analyser, snippet,
};
use crate::sqlite::rows;
use crate::table::Cells;
use crate::table::knowledge::{self, CANDIDATE, COUNTS, ENTRY, ENTRY_FROM, UNEMBEDDED, USE, USES};

/// Stores an entry together with its part of the keyword index. Entries are numbered per org from 0 without gaps;
/// postings and vectors name an entry by that number.
pub(crate) fn insert(db: &Connection, org: i64, entry: &KnowledgeEntry) -> Result<()> {
    // Read in the transaction of the command, and writers take turns: no other entry can get this number.
    let number = counts(db, org)?.entries;
    let indexed = index::index(entry, number);
    db.prepare_cached(
        "INSERT INTO knowledge_counts (org, entries, tokens, version, stamp) \
         VALUES (?1, 1, ?2, 1, 0) ON CONFLICT (org) DO UPDATE SET entries = entries + 1, \
             tokens = tokens + excluded.tokens, version = version + 1",
    )?
    .execute(params![org, indexed.tokens])?;
    rows::insert(db, &knowledge::values(org, number, entry), "")?;
    // Postings of consecutive entries are appended to one row, so a search reads a few long rows instead of one per
    // entry.
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

/// Links an entry to the task that produced it or used it.
pub(crate) fn link(
    db: &Connection,
    task: TaskId,
    entry: KnowledgeId,
    kind: EdgeKind,
) -> Result<()> {
    rows::insert(db, &knowledge::edge_values(task, entry, kind), "")
}

/// Marks an entry as replaced. The row stays, for links and for its number; searches leave it out unless they ask for
/// it.
pub(crate) fn supersede(
    db: &Connection,
    org: i64,
    entry: KnowledgeId,
    by: KnowledgeId,
) -> Result<()> {
    db.prepare_cached("UPDATE knowledge SET superseded_by = ?3 WHERE id = ?1 AND org = ?2")?
        .execute(params![entry.0.to_bytes(), org, by.0.to_bytes()])?;
    // Digests that were made from an older version are made again.
    db.prepare_cached("UPDATE knowledge_counts SET version = version + 1 WHERE org = ?1")?
        .execute([org])?;
    Ok(())
}

/// The counts of an org; all zero before its first entry.
pub(crate) fn counts(db: &Connection, org: i64) -> Result<Counts> {
    let sql = format!("SELECT {COUNTS} FROM knowledge_counts WHERE org = ?1");
    let read = |row: &Row<'_>| knowledge::read_counts(&mut row.reader());
    db.prepare_cached(&sql)?.query_row([org], read).optional().map(Option::unwrap_or_default)
}

pub(crate) fn find(db: &Connection, org: i64, id: KnowledgeId) -> Result<Option<KnowledgeEntry>> {
    db.prepare_cached(&format!("SELECT {ENTRY} FROM {ENTRY_FROM} WHERE k.id = ?1 AND k.org = ?2"))?
        .query_row(params![id.0.to_bytes(), org], entry)
        .optional()
}

/// The newest entries, also superseded ones.
pub(crate) fn newest(db: &Connection, org: i64, limit: usize) -> Result<Vec<KnowledgeEntry>> {
    let sql = format!(
        "SELECT {ENTRY} FROM {ENTRY_FROM} WHERE k.org = ?1 ORDER BY k.number DESC LIMIT ?2"
    );
    db.prepare_cached(&sql)?.query_map(params![org, limit as i64], entry)?.collect()
}

fn entry(row: &Row<'_>) -> Result<KnowledgeEntry> {
    knowledge::read(&mut row.reader())
}

/// Finds the best entries by words, tags and, with a vector, by meaning. Candidates are loaded in growing numbers until
/// no entry that was not looked at can be among the hits.
pub(crate) fn search(
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

/// The entries that have a term, by rising number.
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

/// The numbers of entries that a task produced: its own digest leaves them out.
fn produced_by(db: &Connection, task: TaskId) -> Result<Vec<u32>> {
    db.prepare_cached(
        "SELECT k.number FROM knowledge_edges e JOIN knowledge k ON k.id = e.entry \
         WHERE e.task = ?1 AND e.kind = 'produced'",
    )?
    .query_map([task.id.to_bytes()], |row| row.get(0))?
    .collect()
}

/// The few columns of an entry that the ranking looks at.
fn candidate(db: &Connection, org: i64, number: u32) -> Result<Candidate> {
    let sql = format!("SELECT {CANDIDATE} FROM knowledge WHERE org = ?1 AND number = ?2");
    let read = |row: &Row<'_>| knowledge::read_candidate(&mut row.reader());
    db.prepare_cached(&sql)?.query_row(params![org, number], read)
}

/// The similarity of each entry to the query, by the entry's number. The vectors of an org are held in memory; a stamp
/// says which rows came since, so each row is read once per process.
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

/// Notes uses of entries, all or none of them.
pub(crate) fn put_uses(db: &mut Connection, uses: &[KnowledgeUse]) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let again = USES.again(&["entry", "task"]);
    for used in uses {
        rows::insert(&tx, &knowledge::use_values(used), &again)?;
    }
    tx.commit()
}

/// The newest uses of each entry. LEFT JOIN keeps the order of the lookups: the uses of an entry, then their tasks.
pub(crate) fn uses(
    db: &Connection,
    entries: &[KnowledgeId],
    each: usize,
) -> Result<Vec<KnowledgeUse>> {
    let sql = format!(
        "SELECT {USE} FROM knowledge_uses u LEFT JOIN tasks t ON t.id = u.task \
         WHERE u.entry = ?1 ORDER BY u.at DESC, u.task DESC LIMIT ?2"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for entry in entries {
        let read = |row: &Row<'_>| knowledge::read_use(&mut row.reader());
        let uses = select.query_map(params![entry.0.to_bytes(), each as i64], read)?;
        found.extend(uses.collect::<Result<Vec<_>>>()?.into_iter().flatten());
    }
    Ok(found)
}

/// Orgs with entries that have no vector of this model yet.
pub(crate) fn orgs_unembedded(db: &Connection, model: &str, limit: usize) -> Result<Vec<Arc<str>>> {
    let name = |row: &Row<'_>| Ok(Arc::from(row.get_ref(0)?.as_str()?));
    db.prepare_cached(
        "SELECT o.name FROM knowledge_counts c JOIN orgs o ON o.id = c.org \
             LEFT JOIN knowledge_models m ON m.org = c.org AND m.model = ?1 \
         WHERE coalesce(m.upto, 0) < c.entries ORDER BY c.org LIMIT ?2",
    )?
    .query_map(params![model, limit as i64], name)?
    .collect()
}

/// The next entries without a vector of this model, by number. `upto` is the first number that was not done: vectors
/// are made in the order of the entries.
pub(crate) fn unembedded(
    db: &Connection,
    org: i64,
    model: &str,
    limit: usize,
) -> Result<Vec<Unembedded>> {
    let read = |row: &Row<'_>| knowledge::read_unembedded(&mut row.reader());
    db.prepare_cached(&format!(
        "SELECT {UNEMBEDDED} FROM knowledge WHERE org = ?1 AND number >= \
             coalesce((SELECT upto FROM knowledge_models WHERE org = ?1 AND model = ?2), 0) \
         ORDER BY number LIMIT ?3"
    ))?
    .query_map(params![org, model, limit as i64], read)?
    .collect()
}

/// Stores vectors. Idempotent, also for several writers at once: existing rows stay.
pub(crate) fn put_vectors(db: &mut Connection, model: &str, embedded: &[Embedded]) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut orgs: Vec<i64> = embedded.iter().map(|entry| entry.org).collect();
    orgs.sort_unstable();
    orgs.dedup();
    for org in orgs {
        // The stamp rises with every batch, so readers find new rows without comparing all of them.
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
        // An entry that cannot be embedded has no parts, and counts as done: the model would fail on it for ever.
        let upto = of_org().map(|entry| entry.number + 1).max().unwrap_or(0);
        tx.prepare_cached(
            "INSERT INTO knowledge_models (org, model, upto) VALUES (?1, ?2, ?3) \
             ON CONFLICT (org, model) DO UPDATE SET upto = max(upto, excluded.upto)",
        )?
        .execute(params![org, model, upto])?;
    }
    tx.commit()
}
