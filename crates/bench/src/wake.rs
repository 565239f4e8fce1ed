//! From a commit to the answer of the wait for it, among ten thousand waits for other tasks.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use callboard_engine::Engine;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::bed::{self, Bed, Site, actor, context};
use super::peer::Peer;
use super::{Figure, Goal, Scale, percentile};

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut same = runtime.block_on(in_process(folder, scale))?;
    let bed = runtime.block_on(Bed::new(folder, "wake-across"))?;
    let site = Site::Folder(bed.folder.clone());
    let mut other = across_processes(runtime, folder, &site, &bed.engine, scale)?;
    Ok(vec![
        Figure::plain("waits registered", scale.waiters as f64, ""),
        Figure::with(
            "commit to answered wait, same process, p99",
            p99_ms(&mut same),
            "ms",
            Goal::AtMost(2.0),
        ),
        Figure::with(
            "commit to answered wait, other process, p99",
            p99_ms(&mut other),
            "ms",
            Goal::AtMost(10.0),
        ),
    ])
}

pub fn p99_ms(times: &mut [Duration]) -> f64 {
    times.sort();
    percentile(times, 0.99).as_secs_f64() * 1e3
}

/// Nanoseconds on a clock that all processes of the machine share.
fn machine_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

async fn in_process(folder: &Path, scale: Scale) -> anyhow::Result<Vec<Duration>> {
    let bed = Bed::new(folder, "wake").await?;
    let tasks = bed.tasks(scale.waiters).await?;
    let (woke, mut wakes) = mpsc::unbounded_channel();
    let waiting = wait_for_all(&bed.engine, &tasks, move |_| {
        let _ = woke.send(Instant::now());
    })
    .await?;
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(scale.wakes);
    for n in 0..scale.wakes {
        let task = tasks[n * 7919 % tasks.len()];
        bed.engine.task_note(&op, task, format!("wake {n}")).await?;
        let committed = Instant::now();
        let woken = wakes.recv().await.unwrap_or(committed);
        times.push(woken.saturating_duration_since(committed));
    }
    drop(waiting);
    Ok(times)
}

/// One waiting task per board task; each calls `woken` with its index whenever its task changes.
async fn wait_for_all(
    engine: &Engine,
    tasks: &[TaskId],
    woken: impl Fn(usize) + Send + Sync + 'static,
) -> anyhow::Result<tokio::task::JoinSet<()>> {
    let woken = Arc::new(woken);
    let mut waiting = tokio::task::JoinSet::new();
    for (index, task) in tasks.iter().enumerate() {
        let (watch, woken) = (engine.task_watch(*task).await?, woken.clone());
        waiting.spawn(async move {
            loop {
                watch.changed().await;
                woken(index);
            }
        });
    }
    Ok(waiting)
}

/// Commits in this process, waits in another.
pub fn across_processes(
    runtime: &Runtime,
    folder: &Path,
    site: &Site,
    engine: &Arc<Engine>,
    scale: Scale,
) -> anyhow::Result<Vec<Duration>> {
    let tasks = runtime.block_on(bed::tasks(engine, scale.waiters))?;
    let mut waiter = Peer::spawn(folder, &["bench-waiter"])?;
    waiter.send(&site.to_string())?;
    for task in &tasks {
        waiter.send(&task.to_string())?;
    }
    waiter.send("")?;
    anyhow::ensure!(waiter.receive()?.trim() == "ready", "the waiting process is not ready");
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(scale.wakes);
    for n in 0..scale.wakes {
        let index = n * 7919 % tasks.len();
        runtime.block_on(engine.task_note(&op, tasks[index], format!("wake {n}")))?;
        let committed = machine_ns();
        let answer = waiter.receive()?;
        let (woken, at) = answer.trim().split_once(' ').unwrap_or_default();
        anyhow::ensure!(woken.parse() == Ok(index), "the wrong waiter woke");
        times.push(Duration::from_nanos(at.parse::<u64>()?.saturating_sub(committed)));
    }
    Ok(times)
}

/// The other process: reads its site and the ids, waits for all of them, prints which one woke and when.
pub fn cmd_waiter(print: impl Fn(&str) + Send + Sync + 'static) -> anyhow::Result<()> {
    let (site, mut lines) = super::peer::told()?;
    let tasks: Vec<TaskId> = super::peer::ids(&mut lines);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = Bed::join(&site).await?;
        let print = Arc::new(print);
        let say = print.clone();
        let woken = move |index| say(&format!("{index} {}", machine_ns()));
        let mut waiting = wait_for_all(&engine, &tasks, woken).await?;
        print("ready");
        waiting.join_next().await;
        Ok(())
    })
}
