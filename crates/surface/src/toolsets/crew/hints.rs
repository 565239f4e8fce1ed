//! Hints for refusals, in the tools of this toolset. They stand in `error.details.hint`.

use callboard_domain::refusal::Refusal;

use super::envelope::{
    AGENT_NOT_FOUND, INVALID_AGENT_STATE, INVALID_INPUT, PERMISSION_DENIED, RESOURCE_NOT_FOUND,
    TOOL_NOT_FOUND, TRANSIENT_ERROR,
};

/// For mail that does not exist or belongs to another agent.
pub(super) const INBOX: &str = "mcp__mail__list_inbox shows the mail that was sent to you";

pub(super) const NO_WORKTREE: &str =
    "a worker gets the worktree together with the task: try again when the task is ASSIGNED";

/// The hint for a refusal known only by its code; `None` for internal faults.
pub(super) fn of_code(code: &str) -> Option<&'static str> {
    Some(match code {
        INVALID_INPUT => "tools/list has the tool's input schema",
        RESOURCE_NOT_FOUND => "mcp__agent__get_status names your epic and your task",
        PERMISSION_DENIED => {
            "tools/list shows what your type may call; ask others with mcp__mail__send"
        }
        INVALID_AGENT_STATE => "mcp__agent__get_status shows your state, your epic and your task",
        AGENT_NOT_FOUND => "a person adds the agent with callboard agent add ID --type TYPE",
        TOOL_NOT_FOUND => "tools/list shows the existing tools",
        TRANSIENT_ERROR => "make the same call again later",
        _ => return None,
    })
}

/// The hint for a refusal that says more than its code.
pub(super) fn of(refusal: &Refusal) -> Option<&'static str> {
    Some(match refusal {
        Refusal::TaskNotFound { .. } | Refusal::ParentNotFound { .. } => {
            "mcp__epic__list_tasks shows the tasks of your epic, mcp__agent__get_task your own"
        }
        Refusal::CrewDenied { .. } => {
            "mcp__agent__get_status names your own epic and task; a worker hands its task over with \
             mcp__task__update_status and REVIEW"
        }
        Refusal::EpicNotFound { .. } => "mcp__agent__get_epic shows your epic",
        Refusal::AgentNotFound { .. } => "callboard agent list shows the existing agents",
        Refusal::MailNotFound { .. } | Refusal::MailOfAnother { .. } => INBOX,
        Refusal::DepsNotClosed { .. } => {
            "wait until these tasks are completed, or ask your supervisor with mcp__mail__send"
        }
        Refusal::ChecksNotPassed { .. } => {
            "send the task back with mcp__epic__request_changes and say which check fails"
        }
        Refusal::MergeConflict { .. } => "ask the worker to rebase with mcp__epic__request_changes",
        Refusal::AlreadyClaimed { .. } => "mcp__epic__list_tasks shows who has which task",
        Refusal::KeyReused { .. } => "use a new idempotency key for a new call",
        _ => return None,
    })
}
