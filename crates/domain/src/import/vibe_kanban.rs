//! vibe-kanban: `issues.csv` of the archive that its export page makes, or the issues and tasks that its API and its MCP
//! server answer with, `{"success": true, "data": [...]}` or the bare list.

use serde::Deserialize;

use super::{ImportFault, ImportState, ImportedTask, SourceFile, csv, judged, priority_word};

#[derive(Deserialize)]
#[serde(untagged)]
enum VibeTasks {
    Bare(Vec<VibeTask>),
    Data { data: Vec<VibeTask> },
    Issues { issues: Vec<VibeTask> },
    Tasks { tasks: Vec<VibeTask> },
}

#[derive(Default, Deserialize)]
struct VibeTask {
    id: String,
    title: String,
    description: Option<String>,
    #[serde(default)]
    status: String,
    priority: Option<String>,
    parent_issue_id: Option<String>,
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    if file.name.to_lowercase().ends_with(".csv") {
        return exported(file, tasks);
    }
    let broken = |error: serde_json::Error| {
        let line = Some(error.line()).filter(|line| *line > 0);
        ImportFault { line, ..ImportFault::json(file, 0, &error) }
    };
    let listed: VibeTasks = serde_json::from_str(&file.text).map_err(broken)?;
    let (VibeTasks::Bare(listed)
    | VibeTasks::Data { data: listed }
    | VibeTasks::Issues { issues: listed }
    | VibeTasks::Tasks { tasks: listed }) = listed;
    for given in listed {
        let id = given.id.clone();
        tasks.push(judged(file, 0, task(given)).map_err(|mut fault| {
            fault.line = None;
            fault.message = format!("of task {id} {}", fault.message);
            fault
        })?);
    }
    Ok(())
}

/// The issues of an export: a line with the names of the columns, then an issue each.
fn exported(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    let unclosed = |line| ImportFault::at(file, line, "a quote is not closed");
    let mut records = csv::records(&file.text).map_err(unclosed)?.into_iter();
    let names = records.next().map(|record| record.fields).unwrap_or_default();
    let column = |name: &str| {
        let found = names.iter().position(|known| known.trim() == name);
        found.ok_or_else(|| ImportFault::at(file, 1, "this column is missing").field(name))
    };
    let (id, title) = (column("Issue ID")?, column("Title")?);
    let (description, status) = (column("Description")?, column("Status")?);
    let (priority, parent) = (column("Priority")?, column("Parent Issue")?);
    for record in records {
        let text = |at: usize| record.fields.get(at).cloned().unwrap_or_default();
        let given = VibeTask {
            id: text(id),
            title: text(title),
            description: Some(text(description)),
            status: text(status),
            priority: Some(text(priority)),
            parent_issue_id: Some(text(parent)).filter(|parent| !parent.is_empty()),
        };
        tasks.push(judged(file, record.line, task(given))?);
    }
    Ok(())
}

fn task(given: VibeTask) -> ImportedTask {
    let name = |id: &str| format!("vibe-kanban:{id}");
    let status: String = given.status.to_lowercase().replace([' ', '_', '-'], "");
    ImportedTask {
        reference: name(&given.id),
        title: given.title,
        body: given.description.unwrap_or_default(),
        state: match status.as_str() {
            "done" => ImportState::Done,
            "cancelled" | "canceled" => ImportState::Canceled,
            _ => ImportState::Open,
        },
        priority: priority_word(given.priority.as_deref()),
        parent: given.parent_issue_id.as_deref().map(name),
        ..ImportedTask::default()
    }
}
