//! Many processes on one file: each claims every task, each task has one winner.

use std::path::Path;
use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use tokio::runtime::Runtime;

use super::bed::Bed;
use super::peer::Peer;
use super::{Figure, Goal, Scale, percentile};

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let few = race(runtime, folder, 8, scale.race_tasks)?;
    let many = race(runtime, folder, 32, scale.race_tasks)?;
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let spread = |times: &[Duration]| {
        percentile(times, 0.999).as_secs_f64() / percentile(times, 0.5).as_secs_f64()
    };
    Ok(vec![
        Figure::plain("tasks raced for", scale.race_tasks as f64, ""),
        Figure::with("8 processes: claims won twice or never", few.wrong, "", Goal::AtMost(0.0)),
        Figure::plain("8 processes: p50", ms(percentile(&few.times, 0.5)), "ms"),
        Figure::with("8 processes: p99.9 against p50", spread(&few.times), "x", Goal::AtMost(50.0)),
        Figure::with("8 processes: slowest call", ms(few.slowest()), "ms", Goal::AtMost(1000.0)),
        Figure::with("32 processes: claims won twice or never", many.wrong, "", Goal::AtMost(0.0)),
        Figure::plain("32 processes: p50", ms(percentile(&many.times, 0.5)), "ms"),
        Figure::with(
            "32 processes: p99.9 against p50",
            spread(&many.times),
            "x",
            Goal::AtMost(50.0),
        ),
        Figure::with("32 processes: slowest call", ms(many.slowest()), "ms", Goal::AtMost(1000.0)),
    ])
}

struct Race {
    /// Sorted.
    times: Vec<Duration>,
    /// Tasks that were not won exactly once.
    wrong: f64,
}

impl Race {
    fn slowest(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }
}

fn race(runtime: &Runtime, folder: &Path, processes: usize, count: usize) -> anyhow::Result<Race> {
    let bed = runtime.block_on(Bed::new(folder, &format!("race-{processes}")))?;
    let tasks = runtime.block_on(bed.tasks(count))?;
    let mut peers = Vec::new();
    for n in 0..processes {
        peers.push(Peer::start(&bed.folder, &format!("agent:racer-{n}"))?);
    }
    let runs: Vec<anyhow::Result<Run>> = std::thread::scope(|scope| {
        let racers: Vec<_> =
            peers.iter_mut().map(|peer| scope.spawn(|| claim_all(peer, &tasks))).collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a racer stopped"))))
            .collect()
    });
    let mut wins = vec![0u32; count];
    let mut times = Vec::new();
    for run in runs {
        let run = run?;
        times.extend(run.times);
        for index in run.won {
            wins[index] += 1;
        }
    }
    times.sort();
    Ok(Race { times, wrong: wins.iter().filter(|wins| **wins != 1).count() as f64 })
}

struct Run {
    times: Vec<Duration>,
    won: Vec<usize>,
}

fn claim_all(peer: &mut Peer, tasks: &[TaskId]) -> anyhow::Result<Run> {
    let mut run = Run { times: Vec::with_capacity(tasks.len()), won: Vec::new() };
    for (index, task) in tasks.iter().enumerate() {
        let start = Instant::now();
        peer.send_claim(index + 1, task)?;
        if peer.receive_claim()? {
            run.won.push(index);
        }
        run.times.push(start.elapsed());
    }
    Ok(run)
}
