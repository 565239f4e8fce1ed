//! Backlogs of other tools: a reader for each format (text in, `ImportedTask` out) and `plan.rs`, which compares them
//! with the board. Pure; files and forges are read at the edge.

mod backlog;
mod beads;
mod csv;
mod edited;
mod embedded;
mod forge;
mod jsonl;
mod markdown;
pub mod plan;
mod task_master;
mod vibe_kanban;

use serde::{Deserialize, Serialize};

use crate::command::NewCheck;
use crate::forge::ForgeKind;
use crate::limits::{IMPORT_BYTES_MAX, IMPORTED_AT_ONCE_MAX, REFERENCE_CHARS_MAX, TITLE_CHARS_MAX};
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::text::is_obeyed;
use crate::words::words;
use embedded::Document;

pub use embedded::embed;
pub use jsonl::line;

words! {
    /// A format that a backlog can be read from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ImportFormat {
        Jsonl => "jsonl",
        Markdown => "markdown",
        Html => "html",
        Beads => "beads",
        Backlog => "backlog",
        TaskMaster => "task-master",
        VibeKanban => "vibe-kanban",
        GitHub => "github",
        GitLab => "gitlab",
    }
}

impl ImportFormat {
    /// The format that a path names.
    pub fn of_path(path: &str, is_folder: bool) -> Option<Self> {
        let mut parts = path.trim_end_matches('/').rsplit('/');
        let last = parts.next()?;
        if is_folder {
            return match last {
                ".beads" => Some(ImportFormat::Beads),
                "backlog" | ".backlog" => Some(ImportFormat::Backlog),
                ".taskmaster" => Some(ImportFormat::TaskMaster),
                _ => None,
            };
        }
        match last.rsplit_once('.')? {
            (_, "md" | "markdown") => Some(ImportFormat::Markdown),
            (_, "html") => Some(ImportFormat::Html),
            (_, "jsonl") if parts.next() == Some(".beads") => Some(ImportFormat::Beads),
            (_, "jsonl") => Some(ImportFormat::Jsonl),
            ("tasks", "json") => Some(ImportFormat::TaskMaster),
            ("issues", "csv") => Some(ImportFormat::VibeKanban),
            _ => None,
        }
    }

    /// The forge that lists the tasks; `None` for files.
    pub fn forge(self) -> Option<ForgeKind> {
        match self {
            ImportFormat::GitHub => Some(ForgeKind::GitHub),
            ImportFormat::GitLab => Some(ForgeKind::GitLab),
            ImportFormat::Jsonl
            | ImportFormat::Markdown
            | ImportFormat::Html
            | ImportFormat::Beads
            | ImportFormat::Backlog
            | ImportFormat::TaskMaster
            | ImportFormat::VibeKanban => None,
        }
    }

    /// The extension of the format's files in a folder.
    pub fn extension(self) -> &'static str {
        match self {
            ImportFormat::Jsonl | ImportFormat::Beads => "jsonl",
            ImportFormat::Markdown | ImportFormat::Backlog => "md",
            ImportFormat::Html => "html",
            ImportFormat::TaskMaster
            | ImportFormat::VibeKanban
            | ImportFormat::GitHub
            | ImportFormat::GitLab => "json",
        }
    }

    /// The folders below a source that hold the files instead of the source itself.
    pub fn folders(self) -> &'static [&'static str] {
        match self {
            ImportFormat::Backlog => &["tasks", "completed"],
            ImportFormat::TaskMaster => &["tasks"],
            ImportFormat::Jsonl
            | ImportFormat::Markdown
            | ImportFormat::Html
            | ImportFormat::Beads
            | ImportFormat::VibeKanban
            | ImportFormat::GitHub
            | ImportFormat::GitLab => &[],
        }
    }
}

/// A priority in words, on the scale of tasks. An unknown word says nothing.
fn priority_word(word: Option<&str>) -> Option<u16> {
    match word?.trim().to_lowercase().as_str() {
        "critical" | "urgent" | "p0" => Some(50),
        "high" | "p1" => Some(100),
        "medium" | "normal" | "p2" => Some(500),
        "low" | "p3" => Some(900),
        _ => None,
    }
}

/// A line of acceptance criteria without the marks of a list.
fn without_list_marks(line: &str) -> String {
    let text = line.trim().trim_start_matches(['-', '*', '+']).trim_start();
    let text =
        ["[ ]", "[x]", "[X]"].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
    text.trim().to_owned()
}

words! {
    /// Whether an imported task is open, and how it was closed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ImportState {
        #[default]
        Open => "open",
        Done => "done",
        Canceled => "canceled",
    }
}

impl ImportState {
    pub fn is_closed(self) -> bool {
        self != ImportState::Open
    }

    pub fn of(phase: Phase) -> Self {
        match phase {
            Phase::Initial | Phase::Working | Phase::Review => ImportState::Open,
            Phase::ClosedDone => ImportState::Done,
            Phase::ClosedCanceled => ImportState::Canceled,
        }
    }

    /// The phase of a task that is created in this state. Work that was under way elsewhere has no attempt here.
    pub fn phase(self) -> Phase {
        match self {
            ImportState::Open => Phase::Initial,
            ImportState::Done => Phase::ClosedDone,
            ImportState::Canceled => Phase::ClosedCanceled,
        }
    }
}

/// A task of a backlog. It names other tasks by their references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedTask {
    /// The name of the task in its backlog; unique, and the same at each import.
    pub reference: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    #[serde(default)]
    pub state: ImportState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The task exists to have children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_epic: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ImportedCheck>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A check: with a command, or to be attested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedCheck {
    pub desc: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

impl From<&ImportedCheck> for NewCheck {
    fn from(check: &ImportedCheck) -> Self {
        let ImportedCheck { desc, cmd, cwd, timeout_s } = check.clone();
        Self { desc, manual: cmd.is_none(), cmd, cwd, timeout_s }
    }
}

/// A file of a backlog. `name` is its path below the project, so that references stay the same on each machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub name: String,
    pub text: String,
}

/// Why a backlog cannot be imported: the place and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", place(file, *line), field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default())]
pub struct ImportFault {
    /// Empty when the fault is not in one file.
    pub file: String,
    pub line: Option<usize>,
    pub field: Option<String>,
    pub message: String,
}

impl From<ImportFault> for Refusal {
    fn from(fault: ImportFault) -> Self {
        Self::InvalidInput { message: fault.to_string(), field: fault.field }
    }
}

fn place(file: &str, line: Option<usize>) -> String {
    match (file, line) {
        ("", _) => String::new(),
        (file, None) => format!("{file}: "),
        (file, Some(line)) => format!("{file}:{line}: "),
    }
}

impl ImportFault {
    fn at(file: &SourceFile, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.name.clone(), line: Some(line), field: None, message: message.into() }
    }

    /// A fault of JSON in the reader's own words, which name a line themselves: of the text that was read, and not
    /// always of the file.
    fn json(file: &SourceFile, line: usize, error: &serde_json::Error) -> Self {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        let message = match error.is_data() {
            true => words.to_owned(),
            false => format!("is not JSON: {words}, column {}", error.column()),
        };
        Self::at(file, line, message)
    }

    fn field(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    fn whole(message: impl Into<String>) -> Self {
        Self { file: String::new(), line: None, field: None, message: message.into() }
    }
}

/// Reads the files of a backlog.
pub fn read(format: ImportFormat, files: &[SourceFile]) -> Result<Vec<ImportedTask>, ImportFault> {
    let bytes: usize = files.iter().map(|file| file.text.len()).sum();
    if bytes > IMPORT_BYTES_MAX {
        let message = format!("the files have {bytes} bytes; at most {IMPORT_BYTES_MAX} are read");
        return Err(ImportFault::whole(message));
    }
    let mut tasks = Vec::new();
    for file in files {
        match format {
            ImportFormat::Jsonl => jsonl::read(file, &mut tasks)?,
            ImportFormat::Markdown | ImportFormat::Html => document(format, file, &mut tasks)?,
            ImportFormat::Beads => beads::read(file, &mut tasks)?,
            ImportFormat::Backlog => backlog::read(file, &mut tasks)?,
            ImportFormat::TaskMaster => task_master::read(file, &mut tasks)?,
            ImportFormat::VibeKanban => vibe_kanban::read(file, &mut tasks)?,
            ImportFormat::GitHub => forge::github(file, &mut tasks)?,
            ImportFormat::GitLab => forge::gitlab(file, &mut tasks)?,
        }
        if tasks.len() > IMPORTED_AT_ONCE_MAX {
            let message = format!("more than {IMPORTED_AT_ONCE_MAX} tasks; split the backlog");
            return Err(ImportFault { file: file.name.clone(), ..ImportFault::whole(message) });
        }
    }
    Ok(tasks)
}

/// Reads a document for people: an export by its own lines, another Markdown plan by its checkboxes.
fn document(
    format: ImportFormat,
    file: &SourceFile,
    tasks: &mut Vec<ImportedTask>,
) -> Result<(), ImportFault> {
    let of = |text: &str| SourceFile { name: file.name.clone(), text: text.to_owned() };
    let fault =
        |message: &str| ImportFault { file: file.name.clone(), ..ImportFault::whole(message) };
    match (embedded::read(&file.text), format) {
        (Document::Export(lines), _) => jsonl::read(&of(&lines), tasks),
        (Document::Edited { .. }, ImportFormat::Html) => {
            Err(fault("was edited after its export; import the export as .jsonl or .md"))
        }
        (Document::Plain, ImportFormat::Html) => Err(fault("is no export of callboard")),
        (Document::Edited { text, lines }, _) => {
            let mut known = Vec::new();
            // A comment that cannot be read says nothing; the text stands for itself then.
            if jsonl::read(&of(lines), &mut known).is_err() {
                known.clear();
            }
            edited::read(&of(text), &known, tasks)
        }
        (Document::Plain, _) => edited::read(file, &[], tasks),
    }
}

/// Judges the texts that the rules of a task do not look at: a title is one line, and a database keeps no NUL.
fn judged(file: &SourceFile, line: usize, task: ImportedTask) -> Result<ImportedTask, ImportFault> {
    let fault = |field: &str, message: String| ImportFault::at(file, line, message).field(field);
    for (field, text, chars_max) in [
        ("reference", &task.reference, REFERENCE_CHARS_MAX),
        ("title", &task.title, TITLE_CHARS_MAX),
    ] {
        if text.trim().is_empty() {
            return Err(fault(field, "cannot be empty".into()));
        }
        if text.chars().any(|c| is_obeyed(c) || c == '\n') {
            return Err(fault(field, "has control characters".into()));
        }
        let chars = text.chars().count();
        if chars > chars_max {
            return Err(fault(field, format!("has {chars} characters; at most {chars_max} fit")));
        }
    }
    let texts = [("body", &task.body)].into_iter();
    let lists = [
        ("deps", &task.deps),
        ("criteria", &task.criteria),
        ("labels", &task.labels),
        ("notes", &task.notes),
    ];
    let listed =
        lists.into_iter().flat_map(|(field, list)| list.iter().map(move |text| (field, text)));
    let commands = task.checks.iter().flat_map(|check| [Some(&check.desc), check.cmd.as_ref()]);
    let commands = commands.flatten().map(|text| ("checks", text));
    for (field, text) in texts.chain(listed).chain(commands) {
        if text.contains('\0') {
            return Err(fault(field, "has a NUL character".into()));
        }
    }
    Ok(task)
}
