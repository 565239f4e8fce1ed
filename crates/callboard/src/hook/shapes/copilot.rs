//! Copilot, in its command line and in VS Code. Both read `.github/hooks/callboard.json`, and each has messages and
//! answers of its own: VS Code names fields as Claude Code does, and has tools of its own. An answer holds both forms,
//! because each program leaves out what it does not know.

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::{Value, json};

use super::{ClientShape, claude};

pub const SHAPE: ClientShape = ClientShape {
    name: "copilot",
    tools: &[("toolName", "toolArgs"), ("tool_name", "tool_input")],
    editors: &[
        "edit",
        "create",
        "str_replace_editor",
        "apply_patch",
        // VS Code.
        "create_file",
        "insert_edit_into_file",
        "replace_string_in_file",
        "multi_replace_string_in_file",
        "edit_notebook_file",
        "editFiles",
        "createFile",
    ],
    write,
};

fn write(event: HookEvent, answer: &HookAnswer) -> Option<Value> {
    let mut said = match (event, answer) {
        (HookEvent::SessionStart | HookEvent::AfterTool, HookAnswer::Say(words)) => {
            json!({"additionalContext": words})
        }
        (HookEvent::BeforeEdit, HookAnswer::Refuse(reason)) => {
            json!({"permissionDecision": "deny", "permissionDecisionReason": reason})
        }
        (HookEvent::TurnEnd, HookAnswer::GoOn(reason)) => {
            json!({"decision": "block", "reason": reason})
        }
        _ => return None,
    };
    said["hookSpecificOutput"] = match answer {
        HookAnswer::GoOn(reason) => {
            json!({"hookEventName": "Stop", "decision": "block", "reason": reason})
        }
        _ => claude::write(event, answer)?["hookSpecificOutput"].take(),
    };
    Some(said)
}
