//! The queue of jobs for agents alone: how fast jobs are submitted, and how fast they run when the agent does nothing, in
//! this process or in a process of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use callboard_domain::event::EventName;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{FailReason, JobSpec, Problem, RunVerdict};
use callboard_engine::ports::{AgentRunner, Asks, RunOrder, RunReport};
use callboard_engine::{Alert, Engine, RunRule};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::baseline;
use super::bed::{Bed, Site, actor, context};
use super::{Figure, Goal, Scale};

/// Measure jobs for agents: submitted, leased and ended
///
/// With --store postgres://… on that database, in a schema of its own that is dropped afterwards.
#[derive(clap::Args, Debug)]
pub struct JobsArgs {
    /// How many jobs (default: 10000, with --quick 2000)
    #[arg(long)]
    count: Option<usize>,
}

const CLIENTS: usize = 64;
/// Jobs that run at a time: enough that the store always has several writes to group.
const PLACES: u32 = 64;
/// How many jobs start a process: each costs as much as dozens of jobs without a process.
const STARTED: usize = 300;

pub fn measure(folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let (raw, rates) = beside_raw(folder, scale, |folder| {
        one_thread(rates(folder, None, "idle", Arc::new(Idle), scale.jobs))
    })?;
    Ok(vec![
        Figure::plain("durable submits of jobs, 64 clients in process", rates.submits, "/s"),
        Figure::plain("submits of jobs against raw", rates.submits / raw, "x"),
        Figure::plain("jobs through the queue, an agent that does nothing", rates.ends, "/s"),
        Figure::with("jobs through the queue against raw", rates.ends / raw, "x", GOAL),
    ])
}

/// Ten times the rate of leases that were taken one at a time.
const GOAL: Goal = Goal::AtLeast(1.0);

/// `callboard bench jobs`: the same at any count, on either database, and with a process for each job.
pub fn measure_alone(
    folder: &Path,
    site: Option<&Site>,
    args: &JobsArgs,
    quick: bool,
) -> anyhow::Result<Vec<Figure>> {
    let scale = Scale::of(quick);
    let count = args.count.unwrap_or(if quick { 2_000 } else { 10_000 });
    let (raw, idle) = beside_raw(folder, scale, |folder| {
        one_thread(rates(folder, site, "idle", Arc::new(Idle), count))
    })?;
    let started =
        one_thread(rates(folder, site, "started", Arc::new(Started), count.min(STARTED)))?;
    let whole = 1.0 / (1.0 / idle.submits + 1.0 / idle.ends);
    Ok(vec![
        Figure::plain("raw 4 KiB overwrite + fdatasync", raw, "/s"),
        Figure::plain("jobs", count as f64, ""),
        Figure::plain("jobs added", idle.submits, "/s"),
        Figure::plain("jobs added against raw", idle.submits / raw, "x"),
        Figure::plain("jobs taken and finished", idle.ends, "/s"),
        Figure::with("jobs taken and finished against raw", idle.ends / raw, "x", GOAL),
        Figure::plain("jobs added, taken and finished", whole, "/s"),
        Figure::plain("jobs taken and finished, a process for each", started.ends, "/s"),
    ])
}

/// Measures between two looks at the disk, whose speed changes from minute to minute.
fn beside_raw(
    folder: &Path,
    scale: Scale,
    measure: impl FnOnce(&Path) -> anyhow::Result<Rates>,
) -> anyhow::Result<(f64, Rates)> {
    let before = baseline::raw_syncs_per_s(folder, scale.raw_for)?;
    let rates = measure(folder)?;
    Ok(((before + baseline::raw_syncs_per_s(folder, scale.raw_for)?) / 2.0, rates))
}

/// One thread, as for the claims.
fn one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

struct Rates {
    submits: f64,
    /// Jobs per second, each with a lease, a log and an end.
    ends: f64,
}

async fn rates(
    folder: &Path,
    site: Option<&Site>,
    what: &'static str,
    agents: Arc<dyn AgentRunner>,
    count: usize,
) -> anyhow::Result<Rates> {
    let rule = RunRule { running_max: PLACES, open_max: u32::MAX, ..RunRule::default() };
    // Each measurement of a folder has a database of its own.
    let name = format!("jobs-{what}");
    let bed = Bed::with_agents(folder, &name, site, agents, rule).await?;
    let per_s = |start: Instant| count as f64 / start.elapsed().as_secs_f64();

    let start = Instant::now();
    submit(&bed.engine, what, count).await?;
    let submits = per_s(start);

    let mut feed = bed.engine.run_feed(None).await?;
    let stop = CancellationToken::new();
    let start = Instant::now();
    let working = tokio::spawn(bed.engine.clone().run_agents_until(stop.clone(), Alert::Own));
    let mut ended = 0;
    while ended < count {
        let event = feed.next().await.ok_or_else(|| anyhow::anyhow!("the feed ended"))?;
        anyhow::ensure!(event.name != EventName::JobFailed, "a job failed: {}", event.data);
        ended += usize::from(event.name == EventName::JobSucceeded);
    }
    let ends = per_s(start);
    stop.cancel();
    working.await?;
    Ok(Rates { submits, ends })
}

async fn submit(engine: &Arc<Engine>, what: &'static str, count: usize) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (engine, op) = (engine.clone(), context(&actor(client)?));
        clients.spawn(async move {
            for n in (client..count).step_by(CLIENTS) {
                engine.run_submit(&op, spec(what, n)?).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

pub fn spec(what: &str, number: usize) -> serde_json::Result<JobSpec> {
    serde_json::from_value(json!({
        "repo": {
            "type": "git",
            "url": "https://git.example.org/shop/site.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": format!("job {number}"), "description": "Nothing.", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "none",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 86_400,
        },
        "idempotencyKey": format!("{what} job {number}"),
    }))
}

fn nothing() -> RunReport {
    RunReport {
        verdict: RunVerdict::Succeeded,
        summary: "Completed successfully with 0 line diff".into(),
        patch: None,
        out: None,
        logs: "nothing\n".into(),
        usage: None,
    }
}

/// An agent that has nothing to do.
struct Idle;

#[async_trait]
impl AgentRunner for Idle {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    async fn run(&self, _: RunOrder, _: Arc<dyn Asks>, _: CancellationToken) -> RunReport {
        nothing()
    }

    async fn clean_up(&self) {}
}

/// An agent that is a process with nothing to do: what every real agent costs at least.
struct Started;

#[async_trait]
impl AgentRunner for Started {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    #[allow(clippy::disallowed_methods, reason = "the benchmark starts the cheapest process")]
    async fn run(&self, _: RunOrder, _: Arc<dyn Asks>, _: CancellationToken) -> RunReport {
        let ended = tokio::process::Command::new("true").status().await;
        let verdict = match ended {
            Ok(status) if status.success() => RunVerdict::Succeeded,
            _ => RunVerdict::Failed(FailReason::InternalError),
        };
        RunReport { verdict, ..nothing() }
    }

    async fn clean_up(&self) {}
}
