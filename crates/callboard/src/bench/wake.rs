//! From a commit to the answer of whoever waits for it, among ten thousand who wait for others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::bed::{Bed, actor, context};
use super::peer::Peer;
use super::{Figure, Goal, Scale, percentile};

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut same = runtime.block_on(in_process(folder, scale))?;
    let mut other = across_processes(runtime, folder, scale)?;
    same.sort();
    other.sort();
    let ms = |sorted: &[Duration]| percentile(sorted, 0.99).as_secs_f64() * 1e3;
    Ok(vec![
        Figure::plain("waits registered", scale.waiters as f64, ""),
        Figure::with(
            "commit to answered wait, same process, p99",
            ms(&same),
            "ms",
            Goal::AtMost(2.0),
        ),
        Figure::with(
            "commit to answered wait, other process, p99",
            ms(&other),
            "ms",
            Goal::AtMost(10.0),
        ),
    ])
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
    let waiting = wait_for_all(&bed, &tasks, move |_| {
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
    bed: &Bed,
    tasks: &[TaskId],
    woken: impl Fn(usize) + Send + Sync + 'static,
) -> anyhow::Result<tokio::task::JoinSet<()>> {
    let woken = Arc::new(woken);
    let mut waiting = tokio::task::JoinSet::new();
    for (index, task) in tasks.iter().enumerate() {
        let (watch, woken) = (bed.engine.task_watch(*task).await?, woken.clone());
        waiting.spawn(async move {
            loop {
                watch.changed().await;
                woken(index);
            }
        });
    }
    Ok(waiting)
}

fn across_processes(
    runtime: &Runtime,
    folder: &Path,
    scale: Scale,
) -> anyhow::Result<Vec<Duration>> {
    let bed = runtime.block_on(Bed::new(folder, "wake-across"))?;
    let tasks = runtime.block_on(bed.tasks(scale.waiters))?;
    let mut waiter =
        Peer::spawn(&bed.folder, &["bench-waiter", &bed.folder.display().to_string()])?;
    for task in &tasks {
        waiter.send(&task.to_string())?;
    }
    waiter.send("")?;
    anyhow::ensure!(waiter.receive()?.trim() == "ready", "the waiting process is not ready");
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(scale.wakes);
    for n in 0..scale.wakes {
        let index = n * 7919 % tasks.len();
        runtime.block_on(bed.engine.task_note(&op, tasks[index], format!("wake {n}")))?;
        let committed = machine_ns();
        let answer = waiter.receive()?;
        let (woken, at) = answer.trim().split_once(' ').unwrap_or_default();
        anyhow::ensure!(woken.parse() == Ok(index), "the wrong waiter woke");
        times.push(Duration::from_nanos(at.parse::<u64>()?.saturating_sub(committed)));
    }
    Ok(times)
}

#[derive(clap::Args, Debug)]
pub struct WaiterArgs {
    folder: PathBuf,
}

/// The other process: reads ids, waits for all of them, prints who woke and when.
pub fn cmd_waiter(
    args: &WaiterArgs,
    print: impl Fn(&str) + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let tasks: Vec<TaskId> = std::io::stdin()
        .lines()
        .map_while(Result::ok)
        .map_while(|line| line.parse().ok())
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bed = Bed::open(args.folder.clone()).await?;
        let print = Arc::new(print);
        let say = print.clone();
        let woken = move |index| say(&format!("{index} {}", machine_ns()));
        let mut waiting = wait_for_all(&bed, &tasks, woken).await?;
        print("ready");
        waiting.join_next().await;
        Ok(())
    })
}
