//! The shapes of each client: how its message is read, and how an answer is written. One file for each client.

mod claude;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod opencode;

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::Value;

use super::input::{HookInput, files_of};

/// How one client speaks to hooks.
pub struct ClientShape {
    pub name: &'static str,
    /// The keys of the tool's name and of its arguments; two pairs where two programs read one hook file.
    tools: &'static [(&'static str, &'static str)],
    /// Tools that write files.
    editors: &'static [&'static str],
    /// `None` where the client has no way to pass such an answer on.
    write: fn(HookEvent, &HookAnswer) -> Option<Value>,
}

const SHAPES: [&ClientShape; 6] = [
    &claude::SHAPE,
    &codex::SHAPE,
    &cursor::SHAPE,
    &gemini::SHAPE,
    &copilot::SHAPE,
    &opencode::SHAPE,
];

impl ClientShape {
    pub fn find(name: &str) -> Option<&'static ClientShape> {
        // VS Code reads the hook file of Copilot, so its messages come in either form.
        let name = if name == "vscode" { "copilot" } else { name };
        SHAPES.into_iter().find(|shape| shape.name == name)
    }

    pub fn read(&self, message: &Value) -> HookInput {
        let is_edit = |(name, _): &&(&str, &str)| {
            message[*name].as_str().is_some_and(|tool| self.editors.contains(&tool))
        };
        let edit = self.tools.iter().find(is_edit);
        // Cursor names no folder of the session; its first workspace is the one that is open.
        let roots = message["workspace_roots"][0].as_str();
        HookInput {
            cwd: message["cwd"].as_str().or(roots).map(str::to_owned),
            edits: edit.map(|(_, arguments)| files_of(&message[*arguments])).unwrap_or_default(),
        }
    }

    /// The text for the client's hook; `None` to print nothing.
    pub fn write(&self, event: HookEvent, answer: &HookAnswer) -> Option<String> {
        match answer {
            HookAnswer::Nothing => None,
            HookAnswer::Show(words) => Some(words.clone()),
            _ => (self.write)(event, answer).map(|message| message.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::hook::{HookAnswer, HookEvent};
    use serde_json::json;

    use super::*;

    /// Every client's messages before an edit, with the file that is found.
    #[test]
    fn messages_are_read() {
        let rows = [
            (
                "claude",
                json!({"cwd": "/p", "tool_name": "Edit", "tool_input": {"file_path": "/p/a"}}),
                "/p/a",
            ),
            (
                "claude",
                json!({"cwd": "/p", "tool_name": "Read", "tool_input": {"file_path": "/p/a"}}),
                "",
            ),
            (
                "claude",
                json!({"cwd": "/p", "tool_name": "NotebookEdit", "tool_input": {"notebook_path": "/p/n"}}),
                "/p/n",
            ),
            (
                "codex",
                json!({"cwd": "/p", "tool_name": "apply_patch", "tool_input": {"command": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}}),
                "a",
            ),
            (
                "codex",
                json!({"cwd": "/p", "tool_name": "Bash", "tool_input": {"command": "ls"}}),
                "",
            ),
            (
                "codex",
                json!({"cwd": "/p", "tool_name": "Bash", "tool_input": {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: b\n+x\n*** End Patch\nEOF"}}),
                "b",
            ),
            (
                "gemini",
                json!({"cwd": "/p", "tool_name": "write_file", "tool_input": {"file_path": "/p/a"}}),
                "/p/a",
            ),
            (
                "cursor",
                json!({"workspace_roots": ["/p"], "tool_name": "Write", "tool_input": {"file_path": "/p/a"}}),
                "/p/a",
            ),
            (
                "cursor",
                json!({"cwd": "/p", "tool_name": "EditNotebook", "tool_input": {"target_notebook": "/p/n"}}),
                "/p/n",
            ),
            (
                "cursor",
                json!({"cwd": "/p", "tool_name": "ApplyPatch", "tool_input": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}),
                "a",
            ),
            // Copilot's command line runs the hooks of Claude Code, with its names of tools and arguments of its own.
            (
                "claude",
                json!({"cwd": "/p", "tool_name": "Write", "tool_input": {"path": "/p/a", "file_text": "x"}}),
                "/p/a",
            ),
            (
                "copilot",
                json!({"cwd": "/p", "toolName": "create", "toolArgs": "{\"path\": \"/p/a\"}"}),
                "/p/a",
            ),
            (
                "copilot",
                json!({"cwd": "/p", "tool_name": "create_file", "tool_input": {"filePath": "/p/a"}}),
                "/p/a",
            ),
            (
                "copilot",
                json!({"cwd": "/p", "tool_name": "multi_replace_string_in_file", "tool_input": {
                    "explanation": "why", "replacements": [{"filePath": "/p/a"}, {"filePath": "/p/b"}],
                }}),
                "/p/a /p/b",
            ),
            (
                "copilot",
                json!({"cwd": "/p", "tool_name": "editFiles", "tool_input": {"files": ["/p/a", "/p/b"]}}),
                "/p/a /p/b",
            ),
            (
                "copilot",
                json!({"cwd": "/p", "tool_name": "read_file", "tool_input": {"filePath": "/p/a"}}),
                "",
            ),
            (
                "opencode",
                json!({"cwd": "/p", "tool": "write", "args": {"filePath": "/p/a"}}),
                "/p/a",
            ),
        ];
        for (client, message, file) in rows {
            let read = ClientShape::find(client).expect("a shape").read(&message);
            assert_eq!(read.cwd.as_deref(), Some("/p"), "{client}");
            assert_eq!(read.edits.join(" "), file, "{client}: {message}");
        }
    }

    /// Every client's answer to every event.
    #[test]
    fn answers_are_written() {
        use HookAnswer::{GoOn, Refuse, Say, Show};
        use HookEvent::{AfterTool, BeforeCompact, BeforeEdit, SessionStart, StatusLine, TurnEnd};
        let events = [
            (SessionStart, Say("S".into())),
            (BeforeEdit, Refuse("R".into())),
            (AfterTool, Say("A".into())),
            (BeforeCompact, Say("C".into())),
            (TurnEnd, GoOn("G".into())),
            (StatusLine, Show("L".into())),
        ];
        let context = |event: &str, words: &str| {
            json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": words}})
                .to_string()
        };
        let denied = json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "R",
        }});
        let blocked = json!({"decision": "block", "reason": "G"}).to_string();
        // Copilot's command line reads the first part, VS Code the second.
        let both = |mut first: Value, second: String| {
            let second: Value = serde_json::from_str(&second).expect("JSON");
            first["hookSpecificOutput"] = second["hookSpecificOutput"].clone();
            first.to_string()
        };
        let rows = [
            (
                "claude",
                [
                    context("SessionStart", "S"),
                    denied.to_string(),
                    context("PostToolUse", "A"),
                    String::new(),
                    blocked.clone(),
                ],
            ),
            (
                "codex",
                [
                    context("SessionStart", "S"),
                    denied.to_string(),
                    context("PostToolUse", "A"),
                    String::new(),
                    blocked.clone(),
                ],
            ),
            (
                "gemini",
                [
                    context("SessionStart", "S"),
                    json!({"decision": "deny", "reason": "R"}).to_string(),
                    context("AfterTool", "A"),
                    String::new(),
                    json!({"decision": "deny", "reason": "G"}).to_string(),
                ],
            ),
            (
                "cursor",
                [
                    json!({"additional_context": "S"}).to_string(),
                    json!({"permission": "deny", "user_message": "R", "agent_message": "R"})
                        .to_string(),
                    json!({"additional_context": "A"}).to_string(),
                    String::new(),
                    json!({"followup_message": "G"}).to_string(),
                ],
            ),
            (
                "copilot",
                [
                    both(json!({"additionalContext": "S"}), context("SessionStart", "S")),
                    both(
                        json!({"permissionDecision": "deny", "permissionDecisionReason": "R"}),
                        denied.to_string(),
                    ),
                    both(json!({"additionalContext": "A"}), context("PostToolUse", "A")),
                    String::new(),
                    both(
                        json!({"decision": "block", "reason": "G"}),
                        json!({"hookSpecificOutput": {
                            "hookEventName": "Stop", "decision": "block", "reason": "G",
                        }})
                        .to_string(),
                    ),
                ],
            ),
            (
                "opencode",
                [
                    json!({"say": "S"}).to_string(),
                    json!({"refuse": "R"}).to_string(),
                    json!({"say": "A"}).to_string(),
                    json!({"say": "C"}).to_string(),
                    json!({"goOn": "G"}).to_string(),
                ],
            ),
        ];
        for (client, wanted) in rows {
            let shape = ClientShape::find(client).expect("a shape");
            for ((event, answer), wanted) in events.iter().zip(&wanted) {
                let said = shape.write(*event, answer).unwrap_or_default();
                assert_eq!(&said, wanted, "{client}: {event:?}");
            }
            assert_eq!(shape.write(StatusLine, &events[5].1).as_deref(), Some("L"));
            assert_eq!(shape.write(TurnEnd, &HookAnswer::Nothing), None);
        }
    }
}
