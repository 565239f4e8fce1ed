//! Several server processes on one PostgreSQL. A server here is a process with an engine, a writer and connections of
//! its own, with its clients inside; no protocol is involved. Each task is claimed, then closed: two calls, each
//! answered when it is on disk.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use callboard_domain::ids::TaskId;
use callboard_store::postgres::schema_drop;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::bed::{Bed, Site, actor, context, tasks};
use super::peer::{self, Peer};
use super::{Figure, Goal, Scale, wake};

/// The clients of all servers together.
const CLIENTS: usize = 64;

/// Measures in a schema that is dropped afterwards.
pub fn in_schema(
    runtime: &Runtime,
    url: &str,
    measure: impl FnOnce(&Site) -> anyhow::Result<Vec<Figure>>,
) -> anyhow::Result<Vec<Figure>> {
    let schema = format!("callboard_bench_{}", std::process::id());
    let mark = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{mark}search_path={schema}");
    let measured = measure(&Site::Shared(url.clone()));
    let dropped = runtime.block_on(schema_drop(&url));
    let figures = measured?;
    dropped?;
    Ok(figures)
}

pub fn measure(
    runtime: &Runtime,
    folder: &Path,
    site: &Site,
    scale: Scale,
    say: impl Fn(&str),
) -> anyhow::Result<Vec<Figure>> {
    let engine = runtime.block_on(Bed::join(site))?;
    let mut rates = [0.0; 3];
    for (rate, servers) in rates.iter_mut().zip([1, 2, 4]) {
        say(&format!("claims and closes by {servers} server processes"));
        let tasks = runtime.block_on(tasks(&engine, scale.shared_tasks))?;
        let took = serve(folder, site, &tasks, servers)?;
        *rate = tasks.len() as f64 / took.as_secs_f64();
    }
    say("wake-ups of waits in another server process");
    let mut woken = wake::across_processes(runtime, folder, site, &engine, scale)?;
    let [one, two, four] = rates;
    Ok(vec![
        Figure::plain("tasks claimed and closed, 1 server process", one, "/s"),
        Figure::plain("tasks claimed and closed, 2 server processes", two, "/s"),
        Figure::with("the same against 1 process", two / one, "x", Goal::AtLeast(1.0)),
        Figure::plain("tasks claimed and closed, 4 server processes", four, "/s"),
        Figure::with("the same against 1 process", four / one, "x", Goal::AtLeast(1.8)),
        Figure::plain("waits registered", scale.waiters as f64, ""),
        Figure::with(
            "commit to answered wait, other process, p99",
            wake::p99_ms(&mut woken),
            "ms",
            Goal::AtMost(10.0),
        ),
    ])
}

/// How long `servers` processes take for all tasks, each for its share.
fn serve(folder: &Path, site: &Site, tasks: &[TaskId], servers: usize) -> anyhow::Result<Duration> {
    let mut peers = Vec::new();
    for number in 0..servers {
        let mut peer = Peer::spawn(folder, &["bench-server"])?;
        peer.send(&site.to_string())?;
        peer.send(&(CLIENTS / servers).to_string())?;
        for task in tasks.iter().skip(number).step_by(servers) {
            peer.send(&task.to_string())?;
        }
        peer.send("")?;
        peers.push(peer);
    }
    for peer in &mut peers {
        anyhow::ensure!(peer.receive()?.trim() == "ready", "a server process is not ready");
    }
    let start = Instant::now();
    for peer in &mut peers {
        peer.send("go")?;
    }
    for peer in &mut peers {
        anyhow::ensure!(peer.receive()?.trim() == "done", "a server process did not finish");
    }
    Ok(start.elapsed())
}

/// One server: reads its site, the number of clients and the tasks, prints `ready`, and works at `go`.
pub fn cmd_server(print: impl Fn(&str)) -> anyhow::Result<()> {
    let (site, mut lines) = peer::told()?;
    let clients: usize = lines.next().context("how many clients")??.parse()?;
    let tasks = peer::ids(&mut lines);
    // One thread, as in `callboard mcp`.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let engine = runtime.block_on(Bed::join(&site))?;
    // The first call opens the writer's connection, which is not measured.
    let op = context(&actor(0)?);
    if let Some(task) = tasks.first() {
        runtime.block_on(engine.task_claim(&op, *task))?;
        runtime.block_on(engine.task_release(&op, *task))?;
    }
    print("ready");
    lines.next().context("a word to begin")??;
    runtime.block_on(async {
        let mut working = JoinSet::new();
        for client in 0..clients {
            let (engine, op) = (engine.clone(), context(&actor(client)?));
            let share: Vec<TaskId> = tasks.iter().skip(client).step_by(clients).copied().collect();
            working.spawn(async move {
                for task in share {
                    engine.task_claim(&op, task).await?;
                    engine.task_transition(&op, task, "done".into()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = working.join_next().await {
            done??;
        }
        anyhow::Ok(())
    })?;
    print("done");
    Ok(())
}
