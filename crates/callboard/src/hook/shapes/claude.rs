//! Claude Code: `hooks` in `.claude/settings.json`, and the status line.

use callboard_domain::hook::{HookAnswer, HookEvent};
use serde_json::{Value, json};

use super::ClientShape;

pub const SHAPE: ClientShape = ClientShape {
    name: "claude",
    tools: &[("tool_name", "tool_input")],
    editors: &["Edit", "MultiEdit", "Write", "NotebookEdit"],
    write,
};

/// Also the words of Codex, which took them over.
pub fn write(event: HookEvent, answer: &HookAnswer) -> Option<Value> {
    match (event, answer) {
        (HookEvent::SessionStart, HookAnswer::Say(words)) => Some(context("SessionStart", words)),
        (HookEvent::AfterTool, HookAnswer::Say(words)) => Some(context("PostToolUse", words)),
        (HookEvent::BeforeEdit, HookAnswer::Refuse(reason)) => Some(json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }})),
        (HookEvent::TurnEnd, HookAnswer::GoOn(reason)) => {
            Some(json!({"decision": "block", "reason": reason}))
        }
        // Compaction takes no words; the session that follows starts with them.
        _ => None,
    }
}

/// Words for the agent, as several clients take them.
pub fn context(event: &str, words: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": words}})
}
