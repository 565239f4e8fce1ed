//! The hook files of each client: which of its events call `callboard hook`, and in which shape.

use callboard_domain::hook::HookEvent;
use serde_json::{Value, json};

use super::entry::{ClientEntry, EntryKind, HOOK_COMMAND};
use super::file::{ClientFile, FilePart, Format};
use super::table::FileScope;

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
pub fn of(client: &str, scope: FileScope) -> Option<ClientFile> {
    let is_project = scope == FileScope::Project;
    let json = |path: &str, entries| Some(ClientFile::merged(path.into(), Format::Json, entries));
    match client {
        "claude" => {
            let mut entries = grouped("claude", &CLAUDE, TIMEOUT_S);
            let line =
                json!({"type": "command", "command": command("claude", HookEvent::StatusLine)});
            entries.push(ClientEntry {
                at: vec!["statusLine"],
                kind: EntryKind::Free,
                value: line,
            });
            json(".claude/settings.json", entries)
        }
        "codex" => json(".codex/hooks.json", grouped("codex", &CODEX, TIMEOUT_S)),
        // Gemini CLI counts milliseconds.
        "gemini" => json(".gemini/settings.json", grouped("gemini", &GEMINI, TIMEOUT_S * 1000)),
        "cursor" => json(
            ".cursor/hooks.json",
            versioned(
                &CURSOR,
                |event| json!({"command": command("cursor", event), "timeout": TIMEOUT_S}),
            ),
        ),
        // One file of the project serves both; of a user's own files VS Code reads none.
        "vscode" | "copilot" if is_project => json(".github/hooks/callboard.json", copilot()),
        "copilot" => json(".copilot/hooks/callboard.json", copilot()),
        "opencode" => {
            let path = match scope {
                FileScope::Project => ".opencode/plugins/callboard.js",
                FileScope::User => ".config/opencode/plugins/callboard.js",
            };
            Some(ClientFile {
                path: path.into(),
                part: FilePart::Whole(include_str!("opencode.js")),
            })
        }
        _ => None,
    }
}

fn command(client: &str, event: HookEvent) -> String {
    format!("{HOOK_COMMAND}{} --client {client}", event.as_str())
}

/// Copilot denies a tool call when the hook before it fails, also where the program is not installed. The file is
/// committed and read on other machines, so a command of ours never fails.
fn copilot() -> Vec<ClientEntry> {
    let hook = |event| {
        let command = format!("{} || true", command("copilot", event));
        json!({"type": "command", "bash": command, "timeoutSec": TIMEOUT_S})
    };
    versioned(&COPILOT, hook)
}

/// Groups of hooks with the tools that they are about, as Claude Code has them.
fn grouped(client: &str, rows: &[HookRow], timeout: u32) -> Vec<ClientEntry> {
    let entry = |(name, tools, event): &HookRow| {
        let hook =
            json!({"type": "command", "command": command(client, *event), "timeout": timeout});
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
