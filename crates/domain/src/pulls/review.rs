//! What the review of a crew's task does with the task's pull requests: which one an approval merges, whether the worker
//! went on after a merge, and which merge completes the task. Facts that only git or a forge knows come as arguments.

use super::{MERGED, Pull};
use crate::forge::{ForgeKind, ForgeRef};
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::task::Task;
use crate::time::Timestamp;

/// What an approval does with the pull requests of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewPull {
    /// Merged since the task came into review. Only the task is left to be closed, unless its worktree `went_on`.
    Merged(Pull),
    /// The page that a caller named is merged as it is.
    Named(Pull),
    /// A pull request with all the work of the worktree is opened, or the open one is brought up to date.
    OfWorktree,
}

impl ReviewPull {
    /// Judges the newest pull request that is not a job's. `pulls` are those of the task, newest first; `phase_at` is
    /// when the task came into review.
    pub fn of(pulls: Vec<Pull>, phase_at: Timestamp) -> Self {
        match pulls.into_iter().find(|pull| pull.job.is_none()) {
            Some(pull) if pull.status == MERGED && pull.changed_at >= phase_at => {
                Self::Merged(pull)
            }
            // Callboard knows the head of every pull request that it opened itself.
            Some(pull) if pull.is_open() && pull.head.is_empty() => Self::Named(pull),
            Some(_) | None => Self::OfWorktree,
        }
    }
}

/// Whether a worktree on `branch` may have work after a merged pull request.
pub fn may_go_on(pull: &Pull, branch: &str) -> bool {
    !pull.head.is_empty() && pull.branch == branch
}

/// Whether a worktree has work after the head with which a pull request was merged.
pub fn went_on(pull: &Pull, head: &str, is_clean: bool) -> bool {
    head != pull.head || !is_clean
}

/// The pull request by whose merge a task in review is done: its merge was approved and came after the task's review
/// began, and no other pull request is open. `pulls` are those of the task, newest first; of several merged ones the
/// newest is meant.
pub fn done_by(task: &Task, pulls: Vec<Pull>) -> Option<Pull> {
    let pulls: Vec<Pull> = pulls.into_iter().filter(|pull| pull.job.is_none()).collect();
    let is_approved =
        |pull: &Pull| pull.status == MERGED && pull.is_awaited && pull.changed_at >= task.phase_at;
    let is_done = task.phase == Phase::Review
        && pulls.iter().any(is_approved)
        && !pulls.iter().any(Pull::is_open);
    pulls.into_iter().find(|pull| is_done && pull.status == MERGED)
}

/// The page of a pull request at a forge.
pub fn judge_page(url: &str) -> Result<(ForgeKind, ForgeRef), Refusal> {
    let is_page = url.starts_with("http://") || url.starts_with("https://");
    let read = |kind| ForgeRef::parse(kind, url).ok().map(|pull| (kind, pull));
    let page = [ForgeKind::GitHub, ForgeKind::GitLab].into_iter().find_map(read);
    page.filter(|_| is_page).ok_or_else(|| {
        let words = "prUrl must be a pull request of this task: its page at GitHub or GitLab, or \
             callboard://pr/N";
        Refusal::CrewInput { message: words.into() }
    })
}
