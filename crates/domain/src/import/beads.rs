//! Beads: one issue a line in `.beads/*.jsonl`. Only `blocks` and `parent-child` links order work; others are left out.

use serde::Deserialize;

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged};

#[derive(Deserialize)]
struct Bead {
    id: String,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    design: String,
    #[serde(default)]
    acceptance_criteria: String,
    #[serde(default)]
    notes: String,
    #[serde(default)]
    status: String,
    priority: Option<u16>,
    #[serde(default)]
    issue_type: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    dependencies: Vec<BeadLink>,
}

#[derive(Deserialize)]
struct BeadLink {
    depends_on_id: String,
    #[serde(rename = "type", default)]
    kind: String,
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    for (number, line) in (1..).zip(file.text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let bead: Bead = serde_json::from_str(line)
            .map_err(|error| ImportFault::at(file, number, error.to_string()))?;
        // A tombstone is a bead that was deleted.
        if bead.status == "tombstone" {
            continue;
        }
        let priority = bead.priority.map(|given| priority(file, number, given)).transpose()?;
        tasks.push(judged(file, number, task(bead, priority))?);
    }
    Ok(())
}

/// P0 to P4, of which P2 is the default, on the scale of tasks.
fn priority(file: &SourceFile, number: usize, given: u16) -> Result<u16, ImportFault> {
    const SCALE: [u16; 5] = [100, 300, 500, 700, 900];
    SCALE.get(usize::from(given)).copied().ok_or_else(|| {
        ImportFault::at(file, number, format!("must be 0..4, got {given}")).field("priority")
    })
}

fn task(bead: Bead, priority: Option<u16>) -> ImportedTask {
    let name = |id: &str| format!("beads:{id}");
    let links = |wanted: &[&str]| -> Vec<String> {
        let of_kind = |link: &&BeadLink| wanted.contains(&link.kind.as_str());
        let found = bead.dependencies.iter().filter(of_kind);
        found.map(|link| name(&link.depends_on_id)).collect()
    };
    let mut body = bead.description.clone();
    if !bead.design.trim().is_empty() {
        body = format!("{body}\n\n## Design\n\n{}", bead.design);
    }
    let criteria = bead.acceptance_criteria.lines().map(criterion);
    ImportedTask {
        reference: name(&bead.id),
        title: bead.title.clone(),
        body: body.trim().to_owned(),
        state: if bead.status == "closed" { ImportState::Done } else { ImportState::Open },
        priority,
        parent: links(&["parent-child"]).into_iter().next(),
        is_epic: bead.issue_type == "epic",
        deps: links(&["blocks", ""]),
        criteria: criteria.filter(|text| !text.is_empty()).collect(),
        notes: Some(bead.notes.trim().to_owned())
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect(),
        labels: bead.labels,
        ..ImportedTask::default()
    }
}

/// A line of acceptance criteria without the marks of a list.
fn criterion(line: &str) -> String {
    let text = line.trim().trim_start_matches(['-', '*', '+']).trim_start();
    let text =
        ["[ ]", "[x]", "[X]"].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
    text.trim().to_owned()
}
