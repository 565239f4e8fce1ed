//! The pages of the board over HTTP, on a few tasks and on very many; and the builder of such a board, which the browser
//! lane uses too.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use callboard_domain::command::NewCheck;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_engine::context::OpContext;
use callboard_engine::{Engine, TaskDraft};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::bed::{Bed, Site, actor, context};
use super::web::Served;
use super::{Figure, Goal, Scale, percentile};

/// Measure the pages of the board over HTTP, on 200 open tasks and on 100,000
///
/// The pages are those of a reader who did not sign in, without forms. With --store postgres://… on that database, in a schema of its own that is dropped afterwards.
#[derive(clap::Args, Debug)]
pub struct BoardArgs {}

/// Three quarters of them are open, so that the small board has 200 open tasks.
const FEW: usize = 267;
const LOOKS: usize = 20;
const EPICS: usize = 50;
/// Tasks that others wait for.
const ROOTS: usize = 100;
const MAKERS: usize = 64;
/// Tasks of one transaction.
const BATCH: usize = 100;

/// The pages with their names among the figures, those of few tasks and those of many.
const PAGES: &[(&str, &str, &str)] = &[
    ("/", "inbox of 200 open tasks, p50", "inbox of many tasks, p50"),
    ("/board", "board of 200 open tasks, p50", "board of many tasks, p50"),
    (
        "/board?q=parser",
        "filtered board of 200 open tasks, p50",
        "filtered board of many tasks, p50",
    ),
    ("/search?q=parser", "search in 200 open tasks, p50", "search in many tasks, p50"),
    ("/graph", "graph of 200 open tasks, p50", "graph of many tasks, p50"),
    ("/agents", "agents with 200 open tasks, p50", "agents with many tasks, p50"),
    ("/audit", "audit of 200 open tasks, p50", "audit of many tasks, p50"),
    ("/stats", "metrics of 200 open tasks, p50", "metrics of many tasks, p50"),
    ("/jobs", "jobs with 200 open tasks, p50", "jobs with many tasks, p50"),
];

pub fn measure(
    runtime: &Runtime,
    folder: &Path,
    site: Option<&Site>,
    scale: Scale,
) -> anyhow::Result<Vec<Figure>> {
    // A shared database is one board: the many tasks join the few.
    let bed = runtime.block_on(Bed::on(folder, "board", site))?;
    let op = context(&actor(0)?);
    runtime.block_on(fill(&bed.engine, &op, FEW))?;
    let server = Served::start(&bed.folder)?;
    let few = runtime.block_on(looks(&server))?;
    let start = Instant::now();
    runtime.block_on(fill(&bed.engine, &op, scale.board_tasks - FEW))?;
    let filled = (scale.board_tasks - FEW) as f64 / start.elapsed().as_secs_f64();
    let many = runtime.block_on(looks(&server))?;
    let mut figures = vec![Figure::plain("tasks of the large board", scale.board_tasks as f64, "")];
    figures.push(Figure::plain("tasks made", filled, "/s"));
    let goals = [(few, 50.0), (many, 1000.0)];
    for (is_many, (times, goal)) in goals.into_iter().enumerate() {
        for ((_, of_few, of_many), time) in PAGES.iter().zip(times) {
            let name = if is_many == 0 { of_few } else { of_many };
            let time_ms = time.as_secs_f64() * 1e3;
            figures.push(Figure::with(*name, time_ms, "ms", Goal::AtMost(goal)));
        }
    }
    Ok(figures)
}

/// The median time of each page, from the request to the last byte.
async fn looks(server: &Served) -> anyhow::Result<Vec<Duration>> {
    let mut line = server.connect().await?;
    let mut medians = Vec::new();
    for (path, ..) in PAGES {
        let request = server.page(path);
        let mut times = Vec::with_capacity(LOOKS);
        for _ in 0..LOOKS {
            let start = Instant::now();
            let page = line.ask(&request).await?;
            times.push(start.elapsed());
            ensure!(page.contains("</html>"), "{path} is no page: {page:.200}");
        }
        times.sort();
        medians.push(percentile(&times, 0.5));
    }
    Ok(medians)
}

/// Makes tasks in every state: half of them blocked, a quarter closed, some in review, and the rest ready.
pub async fn fill(engine: &Arc<Engine>, op: &OpContext, count: usize) -> anyhow::Result<()> {
    let mut epics = Vec::new();
    for n in 0..EPICS.min(count / 20) {
        let draft = TaskDraft { is_plan: true, ..titled(format!("Release {n}")) };
        epics.push(engine.task_create(op, draft).await?.it.task.id);
    }
    let mut roots = Vec::new();
    for n in 0..ROOTS.min(count / 10) {
        let draft = TaskDraft { priority: Some(0), ..titled(format!("Foundation {n}")) };
        roots.push(engine.task_create(op, draft).await?.it.task.id);
    }
    let left = count - epics.len() - roots.len();
    let (epics, roots) = (Arc::new(epics), Arc::new(roots));
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let (engine, op) = (engine.clone(), op.clone());
        let (epics, roots) = (epics.clone(), roots.clone());
        makers.spawn(async move {
            let all: Vec<usize> = (maker..left).step_by(MAKERS).collect();
            for batch in all.chunks(BATCH) {
                let drafts = batch.iter().map(|n| draft(*n, &epics, &roots)).collect();
                engine.task_create_all(&op, drafts).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

fn draft(n: usize, epics: &[TaskId], roots: &[TaskId]) -> TaskDraft {
    const PARTS: &[&str] = &["parser", "printer", "index", "cache", "report", "login", "export"];
    const DEEDS: &[&str] = &["Speed up", "Rewrite", "Test", "Document", "Split", "Measure"];
    let of = |parts: &[&'static str], n: usize| parts.get(n % parts.len()).copied().unwrap_or("");
    let title = format!("{} the {} of module {n}", of(DEEDS, n / 7), of(PARTS, n));
    let phase = match n % 20 {
        14..=18 => Phase::ClosedDone,
        19 if n % 100 == 19 => Phase::Review,
        _ => Phase::Initial,
    };
    let dep = (n % 20 < 10).then(|| roots.get(n % roots.len().max(1))).flatten();
    let check = |desc: &str, cmd: Option<&str>| NewCheck {
        desc: desc.into(),
        cmd: cmd.map(str::to_owned),
        manual: cmd.is_none(),
        ..NewCheck::default()
    };
    let has_checks = n.is_multiple_of(5) && phase != Phase::ClosedDone;
    let checks = match has_checks {
        true => vec![check("tests", Some("cargo test")), check("reads well", None)],
        false => Vec::new(),
    };
    TaskDraft {
        body: "A change of this kind has two or three sentences of intent. They name the module, \
               the behaviour that a user sees, and the limit that must hold afterwards."
            .into(),
        priority: Some(u16::try_from(n % 4).unwrap_or_default()),
        parent: (n % 10 == 3).then(|| epics.get(n % epics.len().max(1)).copied()).flatten(),
        deps: dep.copied().into_iter().collect(),
        checks,
        phase: Some(phase),
        ..titled(title)
    }
}

fn titled(title: String) -> TaskDraft {
    TaskDraft { title, ..TaskDraft::default() }
}
