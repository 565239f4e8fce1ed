//! Pull requests that Callboard opened or was told of, whichever forge they are at. At the forge
//! `local` they are records of its own, numbered per org, and merged with plain git.

use crate::ids::TaskId;
use crate::job::JobId;
use crate::policy::Phase;
use crate::time::Timestamp;

/// The forge that is Callboard itself.
pub const LOCAL: &str = "local";

pub const OPEN: &str = "open";
pub const MERGED: &str = "merged";
pub const CLOSED: &str = "closed";

pub fn local_url(number: u64) -> String {
    format!("callboard://pr/{number}")
}

/// The number in such an address.
pub fn local_number(url: &str) -> Option<u64> {
    let number: u64 = url.strip_prefix("callboard://pr/")?.parse().ok()?;
    (local_url(number) == url).then_some(number)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// local, github or gitlab.
    pub forge: String,
    /// Where the repository is: its path on `machine`, its address, or what the forge calls it.
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
    /// Somebody wanted it merged: its forge does it once it may, or it was done at once.
    pub is_awaited: bool,
    /// Nobody wants that any more, and its forge may not know yet.
    pub is_revoked: bool,
    /// What it became in the base; `None` too when nobody knows.
    pub merge_commit: Option<String>,
    pub task: Option<TaskId>,
    /// The job that made it.
    pub job: Option<JobId>,
    /// The only one that has the repository.
    pub machine: Option<String>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

impl Pull {
    pub fn is_open(&self) -> bool {
        self.status == OPEN
    }

    /// That of an open task is merged by its review, which looks at the checks; `phase` is the task's.
    pub fn waits_for_review(&self, phase: Option<Phase>) -> bool {
        self.job.is_none() && phase.is_some_and(|phase| !phase.is_closed())
    }

    /// Whether both are the same pull request, as it was and as it is.
    pub fn is(&self, other: &Pull) -> bool {
        (&self.forge, &self.repo, self.number) == (&other.forge, &other.repo, other.number)
    }
}
