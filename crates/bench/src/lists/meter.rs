//! What a call costs: steps of SQLite from the trace of a server, processor time and time of one that traces nothing.
//! The server's own loops only add to a call, so the cheapest of some calls counts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;

use super::doors::{Ask, Door};
use crate::peer::Peer;
use crate::start::cpu_of;
use crate::web::{Line, Served};

const CALLS: usize = 7;

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// `None` on a database that counts no steps.
    pub steps: Option<f64>,
    /// `None` for a process that ended with its call.
    pub cpu_ms: Option<f64>,
    pub ms: f64,
}

pub struct Meter {
    folder: PathBuf,
    traced: Option<(Served, PathBuf)>,
    plain: Served,
}

impl Meter {
    pub fn start(folder: &Path, counts_steps: bool) -> anyhow::Result<Self> {
        let trace = folder.join("trace.log");
        let traced = match counts_steps {
            true => Some((Served::without_agents(folder, Some(&trace))?, trace)),
            false => None,
        };
        let plain = Served::without_agents(folder, None)?;
        Ok(Self { folder: folder.to_owned(), traced, plain })
    }

    pub async fn costs(&self, doors: Vec<Door>) -> anyhow::Result<Vec<(String, Cost)>> {
        let mut costs = Vec::new();
        let mut plain = self.plain.connect().await?;
        for Door { name, ask } in doors {
            let cost = match &ask {
                Ask::Program(arguments) => self.of_program(arguments)?,
                Ask::Tool { .. } | Ask::Page(_) => self.of_call(&ask, &mut plain).await?,
            };
            costs.push((name, cost));
        }
        Ok(costs)
    }

    async fn of_call(&self, ask: &Ask, line: &mut Line) -> anyhow::Result<Cost> {
        let (mut cpu_ms, mut ms) = (f64::MAX, f64::MAX);
        let request = ask.request(&self.plain);
        for _ in 0..CALLS {
            let (before, start) = (cpu_of(self.plain.id())?, Instant::now());
            let answer = line.ask(&request).await?;
            ms = ms.min(start.elapsed().as_secs_f64() * 1e3);
            let cpu = cpu_of(self.plain.id())?.saturating_sub(before);
            cpu_ms = cpu_ms.min(cpu.as_secs_f64() * 1e3);
            ensure!(ask.is_answered(&answer), "{ask:?} failed: {answer:.400}");
        }
        let mut steps = None;
        if let Some((server, trace)) = &self.traced {
            let (mut line, request) = (server.connect().await?, ask.request(server));
            let mut file = File::open(trace)?;
            for _ in 0..CALLS {
                file.seek(SeekFrom::End(0))?;
                line.ask(&request).await?;
                let mut said = String::new();
                file.read_to_string(&mut said)?;
                let taken = taken(&said);
                steps = Some(steps.map_or(taken, |steps: f64| steps.min(taken)));
            }
        }
        Ok(Cost { steps, cpu_ms: Some(cpu_ms), ms })
    }

    fn of_program(&self, arguments: &[String]) -> anyhow::Result<Cost> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let trace = self.folder.join("program.log");
        let start = Instant::now();
        Peer::spawn_traced(&self.folder, &arguments, Some(&trace))?.ended()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let steps = self.traced.is_some().then(|| std::fs::read_to_string(&trace));
        let steps = steps.transpose()?.map(|said| taken(&said));
        Ok(Cost { steps, cpu_ms: None, ms })
    }
}

/// The steps of all statements of a trace.
fn taken(trace: &str) -> f64 {
    let steps = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["fields"]["steps"].as_f64()
    };
    trace.lines().filter_map(steps).sum()
}
