//! Executors: the programs that play an agent, how each is called, and which one runs a job.

pub(crate) mod acp;
mod builtin;
mod choose;
pub(crate) mod command;
mod heard;
pub(crate) mod mcp;
mod settings;
mod wire;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(crate) use choose::Chosen;
pub use settings::{ExecutorKind, ExecutorSettings, McpBy, OutputFrom, PromptBy, RawExecutor};

/// All that may run a job, in the order in which they are asked for a model: configured ones as
/// the file has them, then the built-in ones.
#[derive(Clone, Debug, Default)]
pub struct Executors {
    all: Vec<ExecutorSettings>,
}

impl Executors {
    /// A configured executor with a built-in name changes only what it says. The fault is for the
    /// person who wrote the settings.
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

    /// The names of those whose program is there.
    pub(crate) fn found(&self, path: Option<&OsStr>) -> impl Iterator<Item = &str> {
        self.names().filter(move |name| self.named(name, path).is_some())
    }

    /// The programs of those that are not built in, by name.
    pub fn programs(&self) -> HashMap<String, String> {
        let builtin = builtin::all();
        let is_own = |own: &&ExecutorSettings| !builtin.iter().any(|known| known.name == own.name);
        let own = self.all.iter().filter(is_own);
        own.filter_map(|own| Some((own.name.clone(), own.command.first()?.clone()))).collect()
    }

    /// The one of that name, if its program is there.
    pub(crate) fn named(&self, name: &str, path: Option<&OsStr>) -> Option<&ExecutorSettings> {
        let known = self.all.iter().find(|executor| executor.name == name)?;
        let program = known.command.first().map(String::as_str).unwrap_or_default();
        find_program(program, path).map(|_| known)
    }

    /// These and no built-in ones.
    pub fn only(all: Vec<ExecutorSettings>) -> Self {
        Self { all }
    }
}

/// Where a program is, looked up as a shell would.
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

/// What came of a run, before anybody judges what was said.
pub(crate) struct Ran {
    pub(crate) said: Said,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) enum Said {
    /// Ended by the token: whoever cancelled it knows why.
    Stopped,
    /// Nothing ran. In words for a summary, as those of a failure.
    NotStarted(String),
    Failed(String),
    /// What is to be read as the answer, or why there is nothing to read.
    Output(Result<String, String>),
}
