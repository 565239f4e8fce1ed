//! A server process under a steady load, and one that asks for work beside it. `scripts/bench-postgres
//! --held-snapshot` starts both and holds a snapshot meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use callboard_domain::ids::TaskId;
use callboard_engine::{AsWork, Engine, TaskFilter};
use serde_json::json;

use super::bed::{Bed, actor, context, tasks};
use super::peer;

/// How often the asking process asks.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Tasks of a list, as of graph's `list`, and of the next ones.
const LIST: usize = 51;
const NEXT: usize = 10;

/// What a process does: `asks`, or `loads CLIENTS CLAIMS_A_SECOND TASKS`.
enum Part {
    Asks,
    Loads { clients: usize, rate: f64, tasks: usize },
}

fn part(words: &str) -> anyhow::Result<Part> {
    let words: Vec<&str> = words.split(' ').collect();
    match words[..] {
        ["asks"] => Ok(Part::Asks),
        ["loads", clients, rate, tasks] => Ok(Part::Loads {
            clients: clients.parse()?,
            rate: rate.parse()?,
            tasks: tasks.parse()?,
        }),
        _ => anyhow::bail!("say asks, or loads CLIENTS CLAIMS_A_SECOND TASKS"),
    }
}

/// Reads its site and its part, prints `ready`, begins at `go` and prints a line of JSON each second until its input
/// ends.
pub fn cmd_load(print: impl Fn(&str)) -> anyhow::Result<()> {
    let (site, mut lines) = peer::told()?;
    let part = part(&lines.next().context("a part")??)?;
    // One thread, as in `callboard mcp`.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let engine = runtime.block_on(Bed::join(&site))?;
    let tasks = match part {
        Part::Asks => Vec::new(),
        Part::Loads { tasks: count, .. } => runtime.block_on(tasks(&engine, count))?,
    };
    print("ready");
    lines.next().context("a word to begin")??;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    drop(lines);
    std::thread::spawn(move || {
        // The input ends with the script.
        while std::io::stdin().lines().next().is_some_and(|line| line.is_ok()) {}
        drop(stop);
    });
    runtime.block_on(async {
        tokio::select! {
            done = async {
                match part {
                    Part::Asks => ask(engine, print).await,
                    Part::Loads { clients, rate, .. } => {
                        load(engine, tasks, clients, rate, print).await
                    }
                }
            } => done,
            _ = stopped => Ok(()),
        }
    })
}

/// Asks for a list of what can start and for the next tasks, and prints how long each took.
async fn ask(engine: Arc<Engine>, print: impl Fn(&str)) -> anyhow::Result<()> {
    let op = context(&actor(0)?);
    let backlog = engine.policy().initial().name.clone();
    loop {
        let (mut lists, mut nexts) = (Vec::new(), Vec::new());
        let second = Instant::now();
        while second.elapsed() < Duration::from_secs(1) {
            let filter = TaskFilter {
                label: Some(backlog.clone()),
                assignee: Some(None),
                ready: Some(true),
                as_work: Some(AsWork::default()),
                limit: LIST,
                ..TaskFilter::default()
            };
            let start = Instant::now();
            engine.task_list(&op, filter).await?;
            lists.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            engine.task_next(&op, NEXT).await?;
            nexts.push(start.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(ASK_EVERY).await;
        }
        print(&json!({"list_ms": lists, "next_ms": nexts}).to_string());
    }
}

/// Claims and closes tasks, each client one after another, at most `rate` of them a second; prints how many it did.
async fn load(
    engine: Arc<Engine>,
    tasks: Vec<TaskId>,
    clients: usize,
    rate: f64,
    print: impl Fn(&str),
) -> anyhow::Result<()> {
    let (tasks, next, done) =
        (Arc::new(tasks), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    for client in 0..clients {
        let (engine, op, tasks) = (engine.clone(), context(&actor(client)?), tasks.clone());
        let (next, done) = (next.clone(), done.clone());
        tokio::spawn(async move {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(task) = tasks.get(place) else { return anyhow::Ok(()) };
                let due = start + Duration::from_secs_f64(place as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                engine.task_claim(&op, *task).await?;
                engine.task_transition(&op, *task, "done".into()).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut before = 0;
    for second in 1.. {
        tokio::time::sleep_until((start + Duration::from_secs(second)).into()).await;
        let now = done.load(Ordering::Relaxed);
        print(&json!({"closed": now - before, "of": tasks.len(), "so_far": now}).to_string());
        before = now;
    }
    Ok(())
}
