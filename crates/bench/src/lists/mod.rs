//! The cost of every list, count, filter and page of every door, on few tasks and on many. The cost of a page must not
//! depend on the size of the store.

mod doors;
mod fill;
mod meter;

use std::path::Path;

use tokio::runtime::Runtime;

use self::meter::{Cost, Meter};
use super::bed::{Bed, Site};
use super::{Figure, Goal, Scale};

/// Measure what every list and page costs on 1,000 tasks and on 100,000
///
/// Events, sessions, jobs, mail, decisions and knowledge grow with the tasks. On SQLite the cost is the number of steps
/// of its virtual machine, which does not depend on the load of the machine. With --store postgres://… the cost is time.
#[derive(clap::Args, Debug)]
pub struct ListsArgs {
    /// Tasks of the large store [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// Only doors whose names hold this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

const FEW: usize = 1_000;
/// A list of many tasks may cost so many times a list of few.
const GOAL: Goal = Goal::AtMost(2.0);
/// A list that takes fewer steps than this is an index lookup, whatever its ratio to an even smaller number is.
const STEPS_FREE: f64 = 1_000.0;

pub fn measure(
    args: &ListsArgs,
    runtime: &Runtime,
    folder: &Path,
    site: Option<&Site>,
    scale: Scale,
) -> anyhow::Result<Vec<Figure>> {
    let many = args.tasks.unwrap_or(scale.board_tasks).max(2 * FEW);
    // A shared database is one board: the many tasks join the few.
    let bed = runtime.block_on(Bed::on(folder, "lists", site))?;
    let mut costs = Vec::new();
    for (from, to) in [(0, FEW), (FEW, many)] {
        let marks = runtime.block_on(fill::fill(&bed.engine, from, to))?;
        let mut doors = doors::all(&marks, to);
        doors.retain(|door| args.only.as_ref().is_none_or(|only| door.name.contains(only)));
        let meter = Meter::start(&bed.folder, site.is_none())?;
        costs.push(runtime.block_on(meter.costs(doors))?);
    }
    let mut figures = vec![Figure::plain("tasks of the large store", many as f64, "")];
    let [few, many] = <[Vec<(String, Cost)>; 2]>::try_from(costs)
        .map_err(|_| anyhow::anyhow!("two sizes are measured"))?;
    for ((name, few), (_, many)) in few.into_iter().zip(many) {
        figures.extend(compared(&name, few, many));
    }
    Ok(figures)
}

fn compared(name: &str, few: Cost, many: Cost) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut pair = |unit: &'static str, few: Option<f64>, many: Option<f64>| {
        if let (Some(few), Some(many)) = (few, many) {
            figures.push(Figure::plain(format!("{name}, few"), few, unit));
            figures.push(Figure::plain(format!("{name}, many"), many, unit));
        }
    };
    pair("steps", few.steps, many.steps);
    pair("ms CPU", few.cpu_ms, many.cpu_ms);
    pair("ms", Some(few.ms).filter(|_| few.steps.is_none()), Some(many.ms));
    let ratio = match (few.steps, many.steps) {
        (Some(few), Some(many)) => many.max(STEPS_FREE) / few.max(STEPS_FREE),
        _ => many.ms / few.ms,
    };
    figures.push(Figure::with(format!("{name}, many against few"), ratio, "x", GOAL));
    figures
}
