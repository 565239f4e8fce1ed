//! The audit of a board: who did what, in which part of it, by which command, and whether it succeeded. All of it
//! comes from the event log.

use serde::Deserialize;

use crate::actor::Actor;
use crate::event::{EventData, EventName, LoggedEvent};
use crate::ids::TaskId;
use crate::time::Timestamp;
use crate::words::words;

/// The actions of the review tool; a call of that tool is audited under its action.
pub const REVIEW_ACTIONS: [&str; 5] = ["approve", "reject", "merge", "rebase", "preview"];

words! {
    /// A part of the board.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Capability {
        Tasks => "tasks",
        Projects => "projects",
        Audit => "audit",
        Plan => "plan",
        Jobs => "jobs",
        Review => "review",
        Sessions => "sessions",
        Settings => "settings",
    }
}

impl Capability {
    /// The events that may belong to this part. An event about a call may belong to any; its data says which.
    pub fn events(self) -> Vec<EventName> {
        let may = |name: &&EventName| command(**name).is_none_or(|(of, _)| of == self);
        EventName::ALL.iter().filter(may).copied().collect()
    }
}

/// One line of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub seq: u64,
    pub at: Timestamp,
    pub actor: Actor,
    pub capability: Capability,
    pub command: String,
    pub success: bool,
    pub code: Option<String>,
    pub task: Option<TaskId>,
}

impl AuditRow {
    /// Takes names and codes from an event, and no text that a caller wrote.
    pub fn of(event: &LoggedEvent) -> Self {
        let data = event.read();
        let action = REVIEW_ACTIONS.into_iter().find(|known| data.action() == Some(known));
        let (capability, command) = match command(event.name) {
            Some((capability, _)) if event.name == EventName::ReviewFailed => {
                (capability, action.unwrap_or("merge").to_owned())
            }
            Some((capability, command)) => (capability, command.to_owned()),
            None => of_tool(data.tool().unwrap_or_default(), action),
        };
        Self {
            seq: event.seq,
            at: event.at,
            actor: event.actor.clone(),
            capability,
            command,
            success: !is_failure(event.name),
            code: match command_is_called(event.name) {
                true => data.code().map(str::to_owned),
                false => code(event.name, data).map(str::to_owned),
            },
            task: event.task().or(data.named_task()),
        }
    }
}

/// Whether an event reports a failure.
fn is_failure(name: EventName) -> bool {
    matches!(
        name,
        EventName::CallRefused
            | EventName::ReviewFailed
            | EventName::VerificationFailed
            | EventName::JobFailed
            | EventName::WebhookFailed
    )
}

fn command_is_called(name: EventName) -> bool {
    command(name).is_none()
}

/// The part of the board an event belongs to, and the command behind it; `None` for events about calls.
fn command(name: EventName) -> Option<(Capability, &'static str)> {
    use Capability::{Jobs, Plan, Projects, Review, Sessions, Settings, Tasks};
    Some(match name {
        EventName::CallRefused | EventName::CallAnswered => return None,
        EventName::TaskCreated => (Tasks, "create"),
        EventName::TaskUpdated => (Tasks, "update"),
        EventName::TaskDeleted => (Tasks, "delete"),
        EventName::TaskCompleted => (Tasks, "complete"),
        EventName::TaskCanceled => (Tasks, "cancel"),
        EventName::TaskReopened => (Tasks, "reopen"),
        EventName::TaskClaimed => (Tasks, "claim"),
        EventName::TaskReleased => (Tasks, "release"),
        EventName::TaskStatusChanged => (Tasks, "move"),
        EventName::TaskReady => (Tasks, "ready"),
        EventName::TaskNoted => (Tasks, "note"),
        EventName::TaskTold => (Tasks, "tell"),
        EventName::TaskHeard => (Tasks, "hear"),
        EventName::TaskBlocked => (Tasks, "block"),
        EventName::TaskUnblocked => (Tasks, "unblock"),
        EventName::TaskScratchpad => (Tasks, "update_scratchpad"),
        EventName::ReviewRequested => (Review, "request"),
        EventName::ReviewApproved => (Review, "approve"),
        EventName::ReviewRejected => (Review, "reject"),
        EventName::ReviewMerged => (Review, "merge"),
        EventName::ReviewRebased => (Review, "rebase"),
        EventName::ReviewFailed => (Review, "fail"),
        EventName::SessionCreated => (Sessions, "create"),
        EventName::SessionKilled => (Sessions, "kill"),
        EventName::TaskDependencyAdded => (Tasks, "add_dependency"),
        EventName::TaskDependencyRemoved => (Tasks, "remove_dependency"),
        EventName::CheckRan => (Review, "run_check"),
        EventName::CheckAttested => (Review, "attest_check"),
        EventName::AttemptStarted => (Sessions, "start"),
        EventName::AttemptHeartbeat => (Sessions, "heartbeat"),
        EventName::AttemptEnded => (Sessions, "end"),
        EventName::AttemptExpired => (Sessions, "expire"),
        EventName::VerificationQueued => (Review, "queue_verification"),
        EventName::VerificationSkipped => (Review, "skip_verification"),
        EventName::VerificationPending => (Review, "verify_later"),
        EventName::VerificationPassed => (Review, "verify"),
        EventName::VerificationFailed => (Review, "fail_verification"),
        EventName::CommentAdded => (Tasks, "comment"),
        EventName::CommentResolved => (Tasks, "resolve_comment"),
        EventName::JobQueued => (Jobs, "queue"),
        EventName::JobTaken => (Jobs, "take"),
        EventName::JobKept => (Jobs, "keep"),
        EventName::JobEnded => (Jobs, "end"),
        EventName::JobSubmitted => (Jobs, "submit"),
        EventName::JobStarted => (Jobs, "start"),
        EventName::JobStale => (Jobs, "lose"),
        EventName::JobHeld => (Jobs, "hold"),
        EventName::JobUsed => (Jobs, "use"),
        EventName::JobCommitted => (Jobs, "commit"),
        EventName::JobRequeued => (Jobs, "requeue"),
        EventName::JobSucceeded => (Jobs, "succeed"),
        EventName::JobFailed => (Jobs, "fail"),
        EventName::JobCanceled => (Jobs, "cancel"),
        EventName::JobExpired => (Jobs, "expire"),
        EventName::JobArtifact => (Jobs, "keep_artifact"),
        EventName::JobPr => (Jobs, "open_pr"),
        EventName::PrOpened => (Review, "open_pr"),
        EventName::PrUpdated => (Review, "update_pr"),
        EventName::PrMerged => (Review, "merge_pr"),
        EventName::PrClosed => (Review, "close_pr"),
        EventName::JobAsked => (Jobs, "ask"),
        EventName::JobAnswered => (Jobs, "answer"),
        EventName::WebhookQueued => (Jobs, "queue_webhook"),
        EventName::WebhookDelivered => (Jobs, "deliver_webhook"),
        EventName::WebhookFailed => (Jobs, "fail_webhook"),
        EventName::KnowledgeStored => (Tasks, "learn"),
        EventName::KnowledgeSuperseded => (Tasks, "supersede_knowledge"),
        EventName::SettingsUpdated => (Settings, "update"),
        EventName::ProjectCreated => (Projects, "create"),
        EventName::ProjectOpened => (Projects, "open"),
        EventName::PlanProposed => (Plan, "propose"),
        EventName::PlanApproved => (Plan, "approve"),
        EventName::PlanRejected => (Plan, "reject"),
        EventName::AgentAdded => (Sessions, "add_agent"),
        EventName::AgentRemoved => (Sessions, "remove_agent"),
        EventName::MailSent => (Sessions, "send_mail"),
        EventName::MailRead => (Sessions, "read_mail"),
        EventName::DecisionLogged => (Sessions, "log_decision"),
        EventName::AgentFreed => (Sessions, "free_agent"),
        EventName::TaskAssigned => (Tasks, "assign"),
        EventName::EpicStatusChanged => (Plan, "update_status"),
        EventName::EpicCompleted => (Plan, "complete"),
    })
}

/// The code with which the board's tools answer for this event.
fn code(name: EventName, data: EventData<'_>) -> Option<&'static str> {
    match name {
        EventName::ReviewFailed => Some(match (data.action(), data.has_conflict()) {
            (Some("rebase"), false) => "REBASE_FAILED",
            (Some("rebase"), true) => "REBASE_CONFLICT",
            _ => "MERGE_FAILED",
        }),
        EventName::TaskStatusChanged => Some("MOVED"),
        EventName::TaskUpdated => Some("UPDATED"),
        EventName::TaskDeleted => Some("DELETED"),
        EventName::ReviewRequested => Some("REVIEW_REQUESTED"),
        EventName::ReviewApproved => Some("APPROVED"),
        EventName::ReviewRejected => Some("REJECTED"),
        EventName::ReviewMerged => Some("MERGED"),
        EventName::ReviewRebased => Some("REBASED"),
        EventName::SessionCreated => Some("SESSION_CREATED"),
        EventName::JobSubmitted => Some("JOB_SUBMITTED"),
        EventName::JobCanceled => Some("JOB_CANCELLED"),
        _ => None,
    }
}

/// The part and the command of a call, from the name of its tool: `tasks_move` is tasks, move.
fn of_tool(tool: &str, action: Option<&str>) -> (Capability, String) {
    let named = |capability, command: &str| (capability, command.to_owned());
    match tool {
        "propose_plan" => named(Capability::Plan, "propose"),
        "request_review" => named(Capability::Review, "request"),
        "review" => named(Capability::Review, action.unwrap_or("review")),
        "get_task" => named(Capability::Tasks, "get"),
        "repos_list" => named(Capability::Projects, "list_repos"),
        tool => match tool.split_once('_') {
            Some((part, command)) => match Capability::parse(part) {
                Some(capability) => named(capability, command),
                None => named(Capability::Tasks, tool),
            },
            None => named(Capability::Tasks, tool),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: EventName, data: serde_json::Value) -> AuditRow {
        let actor = "agent:w1".parse().expect("an actor");
        AuditRow::of(&LoggedEvent { seq: 1, at: Timestamp(0), actor, name, about: None, data })
    }

    #[test]
    fn calls_are_named_by_their_tool() {
        for (tool, said) in [
            ("tasks_move", "tasks move"),
            ("update_scratchpad", "tasks update_scratchpad"),
            ("propose_plan", "plan propose"),
            ("request_review", "review request"),
            ("settings_update", "settings update"),
            ("audit_tail", "audit tail"),
            ("repos_list", "projects list_repos"),
            ("get_context", "tasks get_context"),
            ("jobs_submit", "jobs submit"),
            ("", "tasks "),
        ] {
            let row = row(EventName::CallRefused, json!({"tool": tool, "code": "TASK_NOT_FOUND"}));
            assert_eq!(format!("{} {}", row.capability.as_str(), row.command), said);
            assert_eq!((row.success, row.code.as_deref()), (false, Some("TASK_NOT_FOUND")));
        }
    }

    #[test]
    fn a_refused_review_is_named_by_its_action() {
        for (action, said) in [("approve", "approve"), ("merge", "merge"), ("s3cret", "review")] {
            let data = json!({"tool": "review", "action": action, "code": "REVIEW_NOT_READY"});
            let row = row(EventName::CallRefused, data);
            assert_eq!((row.command.as_str(), row.success), (said, false));
        }
    }

    #[test]
    fn what_failed_is_no_success() {
        for (data, said, code) in [
            (json!({"action": "merge", "files": 0}), "merge", "MERGE_FAILED"),
            (json!({"action": "rebase", "files": 1}), "rebase", "REBASE_CONFLICT"),
            (json!({"action": "rebase"}), "rebase", "REBASE_FAILED"),
        ] {
            let row = row(EventName::ReviewFailed, data);
            assert_eq!((row.command.as_str(), row.success), (said, false));
            assert_eq!((row.capability, row.code.as_deref()), (Capability::Review, Some(code)));
        }
        for name in [EventName::VerificationFailed, EventName::JobFailed, EventName::WebhookFailed]
        {
            assert!(!row(name, json!({})).success, "{name:?}");
        }
    }

    #[test]
    fn nothing_that_somebody_wrote_is_in_a_row() {
        for name in EventName::ALL {
            let row = row(*name, json!({"title": "s3cret", "text": "s3cret", "changes": "s3cret"}));
            assert!(!format!("{row:?}").contains("s3cret"), "{name:?}");
            assert!(row.capability.events().contains(name), "{name:?}");
        }
    }
}
