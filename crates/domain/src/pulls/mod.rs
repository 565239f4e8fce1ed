//! Pull requests that Callboard opened or was told of, at any forge. At the forge `local` they are Callboard's own
//! records, numbered per org, and merged with plain git.

pub mod review;

use crate::ids::TaskId;
use crate::policy::Phase;
use crate::runs::job::JobId;
use crate::time::Timestamp;

/// The forge that is Callboard itself.
pub const LOCAL: &str = "local";

pub const OPEN: &str = "open";
pub const MERGED: &str = "merged";
pub const CLOSED: &str = "closed";

pub fn local_url(number: u64) -> String {
    format!("callboard://pr/{number}")
}

/// The number in a local address.
pub fn local_number(url: &str) -> Option<u64> {
    let number: u64 = url.strip_prefix("callboard://pr/")?.parse().ok()?;
    (local_url(number) == url).then_some(number)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// local, github or gitlab.
    pub forge: String,
    /// The place of the repository: its path on `machine`, its address, or the forge's name for it.
    pub repo: String,
    pub number: u64,
    pub url: String,
    /// open, merged or closed.
    pub status: String,
    pub branch: String,
    pub base: String,
    /// The commit at the end of the branch.
    pub head: String,
    pub title: String,
    /// A merge was requested: the forge merges once it may, or the merge was done at once.
    pub is_awaited: bool,
    /// The merge is not wanted any more, and the forge may not know that yet.
    pub is_revoked: bool,
    /// The merge commit in the base; also `None` when it is unknown.
    pub merge_commit: Option<String>,
    pub task: Option<TaskId>,
    /// The job that opened the pull request.
    pub job: Option<JobId>,
    /// The only machine that has the repository.
    pub machine: Option<String>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

impl Pull {
    pub fn is_open(&self) -> bool {
        self.status == OPEN
    }

    /// Whether the pull request waits for its task's review: the review of an open task merges it, because it looks
    /// at the checks. `phase` is the task's.
    pub fn waits_for_review(&self, phase: Option<Phase>) -> bool {
        self.job.is_none() && phase.is_some_and(|phase| !phase.is_closed())
    }

    /// Whether both are the same pull request, perhaps in different states.
    pub fn is(&self, other: &Pull) -> bool {
        (&self.forge, &self.repo, self.number) == (&other.forge, &other.repo, other.number)
    }
}
