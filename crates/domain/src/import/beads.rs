//! Beads: one issue a line in `.beads/*.jsonl`. Links that keep a bead from starting are deps, `parent-child` links are
//! parents; other links order no work and are left out. So are lines that are no issue, and beads that are no work.

use serde::Deserialize;
use serde_json::Value;

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged, without_list_marks};

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
    #[serde(default)]
    comments: Vec<BeadComment>,
    /// Not synced by the tool; `wisp` is the older name.
    #[serde(default, alias = "wisp")]
    ephemeral: bool,
    #[serde(default)]
    is_template: bool,
    /// A marker of context that stays open.
    #[serde(default)]
    pinned: bool,
}

#[derive(Deserialize)]
struct BeadComment {
    #[serde(default)]
    text: String,
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
        let fault = |error: serde_json::Error| ImportFault::json(file, number, &error);
        let record: Value = serde_json::from_str(line).map_err(fault)?;
        // The header of an export has a schema. The tool's memories stand between the issues.
        let is_issue = record["_type"].as_str().is_none_or(|kind| kind == "issue");
        if !is_issue || record.get("_schema").is_some() {
            continue;
        }
        let bead: Bead = serde_json::from_value(record).map_err(fault)?;
        if !bead.is_work() {
            continue;
        }
        let priority = bead.priority.map(|given| priority(file, number, given)).transpose()?;
        tasks.push(judged(file, number, task(bead, priority))?);
    }
    Ok(())
}

impl Bead {
    /// A tombstone is a bead that was deleted. Messages, events and gates are how agents of the tool talk.
    fn is_work(&self) -> bool {
        let talks = matches!(self.issue_type.as_str(), "message" | "event" | "gate");
        let stands = self.is_template || self.pinned || self.ephemeral || self.status == "pinned";
        self.status != "tombstone" && !talks && !stands
    }
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
    let criteria = bead.acceptance_criteria.lines().map(without_list_marks);
    ImportedTask {
        reference: name(&bead.id),
        title: bead.title.clone(),
        body: body.trim().to_owned(),
        state: if bead.status == "closed" { ImportState::Done } else { ImportState::Open },
        priority,
        parent: links(&["parent-child"]).into_iter().next(),
        is_epic: bead.issue_type == "epic",
        deps: links(&["blocks", "conditional-blocks", "waits-for", ""]),
        criteria: criteria.filter(|text| !text.is_empty()).collect(),
        notes: std::iter::once(&bead.notes)
            .chain(bead.comments.iter().map(|comment| &comment.text))
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect(),
        labels: bead.labels,
        ..ImportedTask::default()
    }
}
