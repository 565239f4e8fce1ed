//! Task Master: `tasks.json`, with one list of tasks or one for each tag. Subtasks are children of their task.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged};

#[derive(Deserialize)]
struct TaskList {
    tasks: Vec<MasterTask>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MasterTask {
    id: Value,
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    details: Option<String>,
    #[serde(default)]
    test_strategy: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    priority: Option<String>,
    #[serde(default)]
    dependencies: Vec<Value>,
    /// One text with a line each, or a list.
    #[serde(default)]
    acceptance_criteria: Value,
    #[serde(default)]
    subtasks: Vec<MasterTask>,
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    let broken = |error: serde_json::Error| ImportFault::json(file, error.line(), &error);
    let whole: Map<String, Value> = serde_json::from_str(&file.text).map_err(broken)?;
    // The older form has the tasks at the top; its tag has no name in references.
    let tags: Vec<(String, Value)> = match whole.contains_key("tasks") {
        true => vec![("master".into(), Value::Object(whole))],
        false => whole.into_iter().collect(),
    };
    for (tag, list) in tags {
        let fault = |error: serde_json::Error| {
            ImportFault { line: None, ..ImportFault::json(file, 0, &error) }.field(&tag)
        };
        let list: TaskList = serde_json::from_value(list).map_err(fault)?;
        for task in &list.tasks {
            add(file, &tag, None, task, tasks)?;
        }
    }
    tell_apart(tasks);
    Ok(())
}

/// The tool has written files in which several subtasks share an id. Later ones get a count behind theirs.
fn tell_apart(tasks: &mut [ImportedTask]) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for task in tasks {
        let count = seen.entry(task.reference.clone()).or_default();
        *count += 1;
        if *count > 1 {
            task.reference = format!("{}~{count}", task.reference);
        }
    }
}

fn criteria(given: &Value) -> Vec<String> {
    let lines: Vec<&str> = match given {
        Value::String(text) => text.lines().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let plain = |line: &str| super::without_list_marks(line);
    lines.into_iter().map(plain).filter(|text| !text.is_empty()).collect()
}

/// Adds a task, or with `above` a subtask, whose plain numbers name its siblings.
fn add(
    file: &SourceFile,
    tag: &str,
    above: Option<&MasterTask>,
    given: &MasterTask,
    tasks: &mut Vec<ImportedTask>,
) -> Result<(), ImportFault> {
    let task_name = |id: &str| format!("task-master:{tag}#{id}");
    let id = match above {
        Some(above) => format!("{}.{}", plain(&above.id), plain(&given.id)),
        None => plain(&given.id),
    };
    let dep = |dep: &Value| match (above, plain(dep)) {
        (Some(above), number) if !number.contains('.') => {
            task_name(&format!("{}.{number}", plain(&above.id)))
        }
        (_, whole) => task_name(&whole),
    };
    let mut body = given.description.clone().unwrap_or_default();
    let parts = [("Details", &given.details), ("Test strategy", &given.test_strategy)];
    for (heading, text) in parts {
        if let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            body += &format!("\n\n## {heading}\n\n{text}");
        }
    }
    let task = ImportedTask {
        reference: task_name(&id),
        title: given.title.clone(),
        body: body.trim().to_owned(),
        state: match given.status.as_deref() {
            Some("done" | "completed") => ImportState::Done,
            Some("cancelled" | "canceled") => ImportState::Canceled,
            _ => ImportState::Open,
        },
        priority: super::priority_word(given.priority.as_deref()),
        parent: above.map(|above| task_name(&plain(&above.id))),
        is_epic: !given.subtasks.is_empty(),
        deps: given.dependencies.iter().map(dep).collect(),
        criteria: criteria(&given.acceptance_criteria),
        labels: vec![tag.to_owned()],
        ..ImportedTask::default()
    };
    // The file is one document: the task's name stands in for a line.
    let named = |mut fault: ImportFault| {
        fault.line = None;
        fault.message = format!("of task {id} {}", fault.message);
        fault
    };
    tasks.push(judged(file, 0, task).map_err(named)?);
    if above.is_some() && !given.subtasks.is_empty() {
        let message = format!("subtask {id} has subtasks of its own; one level is read");
        return Err(ImportFault { line: None, ..ImportFault::at(file, 0, message) });
    }
    given.subtasks.iter().try_for_each(|below| add(file, tag, Some(given), below, tasks))
}

/// An id as text: numbers in older files, strings in newer ones.
fn plain(id: &Value) -> String {
    match id {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}
