//! The cost of a server for an agent's client: its start, and the size of what the client reads.

use std::path::Path;
use std::time::Duration;

use callboard_domain::ids::TaskId;
use tokio::runtime::Runtime;

use super::bed::Bed;
use super::peer::Peer;
use super::{Figure, Goal, Scale, percentile};

const LIST_TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const LIST_TASKS: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":{}}}"#;

pub fn measure(runtime: &Runtime, folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let bed = runtime.block_on(Bed::new(folder, "start"))?;
    let tasks: Vec<TaskId> = runtime.block_on(bed.tasks(1_000))?;
    let (mut cpu, mut peak_kb, mut tools_bytes, mut list_bytes) = (Vec::new(), 0.0f64, 0, 0);
    for _ in 0..scale.starts {
        let mut peer = Peer::start(&bed.folder, "agent:bench")?;
        peer.send(LIST_TOOLS)?;
        tools_bytes = result_bytes(peer.receive()?)?;
        cpu.push(cpu_of(peer.id())?);
        peak_kb = peak_kb.max(memory_kb(peer.id(), "VmHWM:")?);
        peer.send(LIST_TASKS)?;
        list_bytes = text_bytes(peer.receive()?)?;
    }
    cpu.sort();
    let cpu_ms = percentile(&cpu, 0.5).as_secs_f64() * 1e3;
    Ok(vec![
        Figure::with("start to tools/list, CPU, p50", cpu_ms, "ms", Goal::AtMost(20.0)),
        Figure::with(
            "start to tools/list, most memory",
            peak_kb / 1024.0,
            "MB",
            Goal::AtMost(20.0),
        ),
        Figure::with("default tools/list", tools_bytes as f64 / 1000.0, "kB", Goal::AtMost(8.0)),
        Figure::plain("tasks in the listed store", tasks.len() as f64, ""),
        Figure::with("list of them", list_bytes as f64 / 1000.0, "kB", Goal::AtMost(10.0)),
    ])
}

fn result_bytes(line: &str) -> anyhow::Result<usize> {
    let answer: serde_json::Value = serde_json::from_str(line)?;
    Ok(answer["result"].to_string().len())
}

/// The part of a tool's answer that a model reads: one copy of it.
fn text_bytes(line: &str) -> anyhow::Result<usize> {
    let answer: serde_json::Value = serde_json::from_str(line)?;
    Ok(answer["result"]["structuredContent"].to_string().len())
}

/// CPU time of all threads of a process, in nanoseconds from schedstat.
pub fn cpu_of(process: u32) -> anyhow::Result<Duration> {
    let mut total = 0u64;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        total += stat.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

pub fn memory_kb(process: u32, which: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap_or("0");
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
