//! Which executor runs a job, and with which model.

use std::ffi::OsStr;

use globset::GlobBuilder;

use super::settings::ExecutorSettings;
use super::{Executors, find_program};

pub(crate) struct Chosen<'a> {
    pub(crate) executor: &'a ExecutorSettings,
    /// The model; empty: the program's own choice.
    pub(crate) model: String,
    /// Whether no executor serves the requested model.
    pub(crate) is_fallback: bool,
}

impl Executors {
    /// The executor of a job, among those whose program is found: `name:model`; else the first that serves the model;
    /// else the default one with a model of its own.
    pub(crate) fn choose(
        &self,
        preferred_model: &str,
        default_executor: &str,
        path: Option<&OsStr>,
    ) -> Option<Chosen<'_>> {
        let is_found = |executor: &&ExecutorSettings| {
            let program = executor.command.first();
            program.is_some_and(|program| find_program(program, path).is_some())
        };
        let found: Vec<&ExecutorSettings> = self.all.iter().filter(is_found).collect();
        let named = |name: &str| found.iter().copied().find(|executor| executor.name == name);
        if let Some((name, model)) = preferred_model.split_once(':')
            && let Some(executor) = named(name)
        {
            return Some(Chosen { executor, model: model.to_owned(), is_fallback: false });
        }
        if let Some(executor) = found.iter().find(|executor| serves(executor, preferred_model)) {
            let model = preferred_model.to_owned();
            return Some(Chosen { executor, model, is_fallback: false });
        }
        let default = match default_executor {
            "" => found.first().copied(),
            name => named(name),
        };
        default.map(|executor| {
            let model = executor.default_model.clone();
            Chosen { executor, model, is_fallback: true }
        })
    }
}

fn serves(executor: &ExecutorSettings, model: &str) -> bool {
    executor.models.iter().any(|glob| {
        let glob = GlobBuilder::new(glob).case_insensitive(true).build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(model))
    })
}
