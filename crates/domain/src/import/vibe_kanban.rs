//! vibe-kanban: the tasks of a project as its API answers them, `{"success": true, "data": [...]}`, or the bare list.

use serde::Deserialize;

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged, priority_word};

#[derive(Deserialize)]
#[serde(untagged)]
enum VibeTasks {
    Bare(Vec<VibeTask>),
    Data { data: Vec<VibeTask> },
    Tasks { tasks: Vec<VibeTask> },
}

#[derive(Deserialize)]
struct VibeTask {
    id: String,
    title: String,
    description: Option<String>,
    #[serde(default)]
    status: String,
    priority: Option<String>,
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    let broken = |error: serde_json::Error| {
        let line = Some(error.line()).filter(|line| *line > 0);
        ImportFault { line, ..ImportFault::at(file, 0, error.to_string()) }
    };
    let listed: VibeTasks = serde_json::from_str(&file.text).map_err(broken)?;
    let (VibeTasks::Bare(listed)
    | VibeTasks::Data { data: listed }
    | VibeTasks::Tasks { tasks: listed }) = listed;
    for given in listed {
        let status: String = given.status.to_lowercase().replace([' ', '_', '-'], "");
        let task = ImportedTask {
            reference: format!("vibe-kanban:{}", given.id),
            title: given.title,
            body: given.description.unwrap_or_default(),
            state: match status.as_str() {
                "done" => ImportState::Done,
                "cancelled" | "canceled" => ImportState::Canceled,
                _ => ImportState::Open,
            },
            priority: priority_word(given.priority.as_deref()),
            ..ImportedTask::default()
        };
        tasks.push(judged(file, 0, task).map_err(|mut fault| {
            fault.line = None;
            fault.message = format!("of task {} {}", given.id, fault.message);
            fault
        })?);
    }
    Ok(())
}
