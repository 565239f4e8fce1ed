//! Durable claims: in process compared with the disk, over stdio compared with in process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::baseline;
use super::bed::{Bed, actor, context};
use super::peer::Peer;
use super::{Figure, Goal, Scale, micros, percentile};

const CLIENTS: usize = 64;

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let raw_before = baseline::raw_syncs_per_s(folder, scale.raw_for)?;
    // One thread for the 64 clients, as in `callboard mcp`; the writer's thread is the other.
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let in_process = one_thread.block_on(in_process(folder, scale.claims))?;
    let raw_after = baseline::raw_syncs_per_s(folder, scale.raw_for)?;
    let over_stdio = over_stdio(runtime, folder, scale.claims)?;
    let raw = (raw_before + raw_after) / 2.0;

    let mut bare = baseline::bare_claims(folder, scale.single_claims)?;
    let mut alone = one_thread.block_on(single_in_process(folder, scale.single_claims))?;
    let mut single = single_over_stdio(runtime, folder, scale.single_claims)?;
    let p50 = |times: &mut Vec<Duration>| {
        times.sort();
        micros(percentile(times, 0.5))
    };
    let (bare, alone, single) = (p50(&mut bare), p50(&mut alone), p50(&mut single));
    Ok(vec![
        Figure::plain("raw 4 KiB overwrite + fdatasync", raw, "/s"),
        Figure::plain("durable claims, 64 clients in process", in_process, "/s"),
        Figure::with("the same against raw", in_process / raw, "x", Goal::AtLeast(2.5)),
        Figure::plain("durable claims, 64 in flight over one stdio", over_stdio, "/s"),
        Figure::with(
            "the same against in process",
            over_stdio / in_process,
            "x",
            Goal::AtLeast(0.7),
        ),
        Figure::plain("one claim on a bare SQLite connection, p50", bare, "us"),
        Figure::plain("one claim in process, p50", alone, "us"),
        Figure::plain("one claim over stdio, p50", single, "us"),
        Figure::with("the same above the bare claim", single - bare, "us", Goal::AtMost(250.0)),
    ])
}

async fn in_process(folder: &Path, count: usize) -> anyhow::Result<f64> {
    let bed = Bed::new(folder, "in-process").await?;
    let tasks = Arc::new(bed.tasks(count).await?);
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (engine, tasks, op) = (bed.engine.clone(), tasks.clone(), context(&actor(client)?));
        clients.spawn(async move {
            for task in tasks.iter().skip(client).step_by(CLIENTS) {
                engine.task_claim(&op, *task).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn over_stdio(runtime: &Runtime, folder: &Path, count: usize) -> anyhow::Result<f64> {
    let bed = runtime.block_on(Bed::new(folder, "stdio"))?;
    let tasks = runtime.block_on(bed.tasks(count))?;
    let mut peer = Peer::start(&bed.folder, "agent:bench")?;
    let start = Instant::now();
    let mut sent = tasks.iter().enumerate();
    for (number, task) in sent.by_ref().take(CLIENTS) {
        peer.send_claim(number + 1, task)?;
    }
    for _ in 0..count {
        anyhow::ensure!(peer.receive_claim()?, "a free task was refused");
        if let Some((number, task)) = sent.next() {
            peer.send_claim(number + 1, task)?;
        }
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

async fn single_in_process(folder: &Path, count: usize) -> anyhow::Result<Vec<Duration>> {
    let bed = Bed::new(folder, "single-in-process").await?;
    let tasks = bed.tasks(count).await?;
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(count);
    for task in tasks {
        let start = Instant::now();
        bed.engine.task_claim(&op, task).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

fn single_over_stdio(
    runtime: &Runtime,
    folder: &Path,
    count: usize,
) -> anyhow::Result<Vec<Duration>> {
    let bed = runtime.block_on(Bed::new(folder, "single"))?;
    let tasks = runtime.block_on(bed.tasks(count))?;
    let mut peer = Peer::start(&bed.folder, "agent:bench")?;
    let mut times = Vec::with_capacity(count);
    for (number, task) in tasks.iter().enumerate() {
        let start = Instant::now();
        peer.send_claim(number + 1, task)?;
        anyhow::ensure!(peer.receive_claim()?, "a free task was refused");
        times.push(start.elapsed());
    }
    Ok(times)
}
