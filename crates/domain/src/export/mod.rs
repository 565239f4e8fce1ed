//! The tasks of a project as one text: lines, or a document for people that holds the lines too. `callboard import` reads
//! each of them. Pure.

mod html;
mod markdown;

use crate::import::{ImportedTask, embed, line};
use crate::words::words;

words! {
    /// A form that tasks can be exported in; the words are extensions of files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExportFormat {
        Jsonl => "jsonl",
        Markdown => "md",
        Html => "html",
    }
}

impl ExportFormat {
    pub fn render(self, project: &str, tasks: &[ImportedTask]) -> String {
        match self {
            ExportFormat::Jsonl => tasks.iter().map(|task| line(task) + "\n").collect(),
            ExportFormat::Markdown => embed(&markdown::render(project, tasks), tasks),
            ExportFormat::Html => embed(&html::render(project, tasks), tasks),
        }
    }
}

/// Each task as the Markdown document shows it.
pub(crate) fn markdown_blocks(tasks: &[ImportedTask]) -> Vec<String> {
    tasks.iter().map(|task| markdown::block(tasks, task)).collect()
}

/// A text of a task as the Markdown document shows it in one line.
pub(crate) fn markdown_line(text: &str) -> String {
    markdown::one_line(text)
}

/// The title of the task that a reference names.
fn title_of<'t>(tasks: &'t [ImportedTask], reference: &'t str) -> &'t str {
    let found = tasks.iter().find(|task| task.reference == reference);
    found.map_or(reference, |task| task.title.as_str())
}

/// The facts of a task as lines, each with its word.
fn facts<'t>(tasks: &'t [ImportedTask], task: &'t ImportedTask) -> Vec<(&'static str, String)> {
    let mut facts = vec![("State", task.state.as_str().to_owned())];
    if let Some(priority) = task.priority {
        facts.push(("Priority", priority.to_string()));
    }
    if let Some(parent) = &task.parent {
        facts.push(("Part of", title_of(tasks, parent).to_owned()));
    }
    if !task.deps.is_empty() {
        let names: Vec<&str> = task.deps.iter().map(|dep| title_of(tasks, dep)).collect();
        facts.push(("Waits for", names.join("; ")));
    }
    facts.push(("Reference", task.reference.clone()));
    facts
}
