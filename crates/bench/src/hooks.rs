//! How long an agent's client waits for `callboard hook`: from the start of the process to its end, as the client pays
//! for it at every tool call.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{Figure, Goal, Scale, percentile};

/// Measure the hooks that agents' clients call
#[derive(clap::Args, Debug)]
pub struct HooksArgs {}

const ACTOR: &str = "agent:bench";
const ROOT_VARIABLE: &str = "CALLBOARD_PROJECT_ROOT";
const GOAL_MS: f64 = 20.0;

/// A project with marks of trust of its own, so that a measurement leaves nothing with the user's data.
struct HookBed {
    project: PathBuf,
    data: PathBuf,
}

pub fn measure(folder: &Path, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let bed = HookBed { project: folder.join("hooks"), data: folder.join("hooks-data") };
    for made in [&bed.project, &bed.data] {
        std::fs::create_dir_all(made)?;
    }
    bed.run(true, &["init", "--prefix", "HOOK"], "")?;
    bed.run(true, &["task", "add", "The task at hand", "--check", "true"], "")?;
    bed.run(true, &["--actor", ACTOR, "claim", "HOOK-1"], "")?;
    let edit = format!(
        r#"{{"tool_name": "Edit", "tool_input": {{"file_path": "{}/a.rs"}}}}"#,
        bed.project.display()
    );
    let rows = [
        ("hook at the start of a session, p50", true, "session-start", "{}"),
        ("hook before an edit, p50", true, "before-edit", edit.as_str()),
        ("hook after a tool, p50", true, "after-tool", "{}"),
        ("hook of the status line, p50", true, "status-line", "{}"),
        ("hook outside of a project, p50", false, "before-edit", edit.as_str()),
    ];
    let mut figures = Vec::new();
    for (name, is_inside, event, message) in rows {
        // The first run of an event writes what later ones find.
        let mut took = Vec::with_capacity(scale.hooks);
        for run in 0..=scale.hooks {
            let hook = ["hook", event, "--client", "claude", "--actor", ACTOR];
            let asked = bed.run(is_inside, &hook, message)?;
            took.extend((run > 0).then_some(asked));
        }
        took.sort();
        let ms = percentile(&took, 0.5).as_secs_f64() * 1e3;
        figures.push(Figure::with(name, ms, "ms", Goal::AtMost(GOAL_MS)));
    }
    Ok(figures)
}

impl HookBed {
    /// Runs our own program to its end, in the project or in none; returns the time that took.
    #[allow(clippy::disallowed_methods, reason = "the benchmark plays the client that starts us")]
    fn run(&self, inside: bool, arguments: &[&str], message: &str) -> anyhow::Result<Duration> {
        let mut command = Command::new(std::env::current_exe()?);
        match inside {
            true => command.current_dir(&self.project).env(ROOT_VARIABLE, &self.project),
            false => command.current_dir("/").env_remove(ROOT_VARIABLE),
        };
        let start = Instant::now();
        let mut child = command
            .args(arguments)
            .env("XDG_DATA_HOME", &self.data)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start callboard")?;
        // A command that reads nothing may have ended already.
        let _ = child.stdin.take().context("a pipe to it")?.write_all(message.as_bytes());
        let ended = child.wait()?;
        let took = start.elapsed();
        ensure!(ended.success(), "callboard {} failed", arguments.join(" "));
        Ok(took)
    }
}
