//! Which tools an agent's type may call, as patterns: first the disallowed ones, then the allowed ones; a name that
//! matches neither is denied. Names need not exist.

use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_engine::BrokenCall;

use super::envelope::Said;

/// Patterns of tool names; `*` stands for any characters.
struct Patterns {
    allowed: &'static [&'static str],
    disallowed: &'static [&'static str],
}

/// The patterns of the reference, word by word. Some match no tool of ours (`mcp__supervisor__*`).
fn patterns(kind: AgentType) -> Patterns {
    match kind {
        AgentType::Supervisor => Patterns { allowed: &["*"], disallowed: &[] },
        AgentType::Orchestrator => Patterns {
            allowed: &[
                "mcp__mail__*",
                "mcp__agent__*",
                "mcp__system__*",
                "mcp__task__*",
                "mcp__epic__*",
            ],
            disallowed: &["mcp__supervisor__*"],
        },
        AgentType::Worker => Patterns {
            allowed: &[
                "mcp__mail__*",
                "mcp__agent__get_status",
                "mcp__agent__get_task",
                "mcp__agent__get_epic",
                "mcp__system__log_decision",
                "mcp__task__update_status",
                "mcp__task__add_comment",
            ],
            disallowed: &[
                "mcp__supervisor__*",
                "mcp__orchestrator__*",
                "mcp__epic__*",
                "mcp__task__create",
                "mcp__task__assign",
            ],
        },
    }
}

/// Whether the patterns of a type let it call a tool, known or not.
pub(super) fn may_call(kind: AgentType, tool: &str) -> bool {
    let Patterns { allowed, disallowed } = patterns(kind);
    let fits = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, tool));
    !fits(disallowed) && fits(allowed)
}

/// Whether a tool that passes the patterns of a type is also meant for that type.
pub(super) fn is_for(kind: AgentType, tool: &str) -> bool {
    match tool {
        "mcp__agent__get_task" => kind == AgentType::Worker,
        // An orchestrator may move an epic; the other tools of epics are a supervisor's.
        "mcp__epic__update_status" => true,
        _ if tool.starts_with("mcp__epic__") => kind == AgentType::Supervisor,
        _ => true,
    }
}

/// Tools whose failure is always reported to people.
const CRITICAL: [&str; 5] = [
    "mcp__mail__send",
    "mcp__agent__get_task",
    "mcp__agent__get_epic",
    "mcp__task__update_status",
    "mcp__epic__update_status",
];

/// A broken call, with the types that may call the tool and whether people hear of the failure.
pub(super) fn broken_call(
    tool: &'static str,
    said: &Said,
    stack: String,
    at: Timestamp,
) -> BrokenCall {
    BrokenCall {
        tool,
        code: said.code,
        message: said.message.clone(),
        stack,
        at,
        callers: AgentType::ALL.iter().copied().filter(|kind| may_call(*kind, tool)).collect(),
        is_critical: CRITICAL.contains(&tool),
    }
}

/// Each `*` is tried at every place of the rest. Patterns have one star at most, so the recursion is one step deep.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    let ends = text.char_indices().map(|(place, _)| place).chain([text.len()]);
    ends.into_iter().any(|place| matches(rest, &text[place..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_may_call_what_their_patterns_say() {
        let table = "
            mcp__mail__send             SOW
            mcp__agent__get_task        SOW
            mcp__agent__other           SO
            mcp__system__log_decision   SOW
            mcp__system__other          SO
            mcp__task__update_status    SOW
            mcp__task__create           SO
            mcp__task__nope             SO
            mcp__epic__create_task      SO
            mcp__orchestrator__x        S
            mcp__supervisor__x          S
            x_mcp__mail__send           S
            MCP__MAIL__SEND             S
        ";
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (tool, types) = line.split_once(' ').expect("two columns");
            for (kind, letter) in [
                (AgentType::Supervisor, 'S'),
                (AgentType::Orchestrator, 'O'),
                (AgentType::Worker, 'W'),
            ] {
                assert_eq!(may_call(kind, tool), types.contains(letter), "{kind:?} {tool}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_any_characters_and_patterns_are_anchored() {
        for (pattern, text, fits) in [
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("a", "ab", false),
            ("*", "", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
