//! Random messages for `callboard hook`, in the shape of each client and in none: a hook ends well, says nothing or one
//! document, and refuses no edit for a fault of its own.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Map, Value, json};

use crate::ground::Ground;
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 3;
const CLIENTS: &[&str] = &["claude", "codex", "cursor", "gemini", "copilot", "opencode"];
const EVENTS: &[&str] =
    &["session-start", "before-edit", "after-tool", "before-compact", "turn-end", "status-line"];
const KEYS: &[&str] = &[
    "cwd",
    "session_id",
    "hook_event_name",
    "tool_name",
    "toolName",
    "tool",
    "tool_input",
    "toolInput",
    "toolArgs",
    "args",
    "tool_response",
    "workspace_roots",
    "source",
    "prompt",
    "stop_hook_active",
    "model",
    "workspace",
    "cost",
    "file_path",
    "filePath",
];
const TOOLS: &[&str] = &[
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "Bash",
    "apply_patch",
    "edit",
    "create",
    "write_file",
    "replace",
    "str_replace",
];
/// Keys under which a tool's arguments name files.
const FILES: &[&str] = &[
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "absolute_path",
    "files",
    "replacements",
    "command",
    "patch",
    "patchText",
    "input",
];

#[test]
fn a_hook_ends_well_whatever_it_is_told() {
    let ground = Ground::new(None);
    let task = ground.ok(&["task", "add", "Task"]);
    ground.ok(&["claim", task.trim(), "--actor", "agent:w1"]);
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        for event in EVENTS {
            let client = rng.name(CLIENTS);
            let message = message(&mut rng, ground.path().to_str().unwrap());
            run(&ground, client, event, &message);
        }
        // The only event that can refuse something, for each client.
        for client in CLIENTS {
            run(
                &ground,
                client,
                "before-edit",
                &message(&mut rng, ground.path().to_str().unwrap()),
            );
        }
    }
    ground.judge_store();
}

fn run(ground: &Ground, client: &str, event: &str, message: &[u8]) {
    let mut hook = ground.program();
    hook.args(["hook", event, "--client", client]).env("CALLBOARD_ACTOR", "agent:w1");
    let mut child =
        hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A hook that has nothing to do may end before it reads.
    let _ = child.stdin.take().unwrap().write_all(message);
    let ended = child.wait_with_output().unwrap();
    let told = || {
        format!(
            "{client} {event} {}",
            String::from_utf8_lossy(&message[..message.len().min(3_000)])
        )
    };
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{:?} for {}: {errors}", ended.status, told());
    assert!(!errors.contains("panicked"), "{}: {errors}", told());
    let said =
        std::str::from_utf8(&ended.stdout).unwrap_or_else(|_| panic!("no text for {}", told()));
    assert!(said.len() < 100_000, "{} bytes for {}", said.len(), told());
    // A message that cannot be read names no file, so nothing is refused.
    if event == "before-edit" && serde_json::from_slice::<Value>(message).is_err() {
        assert_eq!(said, "", "{}", told());
    }
}

fn message(rng: &mut Rng, folder: &str) -> Vec<u8> {
    let mut map = Map::new();
    for key in KEYS {
        if rng.percent(60) {
            map.insert((*key).into(), field(rng, key, folder));
        }
    }
    let text = Value::Object(map).to_string();
    match rng.below(10) {
        0 => wild::mutated(rng, &text),
        1 => wild::value(rng).to_string().into_bytes(),
        2 => (0..rng.below(500)).map(|_| rng.next() as u8).collect(),
        3 => "[".repeat(100_000).into_bytes(),
        _ => text.into_bytes(),
    }
}

fn field(rng: &mut Rng, key: &str, folder: &str) -> Value {
    if rng.percent(25) {
        return wild::value(rng);
    }
    match key {
        // A folder that is gone, or that is none, leaves the one of the process.
        "cwd" => rng.name(&[".", "/", "/no/such/folder", "a\0b"]).into(),
        "workspace_roots" => json!([folder]),
        "tool_name" | "toolName" | "tool" => rng.name(TOOLS).into(),
        "tool_input" | "toolInput" | "toolArgs" | "args" => {
            let patch = format!(
                "*** Begin Patch\n*** Update File: {}\n@@\n-x\n*** End Patch",
                wild::short(rng)
            );
            let value = match rng.below(5) {
                0 => json!(patch),
                1 => json!(format!("{folder}/a.txt")),
                2 => json!([{"path": wild::short(rng)}, wild::short(rng), wild::value(rng)]),
                3 => wild::value(rng),
                _ => json!(wild::short(rng)),
            };
            let arguments = json!({ rng.name(FILES): value });
            // Some clients send the arguments as text.
            if rng.percent(30) { arguments.to_string().into() } else { arguments }
        }
        _ => wild::short(rng).into(),
    }
}
