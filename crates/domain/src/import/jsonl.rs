//! Callboard's own form of a backlog: one task a line, as JSON. `callboard export` writes these lines.

use super::{ImportFault, ImportedTask, SourceFile, judged};

/// The line of a task.
pub fn line(task: &ImportedTask) -> String {
    serde_json::to_string(task).expect("strings and numbers make JSON")
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    for (number, line) in (1..).zip(file.text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let task =
            serde_json::from_str(line).map_err(|error| ImportFault::json(file, number, &error))?;
        tasks.push(judged(file, number, task)?);
    }
    Ok(())
}
