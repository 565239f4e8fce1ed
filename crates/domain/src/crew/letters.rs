//! Mail that the rules themselves send to a crew: subjects and bodies.

use super::mail::{BODY_BYTES_MAX, SUBJECT_CHARS_MAX};
use crate::command::WorkPlace;
use crate::pulls::local_number;
use crate::task::Task;

/// How much of a description goes into a mail; the task itself has all of it.
const DESCRIPTION_CHARS_MAX: usize = 4000;

/// A subject and a body, both within the limits of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub subject: String,
    pub body: String,
}

impl Letter {
    /// Cuts both texts to the limits of a mail. A rule must not fail because its own letter is too long.
    fn new(subject: impl Into<String>, body: String) -> Self {
        let subject: String = subject.into().chars().take(SUBJECT_CHARS_MAX).collect();
        let end = body.floor_char_boundary(BODY_BYTES_MAX);
        Self { subject, body: body[..end].to_owned() }
    }
}

/// To a worker that gets a task: the task, its place, and how to go on. `misses` says why there is no worktree.
pub fn assigned(
    task: &Task,
    body: &str,
    place: &WorkPlace,
    base: Option<&str>,
    misses: Option<&str>,
) -> Letter {
    let mut text = format!("You have task {}: {}\n", task.name(), task.title);
    let description: String = body.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if !description.trim().is_empty() {
        text.push_str(&format!("\n{}\n", description.trim()));
    }
    if description.len() < body.len() {
        text.push_str("\n(mcp__agent__get_task has the rest.)\n");
    }
    if let Some(worktree) = &place.worktree {
        text.push_str(&format!("\nWorktree: {worktree}"));
    }
    if let Some(branch) = &place.branch {
        text.push_str(&format!("\nBranch: {branch}"));
    }
    if let Some(base) = base.filter(|_| place.branch.is_some()) {
        text.push_str(&format!("\nIt goes to: {base}"));
    }
    if let Some(misses) = misses {
        text.push_str(&format!("\nThere is no worktree: {misses}"));
    }
    text.push_str(
        "\n\nSay IN_PROGRESS with mcp__task__update_status when you begin, commit what you do, and \
         say REVIEW when it can be looked at.",
    );
    Letter::new("Task Assignment", text)
}

/// To a worker that lost its task to another.
pub fn reassigned(task: &Task, to: &str) -> Letter {
    let text = format!("Task {} ({}) is with {to} now. Leave it alone.", task.name(), task.title);
    Letter::new(format!("Task Reassigned: {}", task.title), text)
}

/// To the supervisor: work waits for a review.
pub fn to_review(task: &Task, worker: &str, url: Option<&str>) -> Letter {
    let mut text = format!("{worker} asks for a review of task {}: {}", task.name(), task.title);
    if let Some(url) = url {
        text.push_str(&format!("\n\n{url}"));
    }
    Letter::new(format!("Task Complete: {}", task.title), text)
}

/// To the supervisor: a worker cannot go on.
pub fn blocked(task: &Task, worker: &str, reason: &str) -> Letter {
    let text =
        format!("{worker} cannot go on with task {}: {}\n\n{reason}", task.name(), task.title);
    Letter::new(format!("Task Blocked: {}", task.title), text)
}

/// To the supervisor: a worker gave its task up.
pub fn failed(task: &Task, worker: &str, reason: &str) -> Letter {
    let text = format!("{worker} gave up task {}: {}\n\n{reason}", task.name(), task.title);
    Letter::new(format!("Task Failed: {}", task.title), text)
}

/// To the supervisor and to people: a worker's agent failed too often, and the worker gets no task automatically any
/// more.
pub fn runs_failed(task: &Task, worker: &str, reason: &str) -> Letter {
    let text = format!(
        "Task {} ({}) is given up, and {worker} gets nothing more by itself.\n\n{reason}",
        task.name(),
        task.title
    );
    Letter::new(format!("Task Failed: {}", task.title), text)
}

/// About a worker that has been silent for too long. Nothing is decided automatically: a long build looks just like a
/// dead agent.
pub fn silent(task: &Task, worker: &str, after_s: u32) -> Letter {
    let text = format!(
        "{worker} has task {} ({}) and has said nothing for {after_s} seconds. Nothing was done about it: \
         write to it, or give the task to somebody else with mcp__task__assign.",
        task.name(),
        task.title
    );
    Letter::new(format!("Worker Silent: {worker}"), text)
}

/// To a worker whose work was sent back.
pub fn changes_requested(task: &Task, feedback: &str) -> Letter {
    let text = format!("Task {}: {}\n\n{feedback}", task.name(), task.title);
    Letter::new("Changes Requested", text)
}

/// To workers whose branch is behind the epic's, with the command to run.
pub fn rebase_required(task: &str, title: &str, epic_branch: &str, is_remote: bool) -> Letter {
    let command = match is_remote {
        true => format!("git fetch origin && git rebase origin/{epic_branch}"),
        false => format!("git rebase {epic_branch}"),
    };
    let text = format!(
        "The epic branch {epic_branch} moved on. Bring task {task} ({title}) up to date:\n\n{command}"
    );
    Letter::new("Rebase Required", text)
}

/// To people: an epic is over and its pull request waits.
pub fn epic_complete(epic: &Task, url: &str, completed: usize, failed: usize) -> Letter {
    let mut text = format!(
        "Epic {}: {}\n\n{completed} tasks completed, {failed} failed.\n\nPlease look at {url}",
        epic.name(),
        epic.title
    );
    // Only a local pull request needs these commands: a forge has a page for it.
    if let Some(number) = local_number(url) {
        text += &format!(":\n\ncallboard pull show {number}\ncallboard pull merge {number}");
    }
    Letter::new(format!("Epic Complete: {}", epic.title), text)
}
