//! The rows of knowledge: entries, the keyword index, vectors.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use callboard_domain::hex::hex;
use callboard_domain::ids::TaskId;
use callboard_domain::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId, KnowledgeUse};
use callboard_domain::time::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::knowledge::index::{self, Counts, Posting};
use crate::knowledge::rank::{Candidate, Legs, Ranked, first_look, rank};
use crate::knowledge::vectors::{Needle, VectorCache, VectorRow, pack};
use crate::knowledge::{
    Embedded, KnowledgeHit, KnowledgeQuery, QueryVector, Unembedded, analyser, snippet,
};
use crate::postgres::batch::Batch;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::json::{insert_sql, object, run};
use crate::postgres::read::all;
use crate::postgres::rows::uuid;
use crate::table::Cells;
use crate::table::knowledge::{self, CANDIDATE, COUNTS, ENTRY, ENTRY_FROM, UNEMBEDDED, USE, USES};

/// Runs one set statement whose rows are one JSON array.
async fn put(db: &Db, sql: &str, rows: Vec<Value>) -> Result<()> {
    Ok(run(db, &db.prepare_cached(sql).await?, rows).await?)
}

/// Writes the learnings of a batch. The counts of each org are locked first, in order, so that numbers have no gaps
/// and two writers cannot deadlock.
pub(crate) async fn write(db: &Db, batch: &Batch) -> Result<()> {
    let mut numbers = count(db, batch).await?;
    let mut entries = Vec::new();
    // Rows of the index by org, term and part. The values are postings in hex, for JSON.
    let mut terms: BTreeMap<(i64, String, i64), String> = BTreeMap::new();
    let mut tokens: BTreeMap<i64, i64> = BTreeMap::new();
    let learned = batch
        .touched()
        .into_iter()
        .flat_map(|(org, touched)| touched.knowledge_new.iter().map(move |entry| (org, entry)));
    for (org, entry) in learned {
        // `count` raised the counts by the whole batch; the numbers of its entries are handed out here.
        let number = numbers.get_mut(&org).map_or(0, |next| {
            *next += 1;
            *next - 1
        });
        let indexed = index::index(entry, number);
        *tokens.entry(org).or_default() += indexed.tokens;
        entries.push(object(&knowledge::values(org, number, entry)));
        for (term, posting) in indexed.terms {
            let row = terms.entry((org, term, index::row_of(number))).or_default();
            row.push_str(&hex(posting));
        }
    }
    put(
        db,
        "UPDATE knowledge_counts c SET tokens = c.tokens + n.tokens \
         FROM json_populate_recordset(NULL::knowledge_counts, $1::text::json) n \
         WHERE c.org = n.org",
        tokens.iter().map(|(org, tokens)| json!({"org": org, "tokens": tokens})).collect(),
    )
    .await?;
    put(db, &insert_sql(&knowledge::ENTRIES, ""), entries).await?;
    let term_row = |((org, term, part), hex): ((i64, String, i64), String)| json!({"org": org, "term": term, "part": part, "postings": format!("\\x{hex}")});
    put(
        db,
        "INSERT INTO knowledge_terms AS k (org, term, part, postings) \
         SELECT org, term, part, postings \
         FROM json_populate_recordset(NULL::knowledge_terms, $1::text::json) \
         ON CONFLICT (org, term, part) DO UPDATE SET postings = k.postings || excluded.postings",
        terms.into_iter().map(term_row).collect(),
    )
    .await?;
    let edges = batch.touched().into_iter().flat_map(|(_, touched)| &touched.edges);
    let edge = |(task, entry, kind): &(TaskId, KnowledgeId, EdgeKind)| {
        object(&knowledge::edge_values(*task, *entry, *kind))
    };
    put(db, &insert_sql(&knowledge::EDGES, ""), edges.map(edge).collect()).await?;
    let superseded = batch.touched().into_iter().flat_map(|(org, touched)| {
        touched.superseded.iter().map(move |(entry, by)| (org, entry, by))
    });
    // One statement each: entries are superseded rarely, and one at a time.
    let superseded: Vec<_> = superseded.collect();
    for (org, entry, by) in superseded {
        let sql = "UPDATE knowledge SET superseded_by = $3 WHERE id = $1 AND org = $2";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&uuid(entry.0), &org, &uuid(by.0)]).await?;
    }
    Ok(())
}

/// Locks and raises the counts; returns each org's next number.
async fn count(db: &Db, batch: &Batch) -> Result<HashMap<i64, u32>> {
    let added = batch.touched().into_iter().filter_map(|(org, touched)| {
        let entries = touched.knowledge_new.len();
        let version = entries + touched.superseded.len();
        (version > 0).then_some((org, (entries as i32, version as i64)))
    });
    let mut numbers = HashMap::new();
    let added: Vec<_> = added.collect();
    for (org, (entries, version)) in added {
        let sql = "INSERT INTO knowledge_counts AS c (org, entries, tokens, version, stamp) \
             VALUES ($1, $2, 0, $3, 0) ON CONFLICT (org) DO UPDATE \
                 SET entries = c.entries + $2, version = c.version + $3 RETURNING entries";
        let statement = db.prepare_cached(sql).await?;
        let row = db.query_one(&statement, &[&org, &entries, &version]).await?;
        // The row is locked from here to the commit, so no other writer gets these numbers.
        numbers.insert(org, (row.try_get::<_, i32>(0)? - entries) as u32);
    }
    Ok(numbers)
}

/// Entries of any org by their ids, each with its org.
pub(crate) async fn by_id(db: &Db, ids: &[Uuid]) -> Result<Vec<(i64, KnowledgeEntry)>> {
    let sql = format!("SELECT k.org, {ENTRY} FROM {ENTRY_FROM} WHERE k.id = ANY ($1)");
    let read = |row: &Row| {
        let mut row = row.reader();
        Ok((row.int()?, knowledge::read(&mut row)?))
    };
    all(db, &sql, &[&ids]).await?.iter().map(read).collect()
}

/// An entry of this org; the id of another org's entry finds nothing.
pub(crate) async fn find(db: &Db, org: i64, id: KnowledgeId) -> Result<Option<KnowledgeEntry>> {
    let found = by_id(db, &[uuid(id.0)]).await?;
    Ok(found.into_iter().find(|(of, _)| *of == org).map(|(_, entry)| entry))
}

/// The newest entries, also superseded ones.
pub(crate) async fn newest(db: &Db, org: i64, limit: usize) -> Result<Vec<KnowledgeEntry>> {
    let sql = format!(
        "SELECT {ENTRY} FROM {ENTRY_FROM} WHERE k.org = $1 ORDER BY k.number DESC LIMIT $2"
    );
    let rows = all(db, &sql, &[&org, &(limit as i64)]).await?;
    rows.iter().map(|row| knowledge::read(&mut row.reader())).collect()
}

/// The counts of an org; all zero before its first entry.
pub(crate) async fn counts(db: &Db, org: i64) -> Result<Counts> {
    let sql = format!("SELECT {COUNTS} FROM knowledge_counts WHERE org = $1");
    let found = all(db, &sql, &[&org]).await?;
    let counts = found.first().map(|row| knowledge::read_counts(&mut row.reader()));
    Ok(counts.transpose()?.unwrap_or_default())
}

/// Searches without a snapshot. Concurrent writes may show in part; no row ever goes away.
pub(crate) async fn search(
    db: &Db,
    org: i64,
    cache: &VectorCache,
    query: &KnowledgeQuery,
    now: Timestamp,
) -> Result<Vec<KnowledgeHit>> {
    let counts = counts(db, org).await?;
    if counts.entries == 0 {
        return Ok(Vec::new());
    }
    let terms = analyser::query_terms(&query.text);
    let tags: Vec<String> = query.tags.iter().map(|tag| index::tag_term(tag)).collect();
    let (found, tagged) = postings(db, org, &terms, &tags).await?;
    let without = match query.not_produced_by {
        Some(task) => produced_by(db, task).await?,
        None => Vec::new(),
    };
    let cosines = match &query.vector {
        Some(vector) => Some((cosines(db, org, cache, vector, counts).await?, vector.calibration)),
        None => None,
    };
    let legs = Legs::new(counts, &found, &tagged, &without, cosines);
    let mut look_at = first_look();
    loop {
        let candidates = candidates(db, org, legs.candidates(look_at)).await?;
        match rank(&legs, look_at, candidates, query, now) {
            Ranked::LookAt(more) => look_at = more,
            Ranked::Hits(hits) => return shown(db, &hits, &terms).await,
        }
    }
}

/// The whole entries of the hits, in the order of their scores.
async fn shown(db: &Db, hits: &[(Candidate, f64)], terms: &[String]) -> Result<Vec<KnowledgeHit>> {
    let ids: Vec<Uuid> = hits.iter().map(|(candidate, _)| uuid(candidate.id.0)).collect();
    let mut entries: HashMap<KnowledgeId, KnowledgeEntry> =
        by_id(db, &ids).await?.into_iter().map(|(_, entry)| (entry.id, entry)).collect();
    let hit = |(candidate, score): &(Candidate, f64)| {
        let entry = entries.remove(&candidate.id)?;
        let snippet = snippet::snippet(&entry.body, terms);
        Some(KnowledgeHit { entry, score: *score, snippet })
    };
    Ok(hits.iter().filter_map(hit).collect())
}

type Found = Vec<Vec<Posting>>;

/// Postings of the words and of the tags, in one round trip; a term that no entry has gets an empty list.
async fn postings(db: &Db, org: i64, terms: &[String], tags: &[String]) -> Result<(Found, Found)> {
    let asked: Vec<&String> = terms.iter().chain(tags).collect();
    let found = all(
        db,
        "SELECT term, part, postings FROM knowledge_terms WHERE org = $1 AND term = ANY ($2)",
        &[&org, &asked],
    )
    .await?;
    let mut by_term: HashMap<&str, Vec<Posting>> = HashMap::new();
    for row in &found {
        index::read_row(
            row.try_get(1)?,
            row.try_get(2)?,
            by_term.entry(row.try_get(0)?).or_default(),
        );
    }
    let mut take = |terms: &[String]| -> Found {
        terms.iter().map(|term| by_term.remove(term.as_str()).unwrap_or_default()).collect()
    };
    Ok((take(terms), take(tags)))
}

/// The numbers of entries that a task produced.
async fn produced_by(db: &Db, task: TaskId) -> Result<Vec<u32>> {
    let found = all(
        db,
        "SELECT k.number FROM knowledge_edges e JOIN knowledge k ON k.id = e.entry \
         WHERE e.task = $1 AND e.kind = 'produced'",
        &[&uuid(task.id)],
    )
    .await?;
    found.iter().map(|row| row.reader().count()).collect()
}

/// The few columns of these entries that the ranking looks at.
async fn candidates(db: &Db, org: i64, numbers: Vec<u32>) -> Result<Vec<Candidate>> {
    let numbers: Vec<i32> = numbers.into_iter().map(|number| number as i32).collect();
    let sql = format!("SELECT {CANDIDATE} FROM knowledge WHERE org = $1 AND number = ANY ($2)");
    let found = all(db, &sql, &[&org, &numbers]).await?;
    found.iter().map(|row| knowledge::read_candidate(&mut row.reader())).collect()
}

/// The similarity of each entry to the query, by the entry's number. Vectors are held in memory; rows above the stamp
/// of `counts` are left for the next search, so that entries and vectors are of one moment.
async fn cosines(
    db: &Db,
    org: i64,
    cache: &VectorCache,
    vector: &QueryVector,
    counts: Counts,
) -> Result<Vec<Option<f32>>> {
    let shelf = cache.shelf(org, &vector.model);
    let seen = shelf.read().unwrap_or_else(PoisonError::into_inner).stamp();
    if seen < counts.stamp {
        let found = all(
            db,
            "SELECT stamp, number, vector FROM knowledge_vectors \
             WHERE org = $1 AND model = $2 AND stamp > $3 AND stamp <= $4 ORDER BY stamp",
            &[&org, &vector.model, &seen, &counts.stamp],
        )
        .await?;
        let read = |row: &Row| {
            Ok(VectorRow {
                stamp: row.try_get(0)?,
                entry: row.try_get::<_, i32>(1)? as u32,
                bytes: row.try_get(2)?,
            })
        };
        let rows = found.iter().map(read).collect::<Result<Vec<_>>>()?;
        shelf.write().unwrap_or_else(PoisonError::into_inner).append(rows, counts.stamp);
        cache.trim();
    }
    let vectors = shelf.read().unwrap_or_else(PoisonError::into_inner);
    Ok(vectors.cosines(&Needle::of(&vector.values), counts.entries))
}

/// Notes uses of entries in one statement. Rows are locked in the order of their keys, so that two writers cannot
/// deadlock.
pub(crate) async fn put_uses(db: &Db, uses: &[KnowledgeUse]) -> Result<()> {
    let again = USES.again(&["entry", "task"]);
    let mut uses: Vec<&KnowledgeUse> = uses.iter().collect();
    uses.sort_by_key(|used| (used.entry, used.task.id));
    let rows = uses.into_iter().map(|used| object(&knowledge::use_values(used))).collect();
    put(db, &insert_sql(&USES, &again), rows).await
}

/// The newest uses of each entry.
pub(crate) async fn uses(
    db: &Db,
    entries: &[KnowledgeId],
    each: usize,
) -> Result<Vec<KnowledgeUse>> {
    let entries: Vec<Uuid> = entries.iter().map(|entry| uuid(entry.0)).collect();
    let sql = format!(
        "SELECT {USE} FROM unnest($1::uuid[]) WITH ORDINALITY AS w (entry, place) \
         CROSS JOIN LATERAL (SELECT * FROM knowledge_uses WHERE entry = w.entry \
             ORDER BY at DESC, task DESC LIMIT $2) u \
         LEFT JOIN tasks t ON t.id = u.task ORDER BY w.place, u.at DESC, u.task DESC"
    );
    let found = all(db, &sql, &[&entries, &(each as i64)]).await?;
    let uses = found.iter().map(|row| knowledge::read_use(&mut row.reader()));
    Ok(uses.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Orgs with entries that have no vector of this model yet.
pub(crate) async fn orgs_unembedded(db: &Db, model: &str, limit: usize) -> Result<Vec<Arc<str>>> {
    let found = all(
        db,
        "SELECT o.name FROM knowledge_counts c JOIN orgs o ON o.id = c.org \
             LEFT JOIN knowledge_models m ON m.org = c.org AND m.model = $1 \
         WHERE coalesce(m.upto, 0) < c.entries ORDER BY c.org LIMIT $2",
        &[&model, &(limit as i64)],
    )
    .await?;
    found.iter().map(|row| Ok(Arc::from(row.try_get::<_, &str>(0)?))).collect()
}

/// The next entries without a vector of this model, by number.
pub(crate) async fn unembedded(
    db: &Db,
    org: i64,
    model: &str,
    limit: usize,
) -> Result<Vec<Unembedded>> {
    let sql = format!(
        "SELECT {UNEMBEDDED} FROM knowledge WHERE org = $1 AND number >= \
             coalesce((SELECT upto FROM knowledge_models WHERE org = $1 AND model = $2), 0) \
         ORDER BY number LIMIT $3"
    );
    let found = all(db, &sql, &[&org, &model, &(limit as i64)]).await?;
    found.iter().map(|row| knowledge::read_unembedded(&mut row.reader())).collect()
}

/// Stores vectors; needs a transaction. Idempotent, also for several writers at once: existing rows stay.
pub(crate) async fn put_vectors(db: &Db, model: &str, embedded: &[Embedded]) -> Result<()> {
    let mut orgs: Vec<i64> = embedded.iter().map(|entry| entry.org).collect();
    orgs.sort_unstable();
    orgs.dedup();
    for org in orgs {
        let sql = "UPDATE knowledge_counts SET stamp = stamp + 1 WHERE org = $1 RETURNING stamp";
        let statement = db.prepare_cached(sql).await?;
        let stamp: i64 = db.query_one(&statement, &[&org]).await?.try_get(0)?;
        let of_org = || embedded.iter().filter(|entry| entry.org == org);
        for entry in of_org() {
            for (part, vector) in entry.parts.iter().enumerate() {
                all(
                    db,
                    "INSERT INTO knowledge_vectors (org, model, number, part, stamp, vector) \
                     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                    &[&org, &model, &(entry.number as i32), &(part as i32), &stamp, &pack(vector)],
                )
                .await?;
            }
        }
        let upto = of_org().map(|entry| entry.number as i32 + 1).max().unwrap_or(0);
        all(
            db,
            "INSERT INTO knowledge_models AS m (org, model, upto) VALUES ($1, $2, $3) \
             ON CONFLICT (org, model) DO UPDATE SET upto = greatest(m.upto, excluded.upto)",
            &[&org, &model, &upto],
        )
        .await?;
    }
    Ok(())
}
