//! The toolset's words for statuses, modes, priorities and refusals.

use callboard_domain::board::card::Mode;
use callboard_domain::policy::{Phase, fold};
use callboard_domain::refusal::{Refusal, ReviewAction};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::NextCall;
use crate::error::Said;

/// The code of a wait that ended without a change; it is no refusal.
pub(super) const WAIT_TIMEOUT: &str = "WAIT_TIMEOUT";

/// A column of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Backlog,
    InProgress,
    Review,
    Done,
}

impl Status {
    pub const ALL: [Status; 4] =
        [Status::Backlog, Status::InProgress, Status::Review, Status::Done];

    /// The column of a phase. Canceled tasks are in DONE, too; `closed_as` tells both apart.
    pub fn of(phase: Phase) -> Self {
        match phase {
            Phase::Initial => Status::Backlog,
            Phase::Working => Status::InProgress,
            Phase::Review => Status::Review,
            Phase::ClosedDone | Phase::ClosedCanceled => Status::Done,
        }
    }

    /// The phase that a written status means.
    pub fn phase(self) -> Phase {
        match self {
            Status::Backlog => Phase::Initial,
            Status::InProgress => Phase::Working,
            Status::Review => Phase::Review,
            Status::Done => Phase::ClosedDone,
        }
    }

    /// The phases that show as this column.
    pub fn phases(self) -> Vec<Phase> {
        Phase::ALL.into_iter().filter(|phase| Status::of(*phase) == self).collect()
    }

    /// The column's name in answers.
    pub fn word(self) -> &'static str {
        match self {
            Status::Backlog => "BACKLOG",
            Status::InProgress => "IN_PROGRESS",
            Status::Review => "REVIEW",
            Status::Done => "DONE",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| bare(status.word()) == bare(text))
    }
}

/// An action on a task's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Stop,
}

impl Action {
    pub const ALL: [Action; 2] = [Action::Start, Action::Stop];

    pub fn word(self) -> &'static str {
        match self {
            Action::Start => "start_agent",
            Action::Stop => "stop_agent",
        }
    }
}

/// Whether an agent runs a task by itself or together with a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum TaskType {
    Auto,
    Pair,
}

impl TaskType {
    pub fn of(mode: Mode) -> Self {
        match mode {
            Mode::Auto => TaskType::Auto,
            Mode::Pair => TaskType::Pair,
        }
    }

    pub fn core(self) -> Mode {
        match self {
            TaskType::Auto => Mode::Auto,
            TaskType::Pair => Mode::Pair,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            TaskType::Auto => "AUTO",
            TaskType::Pair => "PAIR",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [TaskType::Auto, TaskType::Pair].into_iter().find(|mode| bare(mode.word()) == bare(text))
    }
}

/// A status as a caller wrote it, who may have meant the mode.
pub(super) enum Written {
    Status(Status),
    TaskType(TaskType),
}

/// Reads a status. AUTO and PAIR are tolerated, because callers mix up both arguments; the answer says how the word was
/// understood.
pub(super) fn written(text: &str) -> Result<Written, Refusal> {
    let status = Status::parse(text).map(Written::Status);
    status.or_else(|| TaskType::parse(text).map(Written::TaskType)).ok_or_else(|| {
        let given: String = text.chars().take(60).collect();
        let known = Status::ALL.map(Status::word).join(", ");
        Refusal::invalid(format!("status must be one of {known}, got '{given}'"))
    })
}

/// `In-Progress`, `in progress` and `inprogress` are one word.
fn bare(word: &str) -> String {
    fold(word).replace('_', "")
}

/// The word for a priority of 0..1000, where smaller goes first.
pub(super) fn priority(rank: u16) -> &'static str {
    match rank {
        0..=333 => "HIGH",
        334..=666 => "MEDIUM",
        _ => "LOW",
    }
}

// The reference accepts both MED and MEDIUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum PriorityWord {
    Low,
    Med,
    Medium,
    High,
}

impl PriorityWord {
    /// On the scale of tasks, well inside the third that `priority` names by this word.
    pub fn rank(self) -> u16 {
        match self {
            PriorityWord::High => 100,
            PriorityWord::Med | PriorityWord::Medium => 500,
            PriorityWord::Low => 900,
        }
    }
}

/// The id of a project as callers know it.
pub(super) fn project_id(project: i64) -> String {
    format!("prj_{project}")
}

/// The number behind `prj_7`.
pub(super) fn project_of(text: &str) -> Result<i64, Refusal> {
    let number = text.trim().strip_prefix("prj_").and_then(|number| number.parse().ok());
    number.ok_or_else(|| Refusal::ProjectNotFound { project: text.into() })
}

/// Whether a refusal is a call error even where refusals are answers.
pub(super) fn is_call_error(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::InvalidInput { .. }
            | Refusal::UnknownState { .. }
            | Refusal::MixedArguments { .. }
            | Refusal::AuthorizationDenied { .. }
            | Refusal::ProfileDenied { .. }
            | Refusal::SharedActor { .. }
            | Refusal::OutsideTask { .. }
            | Refusal::KeyReused { .. }
            | Refusal::AnswerNotKept { .. }
    )
}

/// A refusal in this toolset's codes and sentences. Some codes depend on the tool: the reference has a code of its own
/// for a start, a session and a merge that failed.
pub(super) fn say(tool: &str, refusal: &Refusal) -> Said {
    let plain = Said::plain(refusal);
    let as_code = |code| Said { code, ..plain.clone() };
    match refusal {
        Refusal::InvalidInput { message, .. } if tool == "jobs_events" => {
            // The reference has a code for each of the two numbers.
            as_code(match message.split(' ').next() {
                Some("limit") => "INVALID_LIMIT",
                Some("offset") => "INVALID_OFFSET",
                _ => "INVALID_PARAMS",
            })
        }
        Refusal::InvalidInput { .. }
        | Refusal::UnknownState { .. }
        | Refusal::MixedArguments { .. }
        | Refusal::InvalidSpec { .. } => Said { code: "INVALID_PARAMS", ..plain },
        Refusal::TaskNotFound { task } | Refusal::DanglingDependency { task } => Said {
            code: "TASK_NOT_FOUND",
            message: format!("Task {task} not found"),
            hint: Some("tasks_list shows the existing tasks".into()),
            ..plain
        },
        Refusal::ParentNotFound { task } => Said {
            code: "PARENT_NOT_FOUND",
            message: format!("Parent {task} not found"),
            hint: Some("tasks_list shows the existing tasks".into()),
            ..plain
        },
        Refusal::DepsNotClosed { open, .. } => {
            let open: Vec<String> = open.iter().map(|(id, _)| id.to_string()).collect();
            let hint = Some(format!("Finish its dependencies first: {}", open.join(", ")));
            // Open dependencies of a start have a code of their own in the reference.
            let code = if tool == "jobs_submit" { "START_BLOCKED" } else { plain.code };
            Said { code, hint, ..plain }
        }
        Refusal::HasDependents { open, .. } => {
            let open: Vec<String> = open.iter().map(ToString::to_string).collect();
            let hint = Some(format!(
                "Finish or delete the tasks that depend on it first: {}",
                open.join(", ")
            ));
            Said { hint, ..plain }
        }
        Refusal::AlreadyClaimed { task, holder, .. } => Said {
            message: format!("Task {task} is held by {holder}"),
            hint: Some("tasks_list shows other tasks".into()),
            ..plain
        },
        Refusal::NotPair { task } => Said {
            message: format!("Task {task} is AUTO"),
            hint: Some("Set the mode with tasks_update".into()),
            ..plain
        },
        Refusal::NotApproved { .. } => Said {
            message: "The settings require an approval before a merge".into(),
            hint: Some("Approve the task first".into()),
            ..as_code("MERGE_FAILED")
        },
        Refusal::AgentAtWork { agent, action, .. } => Said {
            message: format!("Not {}: {agent} works on the task", action.done()),
            hint: Some("Wait for the review, or stop the agent with jobs_submit stop_agent".into()),
            ..match action {
                ReviewAction::Merge => plain,
                ReviewAction::Rebase => as_code("REBASE_FAILED"),
            }
        },
        Refusal::NotAuto { task } => Said {
            message: format!("Task {task} is PAIR"),
            hint: Some("Set the mode with tasks_update".into()),
            ..plain
        },
        Refusal::NotRunning { task } => {
            Said { message: format!("No agent works on task {task}"), hint: None, ..plain }
        }
        Refusal::JobNotFound { job } => Said {
            message: format!("Job {job} not found"),
            hint: Some("Give the job_id and task_id of an answer of jobs_submit".into()),
            ..plain
        },
        Refusal::TaskClosed { .. } if tool == "sessions_create" => Said {
            hint: Some("tasks_move reopens the task".into()),
            ..as_code("SESSION_CREATE_FAILED")
        },
        // The reference has one code for every way in which a task is another worker's.
        Refusal::NotHolder { .. }
        | Refusal::StaleFence { .. }
        | Refusal::SessionActive { .. }
        | Refusal::ActorMismatch { .. }
        | Refusal::ClientMismatch { .. }
        | Refusal::NotSessionOwner { .. } => as_code("ALREADY_CLAIMED"),
        // Named one by one, so that a new refusal gets its code on purpose.
        Refusal::ProjectNotFound { .. }
        | Refusal::InvalidRepoPath { .. }
        | Refusal::InvalidSetting { .. }
        | Refusal::PlanNotFound { .. }
        | Refusal::PlanDecided { .. }
        | Refusal::AgentNotFound { .. }
        | Refusal::AgentExists { .. }
        | Refusal::MailNotFound { .. }
        | Refusal::MailOfAnother { .. }
        | Refusal::EpicNotFound { .. }
        | Refusal::AgentState { .. }
        | Refusal::CrewInput { .. }
        | Refusal::CrewDenied { .. }
        | Refusal::MergeConflict { .. }
        | Refusal::ParentCycle { .. }
        | Refusal::ReviewNotReady { .. }
        | Refusal::ReviewDecided { .. }
        | Refusal::WorkMoved { .. }
        | Refusal::TaskChanged { .. }
        | Refusal::OutsideTask { .. }
        | Refusal::SessionNotFound { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::ChecksNotPassed { .. }
        | Refusal::NotActionable { .. }
        | Refusal::AlreadyStarted { .. }
        | Refusal::AlreadyOver { .. }
        | Refusal::IllegalMove { .. }
        | Refusal::BlockersMax { .. }
        | Refusal::CommentNotFound { .. }
        | Refusal::NotCommentAuthor { .. }
        | Refusal::NotTaskAuthor { .. }
        | Refusal::QuotaExceeded(_)
        | Refusal::JobLost { .. }
        | Refusal::TooManyJobs { .. }
        | Refusal::NoPlace { .. }
        | Refusal::TooManyCalls { .. }
        | Refusal::NoQuestion { .. }
        | Refusal::NotCancelable { .. }
        | Refusal::TaskClosed { .. }
        | Refusal::Closed { .. }
        | Refusal::ExecutorMissing { .. }
        | Refusal::SessionTerminal { .. }
        | Refusal::Conflict { .. }
        | Refusal::CheckInfrastructure { .. }
        | Refusal::WorkspaceNotReady { .. }
        | Refusal::NoCommit { .. }
        | Refusal::CheckLogNotFound { .. }
        | Refusal::RemovedByRetention { .. }
        | Refusal::AuthorizationDenied { .. }
        | Refusal::KeyReused { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. } => plain,
    }
}

/// The next call after a refusal.
pub(super) fn next_after(tool: &str, refusal: &Refusal, task: Option<&str>) -> Option<NextCall> {
    let look = || json!({"task_id": task, "include_logs": true, "mode": "summary"});
    match (tool, refusal) {
        ("request_review", Refusal::DepsNotClosed { .. }) => {
            Some(NextCall::new("get_task", look()))
        }
        (_, Refusal::NotApproved { .. }) => {
            Some(NextCall::new("review", json!({"task_id": task, "action": "approve"})))
        }
        ("jobs_submit", Refusal::DepsNotClosed { open, .. }) => {
            let first = open.first().map(|(id, _)| id);
            Some(NextCall::new("get_task", json!({"task_id": first, "mode": "summary"})))
        }
        (_, Refusal::AgentAtWork { action: ReviewAction::Merge, .. }) => {
            let arguments = json!({"task_id": task, "wait_for_status": ["REVIEW"]});
            Some(NextCall::new("tasks_wait", arguments))
        }
        (_, Refusal::NotRunning { .. }) => {
            Some(NextCall::new("get_task", json!({"task_id": task, "include_logs": true})))
        }
        (_, Refusal::NotAuto { .. }) => {
            let arguments = json!({"task_id": task, "task_type": TaskType::Auto.word()});
            Some(NextCall::new("tasks_update", arguments))
        }
        (_, Refusal::NotPair { .. }) => {
            let arguments = json!({"task_id": task, "task_type": TaskType::Pair.word()});
            Some(NextCall::new("tasks_update", arguments))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_any_spelling() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.word()), Some(status));
            assert_eq!(Status::of(status.phase()), status);
        }
        for text in ["in-progress", "In Progress", "inprogress", " IN_PROGRESS "] {
            assert_eq!(Status::parse(text), Some(Status::InProgress), "{text}");
        }
        assert_eq!(Status::parse("AUTO"), None);
    }

    #[test]
    fn priorities_read_back_by_thirds() {
        let words = [0, 100, 333, 334, 500, 666, 667, 900, 1000].map(priority);
        let (high, medium, low) = ("HIGH", "MEDIUM", "LOW");
        assert_eq!(words, [high, high, high, medium, medium, medium, low, low, low]);
    }
}
