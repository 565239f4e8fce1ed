//! Executors: the programs that run agents, how each is called, and which one runs a job.

pub(crate) mod acp;
mod agent_output;
mod builtin;
mod choose;
pub(crate) mod command;
pub(crate) mod mcp;
#[cfg(test)]
mod random;
mod settings;
mod usage;
mod wire;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use callboard_domain::runs::usage::RunUsage;

pub(crate) use choose::Chosen;
pub use settings::{ExecutorKind, ExecutorSettings, McpBy, OutputFrom, PromptBy, RawExecutor};

/// All executors that may run a job, in the order in which they are asked for a model: configured ones in the order of
/// the file, then the built-in ones.
#[derive(Clone, Debug, Default)]
pub struct Executors {
    all: Vec<ExecutorSettings>,
}

impl Executors {
    /// A configured executor with a built-in name changes only the fields it sets. The fault is worded for the author
    /// of the settings.
    pub fn new(configured: Vec<(String, RawExecutor)>) -> Result<Self, String> {
        let mut builtin = builtin::all();
        let mut all = Vec::new();
        for (name, raw) in configured {
            let base = builtin.iter().position(|known| known.name == name);
            let base = base.map(|index| builtin.remove(index));
            all.push(raw.over(&name, base)?);
        }
        all.extend(builtin);
        Ok(Self { all })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|executor| executor.name.as_str())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ExecutorSettings> {
        self.all.iter()
    }

    /// The names of the executors whose program is found.
    pub(crate) fn found(&self, path: Option<&OsStr>) -> impl Iterator<Item = &str> {
        self.names().filter(move |name| self.named(name, path).is_some())
    }

    /// The names of the executors that this process finds.
    pub fn found_here(&self) -> Vec<String> {
        self.found(std::env::var_os("PATH").as_deref()).map(str::to_owned).collect()
    }

    /// The programs of the executors that are not built in, by name.
    pub fn programs(&self) -> HashMap<String, String> {
        let builtin = builtin::all();
        let is_own = |own: &&ExecutorSettings| !builtin.iter().any(|known| known.name == own.name);
        let own = self.all.iter().filter(is_own);
        own.filter_map(|own| Some((own.name.clone(), own.command.first()?.clone()))).collect()
    }

    /// The executor of that name, if its program is found.
    pub(crate) fn named(&self, name: &str, path: Option<&OsStr>) -> Option<&ExecutorSettings> {
        let known = self.all.iter().find(|executor| executor.name == name)?;
        let program = known.command.first().map(String::as_str).unwrap_or_default();
        find_program(program, path).map(|_| known)
    }

    /// These executors and no built-in ones.
    pub fn only(all: Vec<ExecutorSettings>) -> Self {
        Self { all }
    }
}

/// The path of a program, looked up as a shell would.
pub(crate) fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|program| is_executable(program));
    }
    let folders = std::env::split_paths(path?);
    folders.map(|folder| folder.join(name)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    let executable = rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok();
    executable && program.is_file()
}

/// The result of a run, before its answer is judged.
pub(crate) struct Ran {
    pub(crate) said: ExecutorReport,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The tokens and the cost, if the program reported them.
    pub(crate) usage: Option<RunUsage>,
    /// How the program ended, in words; `None` for one that did not start.
    pub(crate) exit: Option<String>,
}

pub(crate) enum ExecutorReport {
    /// Ended by the token: the canceller knows why.
    Stopped,
    /// The program did not start. In words for a summary, like `Failed`.
    NotStarted(String),
    Failed(String),
    /// The text to read as the answer, or why there is none.
    Output(Result<String, String>),
}
