//! Whether the work of a crew can be merged: a task's into its epic's branch, an epic's into its target. Facts that
//! only git or a forge knows come as arguments.

use super::state::{EpicState, TaskState};
use crate::decide::AGENT_LINGERS;
use crate::ids::TaskId;
use crate::refusal::Refusal;

fn state(message: impl Into<String>) -> Refusal {
    Refusal::AgentState { message: message.into() }
}

/// Refuses a task that does not wait for a review.
pub fn judge_review(stands: TaskState) -> Result<(), Refusal> {
    match stands {
        TaskState::Review => Ok(()),
        TaskState::Pending
        | TaskState::Assigned
        | TaskState::InProgress
        | TaskState::Blocked
        | TaskState::Completed
        | TaskState::Failed => Err(state(format!("Task is in state {stands}, expected REVIEW"))),
    }
}

/// The refusal of an approval while an agent is at work on the task: its later changes would not be reviewed.
pub fn agent_lingers() -> Refusal {
    state(AGENT_LINGERS)
}

/// The branch of a task's work and the branch it goes into. `worktree` is the target and, where there is a worktree, its
/// branch. `of_attempt` is the branch that the newest attempt named, `base` the card's, `usual` the name that Callboard
/// gives.
pub fn branches(
    worktree: Option<(String, Option<String>)>,
    of_attempt: Option<String>,
    base: Option<&str>,
    usual: impl FnOnce() -> String,
) -> Result<(String, String), Refusal> {
    match (worktree, of_attempt, base) {
        (Some((target, branch)), of_attempt, _) => {
            Ok((branch.or(of_attempt).unwrap_or_else(usual), target))
        }
        (None, Some(branch), Some(base)) => Ok((branch, base.to_owned())),
        (None, _, _) => Err(no_branch()),
    }
}

/// The refusal of a hand-over without a branch.
pub fn no_branch() -> Refusal {
    state("Task has no branch to open a PR from")
}

/// The refusal of an approval with nothing to merge from.
pub fn nothing_to_merge() -> Refusal {
    state("Task has no PR or branch")
}

/// The refusal of work that conflicts with the branch it goes to. `files` is empty where only the forge saw the conflict.
pub fn conflict(task: TaskId, files: Vec<String>) -> Refusal {
    Refusal::MergeConflict { task, files }
}

/// How far an epic is on the way to its own pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishGate {
    /// An earlier call opened the pull request.
    Finished,
    Open,
}

/// Judges the state of an epic that is to be finished. The engine asks before git does anything; `decide` asks again
/// in the transaction.
pub fn finish_gate(stands: EpicState) -> Result<FinishGate, Refusal> {
    match stands {
        EpicState::Completed => Ok(FinishGate::Finished),
        EpicState::Cancelled => Err(epic_is(stands)),
        EpicState::Planning | EpicState::InProgress | EpicState::Blocked => Ok(FinishGate::Open),
    }
}

/// The refusal of a call that a state of an epic does not allow.
pub fn epic_is(stands: EpicState) -> Refusal {
    state(format!("Epic is in state {stands}"))
}

/// Refuses an epic without tasks, and one whose tasks are not all over; each is given as its title and state.
pub fn judge_finished<'t>(
    tasks: impl IntoIterator<Item = (&'t str, TaskState)>,
) -> Result<(), Refusal> {
    let mut tasks = tasks.into_iter().peekable();
    if tasks.peek().is_none() {
        return Err(state("Epic has no tasks"));
    }
    let open = tasks.filter(|(_, stands)| stands.is_open());
    let open: Vec<String> = open.map(|(title, stands)| format!("{title} ({stands})")).collect();
    match open.is_empty() {
        true => Ok(()),
        false => Err(state(format!("Tasks not finished: {}", open.join(", ")))),
    }
}

/// An epic's branch compared with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpicBranch {
    /// The branch was never made.
    Missing,
    /// The target has everything.
    Merged,
    Ahead,
}

/// Refuses an epic without changes.
pub fn judge_changes(branch: EpicBranch) -> Result<(), Refusal> {
    match branch {
        EpicBranch::Ahead => Ok(()),
        EpicBranch::Missing | EpicBranch::Merged => Err(no_changes()),
    }
}

/// The refusal of an epic without changes.
pub fn no_changes() -> Refusal {
    state("Epic branch has no changes")
}

/// The body of an epic's pull request: a line for each task, with the reason if it failed.
pub fn summary<'t>(
    tasks: impl IntoIterator<Item = (&'t str, TaskState, Option<&'t str>)>,
) -> String {
    let line = |(title, stands, reason): (&str, TaskState, Option<&str>)| match reason {
        _ if stands == TaskState::Completed => format!("✅ {title}\n"),
        Some(reason) => format!("❌ {title}: {reason}\n"),
        None => format!("❌ {title}\n"),
    };
    tasks.into_iter().map(line).collect()
}
