//! `callboard bench`: what this build does on this machine, as ratios taken in one run.
//!
//! Absolute numbers of a laptop and a server cannot be compared; each figure here stands beside the limit it is
//! measured against. No rule lives here, and no other command runs this code.

mod baseline;
mod bed;
mod board;
mod claims;
mod hooks;
mod jobs;
mod knowledge;
mod lists;
mod load;
mod next;
mod peer;
mod race;
mod shared;
mod start;
mod waits;
mod wake;
mod web;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

pub use board::fill as fill_board;
pub use load::cmd_load;
pub use shared::cmd_server;
pub use wake::cmd_waiter;

/// Measure durable claims, jobs, wake-ups, races, start-up and sizes on this machine
///
/// With --store postgres://… it measures several server processes on that database instead, in a
/// schema of its own that is dropped afterwards.
///
/// Example: callboard bench --json > bench.json
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    part: Option<BenchPart>,
    /// Folder to measure in; its disk is the one that counts (default: the current folder)
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// Smaller counts: a look in seconds instead of a measurement in minutes
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(clap::Subcommand, Debug)]
enum BenchPart {
    Board(board::BoardArgs),
    Hooks(hooks::HooksArgs),
    Jobs(jobs::JobsArgs),
    Knowledge(knowledge::KnowledgeArgs),
    Lists(lists::ListsArgs),
    Waits(waits::WaitsArgs),
}

/// A measured figure, with its goal if it has one.
pub struct Figure {
    pub name: Cow<'static, str>,
    pub value: f64,
    pub unit: &'static str,
    pub goal: Option<Goal>,
}

#[derive(Clone, Copy)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub fn plain(name: impl Into<Cow<'static, str>>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, goal: None }
    }

    pub fn with(
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        goal: Goal,
    ) -> Self {
        Self { name: name.into(), value, unit, goal: Some(goal) }
    }

    fn met(&self) -> Option<bool> {
        self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => self.value >= least,
            Goal::AtMost(most) => self.value <= most,
        })
    }

    fn goal_text(&self) -> String {
        match self.goal {
            None => String::new(),
            Some(Goal::AtLeast(least)) => format!(">= {least}"),
            Some(Goal::AtMost(most)) => format!("<= {most}"),
        }
    }

    pub fn json(&self) -> Value {
        let mut figure =
            json!({"name": self.name, "value": rounded(self.value), "unit": self.unit});
        if self.goal.is_some() {
            figure["goal"] = self.goal_text().into();
            figure["met"] = json!(self.met());
        }
        figure
    }

    pub fn line(&self) -> String {
        let mark = match self.met() {
            None => "     ",
            Some(true) => "ok   ",
            Some(false) => "miss ",
        };
        let goal = self.goal_text();
        format!("{mark}{:<58} {:>12} {:<6} {goal}", self.name, rounded(self.value), self.unit)
            .trim_end()
            .to_owned()
    }
}

fn rounded(value: f64) -> f64 {
    let scale = if value.abs() >= 100.0 { 1.0 } else { 1000.0 };
    (value * scale).round() / scale
}

/// The counts of everything that is measured.
#[derive(Clone, Copy)]
pub struct Scale {
    pub raw_for: Duration,
    pub claims: usize,
    pub single_claims: usize,
    /// As many as an org may have open by default.
    pub jobs: usize,
    pub waiters: usize,
    pub wakes: usize,
    /// Waits over HTTP, and reads among them.
    pub waits: usize,
    pub reads: usize,
    pub many_tasks: usize,
    pub race_tasks: usize,
    pub starts: usize,
    /// Runs of each hook.
    pub hooks: usize,
    pub shared_tasks: usize,
    /// Tasks of the large board.
    pub board_tasks: usize,
}

impl Scale {
    fn of(quick: bool) -> Self {
        let full = Self {
            raw_for: Duration::from_secs(2),
            claims: 20_000,
            single_claims: 2_000,
            jobs: 1_000,
            waiters: 10_000,
            wakes: 500,
            waits: 2_000,
            reads: 2_000,
            many_tasks: 1_000_000,
            race_tasks: 200,
            starts: 10,
            hooks: 50,
            shared_tasks: 20_000,
            board_tasks: 100_000,
        };
        if !quick {
            return full;
        }
        Self {
            raw_for: Duration::from_millis(500),
            claims: 3_000,
            single_claims: 300,
            jobs: 300,
            waiters: 1_000,
            wakes: 100,
            waits: 500,
            reads: 500,
            many_tasks: 50_000,
            race_tasks: 50,
            starts: 3,
            hooks: 15,
            shared_tasks: 3_000,
            board_tasks: 10_000,
        }
    }
}

const BOARD: &str = "pages of the board";
const HOOKS: &str = "hooks of agents' clients";
const JOBS: &str = "jobs submitted and run by an agent that does nothing";
const LISTS: &str = "every list, count and page, on few tasks and on many";
const WAITS: &str = "waits over HTTP, and reads among them";

/// Runs all measurements; `say` reports what is being measured.
pub fn run(
    args: &BenchArgs,
    postgres: Option<&str>,
    say: impl Fn(&str),
) -> anyhow::Result<Vec<Figure>> {
    let scale = Scale::of(args.quick);
    let parent = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir()?,
    };
    let folder = tempfile::Builder::new()
        .prefix(".callboard-bench-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot write in {}", parent.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match (&args.part, postgres) {
        (Some(BenchPart::Knowledge(part)), _) => {
            return knowledge::measure(part, args.quick, &runtime, folder.path(), &say);
        }
        (Some(BenchPart::Hooks(_)), _) => {
            say(HOOKS);
            return hooks::measure(folder.path(), scale);
        }
        (Some(BenchPart::Jobs(part)), None) => {
            say(JOBS);
            return jobs::measure_alone(folder.path(), None, part, args.quick);
        }
        (Some(BenchPart::Jobs(part)), Some(url)) => {
            say(JOBS);
            return shared::in_schema(&runtime, url, |site| {
                jobs::measure_alone(folder.path(), Some(site), part, args.quick)
            });
        }
        (Some(BenchPart::Board(_)), None) => {
            say(BOARD);
            return board::measure(&runtime, folder.path(), None, scale);
        }
        (Some(BenchPart::Board(_)), Some(url)) => {
            say(BOARD);
            return shared::in_schema(&runtime, url, |site| {
                board::measure(&runtime, folder.path(), Some(site), scale)
            });
        }
        (Some(BenchPart::Lists(part)), None) => {
            say(LISTS);
            return lists::measure(part, &runtime, folder.path(), None, scale);
        }
        (Some(BenchPart::Lists(part)), Some(url)) => {
            say(LISTS);
            return shared::in_schema(&runtime, url, |site| {
                lists::measure(part, &runtime, folder.path(), Some(site), scale)
            });
        }
        (Some(BenchPart::Waits(_)), None) => {
            say(WAITS);
            return waits::measure(&runtime, folder.path(), None, scale);
        }
        (Some(BenchPart::Waits(_)), Some(url)) => {
            say(WAITS);
            return shared::in_schema(&runtime, url, |site| {
                waits::measure(&runtime, folder.path(), Some(site), scale)
            });
        }
        (None, Some(url)) => {
            return shared::in_schema(&runtime, url, |site| {
                let mut figures = shared::measure(&runtime, folder.path(), site, scale, &say)?;
                say(WAITS);
                figures.extend(waits::measure(&runtime, folder.path(), Some(site), scale)?);
                Ok(figures)
            });
        }
        (None, None) => {}
    }
    let mut figures = Vec::new();
    say("raw 4 KiB overwrite + fdatasync, and claims in process and over stdio");
    figures.extend(claims::measure(&runtime, folder.path(), scale)?);
    say(JOBS);
    figures.extend(jobs::measure(folder.path(), scale)?);
    say("wake-ups of waits, in this process and in another");
    figures.extend(wake::measure(&runtime, folder.path(), scale)?);
    say(WAITS);
    figures.extend(waits::measure(&runtime, folder.path(), None, scale)?);
    say("the next task among many blocked ones");
    figures.extend(next::measure(&runtime, folder.path(), scale)?);
    say("8 and 32 processes claiming the same tasks");
    figures.extend(race::measure(&runtime, folder.path(), scale)?);
    say("start-up and sizes");
    figures.extend(start::measure(&runtime, folder.path(), scale)?);
    say(HOOKS);
    figures.extend(hooks::measure(folder.path(), scale)?);
    Ok(figures)
}

/// The value below which `share` of the sorted sample lies.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
