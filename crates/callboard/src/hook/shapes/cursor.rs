//! Cursor: `.cursor/hooks.json`. The shapes are those of its documentation: no test has run them in Cursor.

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::{Value, json};

use super::ClientShape;

pub const SHAPE: ClientShape = ClientShape {
    name: "cursor",
    tools: &[("tool_name", "tool_input")],
    editors: &["Write", "Edit", "StrReplace", "Delete", "ApplyPatch", "EditNotebook"],
    write,
};

fn write(event: HookEvent, answer: &HookAnswer) -> Option<Value> {
    match (event, answer) {
        (HookEvent::SessionStart | HookEvent::AfterTool, HookAnswer::Say(words)) => {
            Some(json!({"additional_context": words}))
        }
        (HookEvent::BeforeEdit, HookAnswer::Refuse(reason)) => {
            // Cursor shows one message to the person and gives the other to the agent.
            Some(json!({"permission": "deny", "user_message": reason, "agent_message": reason}))
        }
        (HookEvent::TurnEnd, HookAnswer::GoOn(reason)) => Some(json!({"followup_message": reason})),
        _ => None,
    }
}
