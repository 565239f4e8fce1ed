//! Many waits over HTTP, each on a connection of its own: what they cost a client that reads meanwhile, and how soon a
//! wait is answered after a commit of another process.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use callboard_domain::ids::TaskId;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::bed::{Bed, Site, actor, context};
use super::start::memory_kb;
use super::wake::p99_ms;
use super::web::Served;
use super::{Figure, Goal, Scale, micros, percentile};

/// Measure waits of the board over HTTP, and reads among them
///
/// With --store postgres://… on that database, in a schema of its own that is dropped afterwards.
#[derive(clap::Args, Debug)]
pub struct WaitsArgs {}

/// How long the server may take to register all waits, and a wait to be answered.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The index of a wait, the time of its answer, and the answer.
type Answered = (usize, Instant, String);

pub fn measure(
    runtime: &Runtime,
    folder: &Path,
    site: Option<&Site>,
    scale: Scale,
) -> anyhow::Result<Vec<Figure>> {
    let bed = runtime.block_on(Bed::on(folder, "waits", site))?;
    let tasks = runtime.block_on(bed.tasks(scale.waits))?;
    let server = Served::start(&bed.folder)?;
    let mut before = reads(&server, &tasks, scale)?;
    let memory_before = memory_kb(server.id(), "VmRSS:")?;
    let (mut waiting, mut answers) = runtime.block_on(wait_for_all(&server, &tasks, false))?;
    let memory = memory_kb(server.id(), "VmRSS:")? - memory_before;
    let mut during = reads(&server, &tasks, scale)?;
    let looks = async || server.metric("callboard_wait_looks_total").await;
    let looks_before = runtime.block_on(looks())?;
    let mut woken = runtime.block_on(wake(&bed, &tasks, &mut answers, scale))?;
    let looks = runtime.block_on(looks())? - looks_before;
    waiting.abort_all();
    runtime.block_on(async { while waiting.join_next().await.is_some() {} });
    // The machine may have become slower or faster meanwhile.
    before.extend(reads(&server, &tasks, scale)?);
    runtime.block_on(hand_over(&server, &tasks))?;
    let mut behind = reads(&server, &tasks, scale)?;
    [&mut before, &mut during, &mut behind].into_iter().for_each(|times| times.sort());
    let at = |times: &[Duration], share| micros(percentile(times, share));
    let ratio = |times: &[Duration], share| at(times, share) / at(&before, share);
    Ok(vec![
        Figure::plain("waits over HTTP", scale.waits as f64, ""),
        Figure::plain("memory of the server, per wait", memory / scale.waits as f64, "kB"),
        Figure::plain("get_task over HTTP, nobody waits, p50", at(&before, 0.5), "us"),
        Figure::plain("get_task over HTTP, nobody waits, p99", at(&before, 0.99), "us"),
        Figure::plain("get_task among the waits, p50", at(&during, 0.5), "us"),
        Figure::plain("get_task among the waits, p99", at(&during, 0.99), "us"),
        Figure::with("the same against nobody, p50", ratio(&during, 0.5), "x", Goal::AtMost(2.0)),
        Figure::with("the same against nobody, p99", ratio(&during, 0.99), "x", Goal::AtMost(2.0)),
        Figure::plain("get_task among waits behind handles, p50", at(&behind, 0.5), "us"),
        Figure::plain("get_task among waits behind handles, p99", at(&behind, 0.99), "us"),
        Figure::with("the same against nobody, p50", ratio(&behind, 0.5), "x", Goal::AtMost(2.0)),
        Figure::with("the same against nobody, p99", ratio(&behind, 0.99), "x", Goal::AtMost(2.0)),
        Figure::with(
            "waits that look again for one change",
            looks / scale.wakes as f64,
            "",
            Goal::AtMost(1.0),
        ),
        Figure::with(
            "commit to answered tasks_wait, other process, p99",
            p99_ms(&mut woken),
            "ms",
            Goal::AtMost(10.0),
        ),
    ])
}

/// The time of each read of one client, one after another. The client has a thread of its own, as another program
/// would.
fn reads(server: &Served, tasks: &[TaskId], scale: Scale) -> anyhow::Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut line = server.connect().await?;
        let mut times = Vec::with_capacity(scale.reads);
        for n in 0..scale.reads {
            let task = tasks[n * 7919 % tasks.len()].to_string();
            let request = server.call("get_task", &json!({"task_id": task}), false);
            let start = Instant::now();
            let answer = line.ask(&request).await?;
            times.push(start.elapsed());
            ensure!(answer.contains("updated_at"), "unexpected answer: {answer}");
        }
        Ok(times)
    })
}

/// Starts one wait per task; returns when the server has registered all.
async fn wait_for_all(
    server: &Served,
    tasks: &[TaskId],
    takes_tasks: bool,
) -> anyhow::Result<(JoinSet<()>, mpsc::UnboundedReceiver<Answered>)> {
    let (answered, answers) = mpsc::unbounded_channel();
    let mut waiting = JoinSet::new();
    for (index, task) in tasks.iter().enumerate() {
        let request = server.call("tasks_wait", &json!({"task_id": task.to_string()}), takes_tasks);
        let (mut line, answered) = (server.connect().await?, answered.clone());
        waiting.spawn(async move {
            let text = line.ask(&request).await.unwrap_or_else(|error| error.to_string());
            // No receiver is left: the measurement is over.
            let _ = answered.send((index, Instant::now(), text));
        });
    }
    let all_wait = async {
        while server.metric("callboard_waits").await? < tasks.len() as f64 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, all_wait)
        .await
        .context("the server does not hear all waits")??;
    Ok((waiting, answers))
}

/// As `wait_for_all`, for clients that accept a task as the answer; returns when each has got one and has hung up.
async fn hand_over(server: &Served, tasks: &[TaskId]) -> anyhow::Result<()> {
    let (waiting, mut answers) = wait_for_all(server, tasks, true).await?;
    for _ in tasks {
        let answer = tokio::time::timeout(PATIENCE, answers.recv()).await?;
        let (_, _, text) = answer.context("nobody waits any more")?;
        ensure!(text.contains(r#""resultType":"task""#), "unexpected answer: {text}");
    }
    drop(waiting);
    Ok(())
}

/// Moves tasks in this process, one after another, and measures until the waits in the server are answered.
async fn wake(
    bed: &Bed,
    tasks: &[TaskId],
    answers: &mut mpsc::UnboundedReceiver<Answered>,
    scale: Scale,
) -> anyhow::Result<Vec<Duration>> {
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(scale.wakes);
    for n in 0..scale.wakes {
        let index = n * 7919 % tasks.len();
        bed.engine.task_transition(&op, tasks[index], "in_progress".into()).await?;
        let committed = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, answers.recv()).await?;
        let (woken, at, text) = answer.context("nobody waits any more")?;
        ensure!(woken == index, "the wrong wait was answered: {text}");
        ensure!(text.contains("TASK_CHANGED"), "unexpected answer: {text}");
        times.push(at.saturating_duration_since(committed));
    }
    Ok(times)
}
