//! Finding the next free task when most are blocked and hold the best priorities.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::baseline;
use super::bed::{Bed, actor, context, database};
use super::{Figure, Goal, Scale, micros, percentile};

const LOOKS: usize = 2_000;
const FEW: usize = 1_000;

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let few = runtime.block_on(look(folder, "next-few", FEW))?;
    let many = runtime.block_on(look(folder, "next-many", scale.many_tasks))?;
    Ok(vec![
        Figure::plain("blocked tasks in the large store", scale.many_tasks as f64, ""),
        Figure::plain("next task among 1,000, p50", micros(few), "us"),
        Figure::plain("next task in the large store, p50", micros(many), "us"),
        Figure::with(
            "large against 1,000",
            many.as_secs_f64() / few.as_secs_f64(),
            "x",
            Goal::AtMost(2.0),
        ),
    ])
}

async fn look(folder: &Path, name: &str, blocked: usize) -> anyhow::Result<Duration> {
    let bed = Bed::new(folder, name).await?;
    baseline::fill_with_blocked(&database(&bed.folder), bed.engine.home().project.id, blocked)?;
    let op = context(&actor(0)?);
    let mut times = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let start = Instant::now();
        let found = bed.engine.task_next(&op, 1).await?;
        times.push(start.elapsed());
        let title = found.it.first().map(|row| row.task.title.as_str());
        anyhow::ensure!(title == Some("free"), "the wrong task came next: {title:?}");
    }
    times.sort();
    Ok(percentile(&times, 0.5))
}
