//! Copilot, in its command line and in VS Code: `.github/hooks/callboard.json`. Copilot reads no words at the start of a
//! session; they are printed for the version that does.

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::{Value, json};

use super::ClientShape;

pub const SHAPE: ClientShape = ClientShape {
    name: "copilot",
    tool: ("toolName", "toolArgs"),
    editors: &["edit", "create", "str_replace_editor", "apply_patch"],
    write,
};

fn write(event: HookEvent, answer: &HookAnswer) -> Option<Value> {
    match (event, answer) {
        (HookEvent::SessionStart | HookEvent::AfterTool, HookAnswer::Say(words)) => {
            Some(json!({"additionalContext": words}))
        }
        (HookEvent::BeforeEdit, HookAnswer::Refuse(reason)) => {
            Some(json!({"permissionDecision": "deny", "permissionDecisionReason": reason}))
        }
        (HookEvent::TurnEnd, HookAnswer::GoOn(reason)) => {
            Some(json!({"decision": "block", "reason": reason}))
        }
        _ => None,
    }
}
