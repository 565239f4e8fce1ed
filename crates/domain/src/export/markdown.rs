//! Tasks as a Markdown document: a checkbox for each, the rest indented below it. `import/edited.rs` reads the document
//! after an edit.

use super::facts;
use crate::import::ImportedTask;

pub(super) fn render(project: &str, tasks: &[ImportedTask]) -> String {
    let mut text = format!("# {}\n", one_line(project));
    for task in tasks {
        text += "\n";
        text += &block(tasks, task);
    }
    text
}

/// One task of the document, from its checkbox to the end of its text.
pub(super) fn block(tasks: &[ImportedTask], task: &ImportedTask) -> String {
    let mark = if task.state.is_closed() { "x" } else { " " };
    let mut text = format!("- [{mark}] {}\n", one_line(&task.title));
    for (word, value) in facts(tasks, task) {
        text += &format!("  - {word}: {}\n", one_line(&value));
    }
    for check in &task.checks {
        let command = check.cmd.as_deref().map(|cmd| format!(": `{}`", one_line(cmd)));
        let desc = one_line(&check.desc);
        text += &format!("  - Check: {desc}{}\n", command.unwrap_or_default());
    }
    for criterion in &task.criteria {
        text += &format!("  - [{mark}] {}\n", one_line(criterion));
    }
    for note in &task.notes {
        text += &format!("  - Note: {}\n", one_line(note));
    }
    if !task.body.is_empty() {
        text.push('\n');
        for line in task.body.lines() {
            text += format!("  {line}").trim_end();
            text.push('\n');
        }
    }
    text
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
