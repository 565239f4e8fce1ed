//! The tasks that a new task waits for, as its form names them.

use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::task::Task;
use callboard_engine::EngineError;

use super::Page;
use super::task::found;

/// The deps of a form: the tasks that were found, and what was typed without being found.
#[derive(Default)]
pub(super) struct Deps {
    pub tasks: Vec<Task>,
    pub unknown: Vec<String>,
    pub vague: Vec<String>,
}

impl Deps {
    /// `names` are the tasks that were found before, `typed` is what the field for more of them has.
    pub async fn of(page: &Page, names: &[String], typed: &str) -> Result<Self, EngineError> {
        let mut deps = Self::default();
        for name in names {
            deps.find(page, name).await?;
        }
        for typed in typed.split([',', '\n']).map(str::trim).filter(|typed| !typed.is_empty()) {
            // A title has spaces, and so has a list of names.
            let is_name =
                |word: &str| TaskName::parse(word).is_some() || word.parse::<TaskId>().is_ok();
            if !typed.split_whitespace().all(is_name) {
                deps.find(page, typed).await?;
                continue;
            }
            for word in typed.split_whitespace() {
                deps.find(page, word).await?;
            }
        }
        Ok(deps)
    }

    /// Finds a task by its short name or id, else by its title or the end of its id.
    async fn find(&mut self, page: &Page, typed: &str) -> Result<(), EngineError> {
        let task = match found(page, typed).await {
            Ok(id) => match page.engine.task_get(&page.op(), id).await {
                Ok(seen) => Some(seen.it.task),
                Err(EngineError::Refused(_)) => None,
                Err(error) => return Err(error),
            },
            Err(EngineError::Refused(_)) => {
                let mut fits = page.engine.tasks_called(&page.op(), typed).await?;
                if fits.len() > 1 {
                    self.vague.push(typed.to_owned());
                    return Ok(());
                }
                fits.pop()
            }
            Err(error) => return Err(error),
        };
        match task {
            Some(task) if self.tasks.iter().any(|known| known.id == task.id) => {}
            Some(task) => self.tasks.push(task),
            None => self.unknown.push(typed.to_owned()),
        }
        Ok(())
    }
}
