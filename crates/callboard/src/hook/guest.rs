//! Programs that run the hooks of Claude Code beside their own: Copilot's command line, VS Code and Cursor read
//! `.claude/settings.json`, too. Where both files have hooks of ours, each moment would be answered twice, and an agent
//! would use up both of its reminders at one end of a turn.

use serde_json::Value;

use super::ClientShape;
use crate::clients::{Client, FilesRoot, HOOK_COMMAND};
use crate::place::Place;

/// Whether a hook of Claude Code was run by another program that has hooks of ours in a file of its own.
pub fn has_own_hooks(shape: &ClientShape, message: &Value, place: &Place) -> bool {
    let guest = (shape.name == "claude").then(|| guest_of(message)).flatten();
    let Some(guest) = guest.and_then(Client::find) else { return false };
    let project = FilesRoot::of_project(place.root.clone());
    [Some(project), FilesRoot::of_user().ok()].iter().flatten().any(|root| {
        let file = guest.hook_file(root).ok().flatten();
        let text = file.and_then(|file| root.read(&file.path).ok().flatten());
        text.is_some_and(|text| text.contains(HOOK_COMMAND))
    })
}

/// The client whose message this is; `None` for Claude Code, whose messages have neither a time nor these names.
fn guest_of(message: &Value) -> Option<&'static str> {
    match (&message["cursor_version"], &message["timestamp"]) {
        (Value::String(_), _) => Some("cursor"),
        // Of Copilot's command line and of VS Code, which share their hook file.
        (_, Value::String(_)) => Some("copilot"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::guest_of;

    #[test]
    fn other_programs_are_known_by_their_messages() {
        let rows = [
            // Claude Code 2.1.325.
            (
                json!({"session_id": "s", "transcript_path": "/t", "cwd": "/p", "prompt_id": "p",
                    "permission_mode": "default", "hook_event_name": "Stop", "stop_hook_active": false}),
                None,
            ),
            // Copilot CLI 1.0.102.
            (
                json!({"hook_event_name": "Stop", "session_id": "s", "timestamp": "2026-11-18T20:29:58.102Z",
                    "cwd": "/p", "transcript_path": "/t", "stop_reason": "end_turn"}),
                Some("copilot"),
            ),
            // VS Code, by its documentation.
            (
                json!({"timestamp": "2026-02-09T10:30:00.000Z", "cwd": "/p", "sessionId": "s",
                    "hookEventName": "Stop", "transcript_path": "/t", "stop_hook_active": false}),
                Some("copilot"),
            ),
            // Cursor, by its documentation.
            (
                json!({"conversation_id": "c", "generation_id": "g", "cursor_version": "1.7.2",
                    "workspace_roots": ["/p"], "hook_event_name": "stop"}),
                Some("cursor"),
            ),
            (json!(null), None),
        ];
        for (message, guest) in rows {
            assert_eq!(guest_of(&message), guest, "{message}");
        }
    }
}
