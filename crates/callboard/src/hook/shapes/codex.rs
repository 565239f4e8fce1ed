//! Codex: `.codex/hooks.json`, in the words of Claude Code. A file is edited by a patch, which some models write as a
//! command of the shell.

use super::{ClientShape, claude};

pub const SHAPE: ClientShape = ClientShape {
    name: "codex",
    tools: &[("tool_name", "tool_input")],
    editors: &["apply_patch", "Bash"],
    write: claude::write,
};
