//! opencode: a plugin of ours (`clients/opencode.js`) asks, so the words are our own.

use callboard_domain::hook::HookAnswer;
use serde_json::json;

use super::ClientShape;

pub const SHAPE: ClientShape = ClientShape {
    name: "opencode",
    tools: &[("tool", "args")],
    editors: &["write", "edit", "patch", "apply_patch", "multiedit"],
    write: |_, answer| match answer {
        HookAnswer::Say(words) => Some(json!({"say": words})),
        HookAnswer::Refuse(reason) => Some(json!({"refuse": reason})),
        HookAnswer::GoOn(reason) => Some(json!({"goOn": reason})),
        HookAnswer::Nothing | HookAnswer::Show(_) => None,
    },
};
