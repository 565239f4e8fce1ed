//! Search for knowledge: the quality of hits on sets with known answers, and the time of a search in a large store.

mod scale;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use callboard_domain::command::{Command, KnowledgeStore};
use callboard_domain::knowledge::{KnowledgeId, NewKnowledge};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{Embedder, IdSource};
use callboard_engine::store::knowledge::{Embedded, KnowledgeQuery, QueryVector, Unembedded};
use callboard_engine::store::{Op, Place, Store};
use callboard_runner::embed::{ModelEmbedder, ModelFolder};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::bed::{Bed, actor};
use super::{Figure, Goal};

/// Measure searches over knowledge
///
/// DIR holds a folder per set: corpus.jsonl with id, title and text; queries.jsonl with id and text;
/// qrels.tsv with query, document, grade.
#[derive(clap::Args, Debug)]
pub struct KnowledgeArgs {
    /// Folder with the sets
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder of a model, to measure vectors as well
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// File with texts about something else, one in a line: queries that should find nothing
    #[arg(long, value_name = "FILE")]
    off_topic: Option<PathBuf>,
    /// Leave the large stores out
    #[arg(long)]
    no_scale: bool,
    /// Leave the quality of hits out
    #[arg(long)]
    no_quality: bool,
}

const ENTRIES: usize = 100_000;
const ORGS: usize = 100;
const TITLE_CHARS: usize = 120;
const BODY_CHARS: usize = 32_000;
const BATCH: usize = 32;

struct Set {
    name: String,
    /// Id, title, text.
    corpus: Vec<(String, String, String)>,
    /// Id, text.
    queries: Vec<(String, String)>,
    answers: HashMap<String, String>,
}

pub fn measure(
    args: &KnowledgeArgs,
    quick: bool,
    runtime: &Runtime,
    folder: &Path,
    say: &dyn Fn(&str),
) -> anyhow::Result<Vec<Figure>> {
    let sets = read_sets(&args.data)?;
    let off_topic: Vec<String> = match &args.off_topic {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            text.lines().map(str::to_owned).collect()
        }
        None => Vec::new(),
    };
    let embedder = match &args.model {
        Some(folder) => {
            let folder = ModelFolder::find(folder).map_err(|words| anyhow!(words))?;
            Some(Arc::new(ModelEmbedder::new(folder)) as Arc<dyn Embedder>)
        }
        None => None,
    };
    runtime.block_on(async {
        let mut figures = Vec::new();
        if !args.no_quality {
            figures.extend(quality(&sets, &off_topic, embedder.as_ref(), folder, say).await?);
        }
        if !args.no_scale {
            let entries = if quick { ENTRIES / 10 } else { ENTRIES };
            for (orgs, name) in [(ORGS, "100 orgs"), (1, "one org")] {
                say(&format!("searches among {entries} entries in {name}"));
                let bed = Bed::new(folder, &format!("knowledge-{orgs}")).await?;
                figures.extend(scale::scale(&bed, &sets, embedder.as_ref(), entries, orgs).await?);
            }
        }
        Ok(figures)
    })
}

fn read_sets(data: &Path) -> anyhow::Result<Vec<Set>> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(data)
        .with_context(|| format!("cannot read {}", data.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("corpus.jsonl").is_file())
        .collect();
    folders.sort();
    if folders.is_empty() {
        bail!("{} holds no folder with a corpus.jsonl", data.display());
    }
    folders.iter().map(|folder| read_set(folder)).collect()
}

fn read_set(folder: &Path) -> anyhow::Result<Set> {
    let lines = |name: &str| -> anyhow::Result<Vec<Value>> {
        let text = std::fs::read_to_string(folder.join(name))?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    };
    let field = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let qrels = std::fs::read_to_string(folder.join("qrels.tsv"))?;
    let answer = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        Some((fields.next()?, fields.next()?))
    };
    let document =
        |value: &Value| (field(value, "id"), field(value, "title"), field(value, "text"));
    Ok(Set {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        corpus: lines("corpus.jsonl")?.iter().map(document).collect(),
        queries: lines("queries.jsonl")?
            .iter()
            .map(|value| (field(value, "id"), field(value, "text")))
            .collect(),
        answers: qrels.lines().filter_map(answer).collect(),
    })
}

/// Stores the documents of a set as entries of an org; returns which entry is which document.
async fn fill(
    bed: &Bed,
    org: &str,
    documents: &[&(String, String, String)],
) -> anyhow::Result<HashMap<KnowledgeId, String>> {
    let store = bed.engine.store().clone();
    let home = store.settle(Place::of_org(org)).await?;
    let mut known = HashMap::new();
    let mut writes = JoinSet::new();
    for (id, title, text) in documents {
        let first = text.lines().next().unwrap_or_default();
        let title = if title.is_empty() { first } else { title };
        let text = if text.trim().is_empty() { title } else { text };
        let new = NewKnowledge {
            id: KnowledgeId(TimeOrderedIds.next_id()),
            title: title.chars().take(TITLE_CHARS).collect(),
            body: text.chars().take(BODY_CHARS).collect(),
            tags: Vec::new(),
            confidence: None,
        };
        known.insert(new.id, id.clone());
        let command = KnowledgeStore {
            new,
            expires_at: None,
            task: None,
            supersedes: None,
            over_quota: None,
        };
        let op = Op {
            org: home.org.clone(),
            actor: actor(0)?,
            tool: "bench",
            retry_key: None,
            policy: Arc::default(),
            command: Command::KnowledgeStore(command),
        };
        let store = store.clone();
        writes.spawn(async move { store.apply(op).await.map(|_| ()) });
        if writes.len() >= 64 {
            writes.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(written) = writes.join_next().await {
        written??;
    }
    Ok(known)
}

/// Some entries without a vector of the model, all of one org.
async fn waiting(
    store: &Arc<dyn Store>,
    model: &str,
    limit: usize,
) -> anyhow::Result<Vec<Unembedded>> {
    Ok(match store.knowledge_orgs_unembedded(model, 1).await?.pop() {
        Some(org) => store.knowledge_unembedded(&org, model, limit).await?,
        None => Vec::new(),
    })
}

/// Embeds all entries without a vector of the model; returns entries per second.
async fn embed(bed: &Bed, embedder: &Arc<dyn Embedder>) -> anyhow::Result<f64> {
    let (store, start, mut count) = (bed.engine.store(), Instant::now(), 0usize);
    loop {
        let waiting = waiting(store, embedder.model(), BATCH).await?;
        if waiting.is_empty() {
            return Ok(count as f64 / start.elapsed().as_secs_f64());
        }
        let texts = waiting.iter().map(|entry| format!("{}\n{}", entry.title, entry.body));
        let vectors = embedder.embed(texts.collect()).await?;
        count += waiting.len();
        let done = waiting.iter().zip(vectors).map(|(entry, vector)| Embedded {
            org: entry.org,
            number: entry.number,
            parts: vec![vector],
        });
        store.knowledge_vectors_put(embedder.model(), done.collect()).await?;
    }
}

async fn vector(
    embedder: Option<&Arc<dyn Embedder>>,
    text: &str,
) -> anyhow::Result<Option<QueryVector>> {
    let Some(embedder) = embedder else { return Ok(None) };
    let values = embedder.embed(vec![text.to_owned()]).await?.pop();
    let values = values.ok_or_else(|| anyhow!("no vector"))?;
    let (model, calibration) = (embedder.model().to_owned(), embedder.calibration());
    Ok(Some(QueryVector { model, values, calibration }))
}

#[derive(Default)]
struct Quality {
    ndcg: f64,
    right_in_three: usize,
    kept: usize,
    queries: usize,
    strangers: usize,
    let_in: usize,
}

async fn quality(
    sets: &[Set],
    off_topic: &[String],
    embedder: Option<&Arc<dyn Embedder>>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let bed = Bed::new(folder, "knowledge-quality").await?;
    let mut known = Vec::new();
    for set in sets {
        say(&format!("{}: {} documents", set.name, set.corpus.len()));
        known.push(fill(&bed, &set.name, &set.corpus.iter().collect::<Vec<_>>()).await?);
    }
    if let Some(embedder) = embedder {
        say("vectors of every document");
        figures.push(Figure::plain("entries embedded", embed(&bed, embedder).await?, "/s"));
    }
    let (mut words_sum, mut both_sum) = (0.0, 0.0);
    for (n, set) in sets.iter().enumerate() {
        let words = judge(&bed, set, &known[n], off_topic, None).await?;
        words_sum += words.ndcg;
        figures.extend(report(&set.name, "keyword", &words, false));
        if embedder.is_some() {
            let both = judge(&bed, set, &known[n], off_topic, embedder).await?;
            both_sum += both.ndcg;
            figures.extend(report(&set.name, "hybrid", &both, true));
        }
    }
    if both_sum > 0.0 {
        let share = words_sum / both_sum;
        let goal = Goal::AtLeast(0.9);
        figures.push(Figure::with("keyword against hybrid, mean nDCG@10", share, "x", goal));
    }
    Ok(figures)
}

async fn judge(
    bed: &Bed,
    set: &Set,
    known: &HashMap<KnowledgeId, String>,
    off_topic: &[String],
    embedder: Option<&Arc<dyn Embedder>>,
) -> anyhow::Result<Quality> {
    let mut quality = Quality::default();
    let ask = async |text: &str| -> anyhow::Result<_> {
        let query = KnowledgeQuery::of(set.name.as_str().into(), text);
        let query = KnowledgeQuery { vector: vector(embedder, text).await?, ..query };
        Ok(bed.engine.store().knowledge_search(query).await?)
    };
    for (id, text) in &set.queries {
        let hits = ask(text).await?;
        let right = set.answers.get(id);
        let rank = hits.iter().position(|hit| known.get(&hit.entry.id) == right);
        quality.queries += 1;
        if let Some(rank) = rank {
            quality.ndcg += 1.0 / (rank as f64 + 2.0).log2();
            if rank < 3 {
                quality.right_in_three += 1;
                quality.kept += usize::from(hits[rank].score >= 0.5);
            }
        }
    }
    quality.ndcg /= quality.queries as f64;
    for text in off_topic {
        let hits = ask(text).await?;
        quality.strangers += 1;
        quality.let_in += usize::from(hits.first().is_some_and(|hit| hit.score >= 0.5));
    }
    Ok(quality)
}

/// Leaks a name: there are only a few for each set.
fn named(name: String) -> &'static str {
    name.leak()
}

fn report(set: &str, mode: &str, quality: &Quality, judged: bool) -> Vec<Figure> {
    let figure = |what: &str, value: f64, unit, goal: Goal| {
        let name = named(format!("{set}, {mode}: {what}"));
        if judged {
            Figure::with(name, value, unit, goal)
        } else {
            Figure::plain(name, value, unit)
        }
    };
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let kept = share(quality.kept, quality.right_in_three);
    let mut figures = vec![
        Figure::plain(named(format!("{set}, {mode}: nDCG@10")), quality.ndcg, ""),
        figure("right top-3 hits kept at 0.5", kept, "%", Goal::AtLeast(90.0)),
    ];
    if quality.strangers > 0 {
        let let_in = share(quality.let_in, quality.strangers);
        let what = "off-topic queries with a hit at 0.5";
        figures.push(figure(what, let_in, "%", Goal::AtMost(3.0)));
    }
    figures
}
