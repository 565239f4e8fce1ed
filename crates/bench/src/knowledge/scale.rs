//! Searches, digests and completions in a large store: how long they take, and that no org finds the entries of
//! another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::knowledge::KnowledgeId;
use callboard_domain::time::Timestamp;
use callboard_engine::ports::{EmbedFault, Embedder};
use callboard_engine::store::knowledge::{Calibration, Embedded, KnowledgeQuery, QueryVector};
use callboard_engine::{Completion, DigestTask, Engine, Learning, TaskDraft};

use super::{Set, TITLE_CHARS, fill, named, vector, waiting};
use crate::bed::{Bed, Site, actor, context};
use crate::{Figure, Goal, percentile};

const SEARCHES: usize = 1000;
/// The number of tasks that `get_next_actionable` shows.
const DIGESTED: usize = 5;
/// The number of tasks completed with learnings, and as many without.
const COMPLETED: usize = 200;
const LEARNINGS: usize = 5;
const LEARNING_CHARS: usize = 1000;
const STRANGE_SEARCHES: usize = 10_000;

/// Searches in a store of this size; the vectors are random, which costs the same.
pub(super) async fn scale(
    bed: &Bed,
    sets: &[Set],
    embedder: Option<&Arc<dyn Embedder>>,
    entries: usize,
    orgs: usize,
) -> anyhow::Result<Vec<Figure>> {
    let documents: Vec<_> = sets.iter().flat_map(|set| &set.corpus).cycle().take(entries).collect();
    let queries: Vec<_> = sets.iter().flat_map(|set| &set.queries).cycle().take(SEARCHES).collect();
    let start = Instant::now();
    let mut homes = HashMap::new();
    for (n, part) in documents.chunks(entries.div_ceil(orgs)).enumerate() {
        let filled = fill(bed, &format!("org{n}"), part).await?;
        homes.extend(filled.into_keys().map(|id| (id, n)));
    }
    let stored = entries as f64 / start.elapsed().as_secs_f64();
    invent_vectors(bed).await?;
    let name = |what: &str| named(format!("{entries} entries in {orgs} orgs: {what}"));
    let mut figures = vec![Figure::plain(name("stored"), stored, "/s")];
    for (vectors, words_max, what) in [(false, 15.0, "keyword"), (true, 40.0, "with vectors")] {
        let mut times = Vec::with_capacity(queries.len());
        for round in 0..2 {
            times.clear();
            for (n, (_, text)) in queries.iter().enumerate() {
                let start = Instant::now();
                let vector = match (vectors, embedder) {
                    (false, _) => None,
                    (true, Some(_)) => {
                        let real = vector(embedder, text).await?;
                        real.map(|real| QueryVector { model: INVENTED.into(), ..real })
                    }
                    (true, None) => Some(QueryVector {
                        model: INVENTED.into(),
                        values: invented(n as u64),
                        calibration: Default::default(),
                    }),
                };
                let org = format!("org{}", n % orgs);
                let query = KnowledgeQuery {
                    vector,
                    ..KnowledgeQuery::of(org.as_str().into(), text.clone())
                };
                bed.engine.store().knowledge_search(query).await?;
                times.push(start.elapsed());
                // The first round reads vectors into memory; users wait for that only once.
                if round == 0 && n >= orgs {
                    break;
                }
            }
        }
        times.sort_unstable();
        let goal = if orgs == 1 { 90.0 } else { words_max };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        figures.push(Figure::plain(
            name(&format!("search {what}, p50")),
            ms(percentile(&times, 0.5)),
            "ms",
        ));
        figures.push(Figure::with(
            name(&format!("search {what}, p99")),
            ms(percentile(&times, 0.99)),
            "ms",
            Goal::AtMost(goal),
        ));
        let engine = match vectors {
            false => bed.engine.clone(),
            true => {
                let known = Arc::new(Renamed(embedder.cloned()));
                Bed::join_with(&Site::Folder(bed.folder.clone()), Some(known)).await?
            }
        };
        let (took, degraded) = digests(&engine, &queries, orgs).await?;
        let what = format!("digest of {DIGESTED} tasks {what}");
        let p99 = ms(percentile(&took, 0.99));
        figures.push(Figure::plain(name(&format!("{what}, p99")), p99, "ms"));
        let late = name(&format!("{what}, tasks left without for lack of time"));
        figures.push(Figure::with(late, degraded as f64, "", Goal::AtMost(0.0)));
    }
    if orgs > 1 {
        let strangers = strangers(bed, &homes, &queries, orgs).await?;
        let what = format!("hits from another org in {STRANGE_SEARCHES} searches");
        figures.push(Figure::with(name(&what), strangers as f64, "", Goal::AtMost(0.0)));
    }
    let added = learnings_added(&bed.engine, &documents).await?;
    let what = format!("added to complete_task by {LEARNINGS} learnings, p50");
    figures.push(Figure::with(name(&what), added, "ms", Goal::AtMost(5.0)));
    Ok(figures)
}

/// How much longer it takes to complete a task with learnings than without, in ms.
async fn learnings_added(
    engine: &Engine,
    documents: &[&(String, String, String)],
) -> anyhow::Result<f64> {
    let mut op = context(&actor(0)?);
    op.principal.org = "org0".into();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for n in 0..2 * COMPLETED {
        let draft = TaskDraft { title: format!("task {n}"), ..TaskDraft::default() };
        let task = engine.task_create(&op, draft).await?.it.task.id;
        engine.lease_take(&op, task, 900).await?;
        let (times, count) = if n % 2 == 0 { (&mut with, LEARNINGS) } else { (&mut without, 0) };
        let learned = documents.iter().skip(n * LEARNINGS).take(count).map(|(_, title, text)| {
            let title: String = title.chars().chain(text.chars()).take(TITLE_CHARS).collect();
            let body: String = text.chars().chain(title.chars()).take(LEARNING_CHARS).collect();
            Learning { title, body, ..Learning::default() }
        });
        let completion = Completion {
            task,
            fence: None,
            output: "done".into(),
            external_ref: None,
            learnings: learned.collect(),
        };
        let start = Instant::now();
        engine.lease_complete(&op, completion).await?;
        times.push(start.elapsed());
    }
    with.sort_unstable();
    without.sort_unstable();
    let middle = |times: &[Duration]| percentile(times, 0.5).as_secs_f64() * 1e3;
    Ok(middle(&with) - middle(&without))
}

/// Hits that belong to another org than the searched one, by words and by vectors.
async fn strangers(
    bed: &Bed,
    homes: &HashMap<KnowledgeId, usize>,
    queries: &[&(String, String)],
    orgs: usize,
) -> anyhow::Result<usize> {
    let mut strangers = 0;
    for n in 0..STRANGE_SEARCHES {
        let values = invented(n as u64);
        let draw = values.iter().map(|value| value.to_bits() as usize).fold(n, usize::wrapping_add);
        let (org, (_, text)) = (draw % orgs, queries[draw / orgs % queries.len()]);
        let query = KnowledgeQuery {
            vector: Some(QueryVector {
                model: INVENTED.into(),
                values,
                calibration: Calibration::default(),
            }),
            ..KnowledgeQuery::of(format!("org{org}").as_str().into(), text.clone())
        };
        let hits = bed.engine.store().knowledge_search(query).await?;
        strangers += hits.iter().filter(|hit| homes.get(&hit.entry.id) != Some(&org)).count();
    }
    Ok(strangers)
}

/// How long the digests of one call's tasks take, none of them seen before, and how many tasks got none for lack of
/// time.
async fn digests(
    engine: &Engine,
    queries: &[&(String, String)],
    orgs: usize,
) -> anyhow::Result<(Vec<Duration>, usize)> {
    let (mut times, mut degraded) = (Vec::new(), 0);
    let mut number = 0;
    for (n, few) in queries.chunks(DIGESTED).cycle().take(2 * queries.len() / DIGESTED).enumerate()
    {
        let tasks: Vec<DigestTask> = few
            .iter()
            .map(|(_, text)| {
                number += 1;
                DigestTask {
                    task: TaskId { id: Id(number), prefix: Prefix::fallback() },
                    title: text.clone(),
                    body: String::new(),
                    updated_at: Timestamp(0),
                }
            })
            .collect();
        let mut op = context(&actor(0)?);
        op.principal.org = format!("org{}", n % orgs).as_str().into();
        let start = Instant::now();
        let found = engine.knowledge_digest(&op, &tasks).await;
        let took = start.elapsed();
        // The first round reads data into memory and is not counted.
        if n >= queries.len() / DIGESTED {
            times.push(took);
            degraded += found.iter().filter(|digest| digest.degraded).count();
        }
    }
    times.sort_unstable();
    Ok((times, degraded))
}

/// A model whose vectors go under the name of the invented ones.
struct Renamed(Option<Arc<dyn Embedder>>);

#[async_trait]
impl Embedder for Renamed {
    fn model(&self) -> &str {
        INVENTED
    }

    fn calibration(&self) -> Calibration {
        Calibration::default()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault> {
        match &self.0 {
            Some(model) => model.embed(texts).await,
            None => Ok((0..texts.len()).map(|n| invented(n as u64)).collect()),
        }
    }
}

const INVENTED: &str = "invented";
const DIMENSIONS: usize = 384;

fn invented(seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let number = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..DIMENSIONS).map(number).collect()
}

async fn invent_vectors(bed: &Bed) -> anyhow::Result<()> {
    let store = bed.engine.store();
    loop {
        let waiting = waiting(store, INVENTED, 5000).await?;
        if waiting.is_empty() {
            return Ok(());
        }
        let made = waiting.iter().map(|entry| Embedded {
            org: entry.org,
            number: entry.number,
            parts: vec![invented(u64::from(entry.number))],
        });
        store.knowledge_vectors_put(INVENTED, made.collect()).await?;
    }
}
