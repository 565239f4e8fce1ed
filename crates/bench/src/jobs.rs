//! The queue of jobs for agents alone: how fast jobs are submitted, and how fast they run when the agent does nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use callboard_domain::event::EventName;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, RunVerdict};
use callboard_engine::ports::{AgentRunner, Asks, RunOrder, RunReport};
use callboard_engine::{Alert, Engine, RunRule};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::baseline;
use super::bed::{Bed, actor, context};
use super::{Figure, Scale};

const CLIENTS: usize = 64;
/// Jobs that run at a time: enough that the store always has several writes to group.
const PLACES: u32 = 64;

pub fn measure(folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    // One thread, as for the claims.
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = baseline::raw_syncs_per_s(folder, scale.raw_for)?;
    let rates = one_thread.block_on(rates(folder, scale.jobs))?;
    let raw = (before + baseline::raw_syncs_per_s(folder, scale.raw_for)?) / 2.0;
    Ok(vec![
        Figure::plain("durable submits of jobs, 64 clients in process", rates.submits, "/s"),
        Figure::plain("submits of jobs against raw", rates.submits / raw, "x"),
        Figure::plain("jobs through the queue, an agent that does nothing", rates.ends, "/s"),
        Figure::plain("jobs through the queue against raw", rates.ends / raw, "x"),
    ])
}

struct Rates {
    submits: f64,
    /// Jobs per second, each with a lease, a log and an end.
    ends: f64,
}

async fn rates(folder: &Path, count: usize) -> anyhow::Result<Rates> {
    let rule = RunRule { running_max: PLACES, open_max: u32::MAX, ..RunRule::default() };
    let bed = Bed::with_agents(folder, "jobs", Arc::new(Idle), rule).await?;
    let per_s = |start: Instant| count as f64 / start.elapsed().as_secs_f64();

    let start = Instant::now();
    submit(&bed.engine, count).await?;
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

async fn submit(engine: &Arc<Engine>, count: usize) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (engine, op) = (engine.clone(), context(&actor(client)?));
        clients.spawn(async move {
            for n in (client..count).step_by(CLIENTS) {
                engine.run_submit(&op, spec(n)?).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

fn spec(number: usize) -> serde_json::Result<JobSpec> {
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
        "idempotencyKey": format!("job {number}"),
    }))
}

/// An agent that has nothing to do.
struct Idle;

#[async_trait]
impl AgentRunner for Idle {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    async fn run(&self, _: RunOrder, _: Arc<dyn Asks>, _: CancellationToken) -> RunReport {
        RunReport {
            verdict: RunVerdict::Succeeded,
            summary: "Completed successfully with 0 line diff".into(),
            patch: None,
            out: None,
            logs: "nothing\n".into(),
            usage: None,
        }
    }

    async fn clean_up(&self) {}
}
