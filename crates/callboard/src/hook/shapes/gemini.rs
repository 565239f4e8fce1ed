//! Gemini CLI: `hooks` in `.gemini/settings.json`.

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::{Value, json};

use super::{ClientShape, claude::context};

pub const SHAPE: ClientShape = ClientShape {
    name: "gemini",
    tools: &[("tool_name", "tool_input")],
    editors: &["write_file", "replace"],
    write,
};

fn write(event: HookEvent, answer: &HookAnswer) -> Option<Value> {
    match (event, answer) {
        (HookEvent::SessionStart, HookAnswer::Say(words)) => Some(context("SessionStart", words)),
        (HookEvent::AfterTool, HookAnswer::Say(words)) => Some(context("AfterTool", words)),
        (HookEvent::BeforeEdit, HookAnswer::Refuse(reason))
        | (HookEvent::TurnEnd, HookAnswer::GoOn(reason)) => {
            Some(json!({"decision": "deny", "reason": reason}))
        }
        _ => None,
    }
}
