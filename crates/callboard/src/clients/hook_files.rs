//! The hook files of each client: which of its events call `callboard hook`, and in which shape.

use callboard_domain::hook::HookEvent;
use serde_json::{Value, json};

use super::entry::{ClientEntry, EntryKind, HOOK_COMMAND};
use super::file::{ClientFile, FilePart, Format};
use super::homes;
use super::plan::FilesRoot;
use super::table::FileScope;
use crate::output::Failure;

/// A client gives up on a hook after this long, in seconds.
const TIMEOUT_S: u32 = 5;

/// One of a client's events, the tools it is about, and the moment it is for us.
type HookRow = (&'static str, Option<&'static str>, HookEvent);

const CLAUDE: [HookRow; 5] = [
    ("SessionStart", None, HookEvent::SessionStart),
    ("PreToolUse", Some("Edit|MultiEdit|Write|NotebookEdit"), HookEvent::BeforeEdit),
    ("PostToolUse", None, HookEvent::AfterTool),
    ("PreCompact", None, HookEvent::BeforeCompact),
    ("Stop", None, HookEvent::TurnEnd),
];
const CODEX: [HookRow; 5] = [
    ("SessionStart", None, HookEvent::SessionStart),
    ("PreToolUse", Some("^(apply_patch|Bash)$"), HookEvent::BeforeEdit),
    ("PostToolUse", None, HookEvent::AfterTool),
    ("PreCompact", None, HookEvent::BeforeCompact),
    ("Stop", None, HookEvent::TurnEnd),
];
const GEMINI: [HookRow; 5] = [
    ("SessionStart", None, HookEvent::SessionStart),
    ("BeforeTool", Some("write_file|replace"), HookEvent::BeforeEdit),
    ("AfterTool", None, HookEvent::AfterTool),
    ("PreCompress", None, HookEvent::BeforeCompact),
    ("AfterAgent", None, HookEvent::TurnEnd),
];
const CURSOR: [HookRow; 5] = [
    ("sessionStart", None, HookEvent::SessionStart),
    ("preToolUse", None, HookEvent::BeforeEdit),
    ("postToolUse", None, HookEvent::AfterTool),
    ("preCompact", None, HookEvent::BeforeCompact),
    ("stop", None, HookEvent::TurnEnd),
];
const COPILOT: [HookRow; 5] = [
    ("sessionStart", None, HookEvent::SessionStart),
    ("preToolUse", None, HookEvent::BeforeEdit),
    ("postToolUse", None, HookEvent::AfterTool),
    ("preCompact", None, HookEvent::BeforeCompact),
    ("agentStop", None, HookEvent::TurnEnd),
];

/// The hook file of a client; none where it has none for this scope.
pub fn of(client: &str, root: &FilesRoot) -> Result<Option<ClientFile>, Failure> {
    let (project, (home, file), part) = match client {
        "claude" => {
            let mut entries = grouped(&CLAUDE, |event| unfailing("claude", event), TIMEOUT_S);
            let line =
                json!({"type": "command", "command": command("claude", HookEvent::StatusLine)});
            entries.push(ClientEntry {
                at: vec!["statusLine"],
                kind: EntryKind::Free,
                value: line,
            });
            (".claude/settings.json", (homes::CLAUDE, "settings.json"), json_part(entries))
        }
        "codex" => {
            let entries = grouped(&CODEX, |event| command("codex", event), TIMEOUT_S);
            (".codex/hooks.json", (homes::CODEX, "hooks.json"), json_part(entries))
        }
        "gemini" => {
            // Gemini CLI counts milliseconds.
            let entries = grouped(&GEMINI, |event| unfailing("gemini", event), TIMEOUT_S * 1000);
            (".gemini/settings.json", (homes::GEMINI, "settings.json"), json_part(entries))
        }
        "cursor" => {
            let entries = versioned(
                &CURSOR,
                |event| json!({"command": unfailing("cursor", event), "timeout": TIMEOUT_S}),
            );
            (".cursor/hooks.json", (homes::CURSOR, "hooks.json"), json_part(entries))
        }
        // One file serves both, in the project and among the user's own files.
        "vscode" | "copilot" => (
            ".github/hooks/callboard.json",
            (homes::COPILOT, "hooks/callboard.json"),
            json_part(copilot()),
        ),
        "opencode" => (
            ".opencode/plugins/callboard.js",
            (homes::OPENCODE, "plugins/callboard.js"),
            FilePart::Whole(include_str!("opencode.js")),
        ),
        _ => return Ok(None),
    };
    let path = match root.scope {
        FileScope::Project => project.into(),
        FileScope::User => root.of_client(&home, file)?,
    };
    Ok(Some(ClientFile { path, part }))
}

fn json_part(entries: Vec<ClientEntry>) -> FilePart {
    FilePart::Entries { format: Format::Json, entries }
}

fn command(client: &str, event: HookEvent) -> String {
    format!("{HOOK_COMMAND}{} --client {client}", event.as_str())
}

/// A command that succeeds where callboard is not installed: the files are committed and read on other machines. When a
/// hook fails there, Copilot and Gemini CLI refuse each edit, and Gemini CLI begins its turn again without end. Copilot
/// also reads `.claude/settings.json`. Codex goes on by itself, and would ask to trust the changed command.
fn unfailing(client: &str, event: HookEvent) -> String {
    format!("{} || true", command(client, event))
}

fn copilot() -> Vec<ClientEntry> {
    let hook = |event| {
        let command = unfailing("copilot", event);
        json!({"type": "command", "bash": command, "timeoutSec": TIMEOUT_S})
    };
    versioned(&COPILOT, hook)
}

/// Groups of hooks with the tools that they are about, as Claude Code has them.
fn grouped(rows: &[HookRow], command: fn(HookEvent) -> String, timeout: u32) -> Vec<ClientEntry> {
    let entry = |(name, tools, event): &HookRow| {
        let hook = json!({"type": "command", "command": command(*event), "timeout": timeout});
        let mut group = json!({});
        if let Some(tools) = tools {
            group["matcher"] = (*tools).into();
        }
        group["hooks"] = json!([hook]);
        ClientEntry { at: vec!["hooks", name], kind: EntryKind::Item, value: group }
    };
    rows.iter().map(entry).collect()
}

/// A flat list for each event, in a file with a version.
fn versioned(rows: &[HookRow], hook: fn(HookEvent) -> Value) -> Vec<ClientEntry> {
    let version = ClientEntry { at: vec!["version"], kind: EntryKind::Free, value: 1.into() };
    let entry = |(name, _, event): &HookRow| ClientEntry {
        at: vec!["hooks", name],
        kind: EntryKind::Item,
        value: hook(*event),
    };
    std::iter::once(version).chain(rows.iter().map(entry)).collect()
}
