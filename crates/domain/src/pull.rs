//! Pull requests that Callboard opened, whichever forge they are at. At the forge `local` they are
//! records of its own, numbered per org, and merged with plain git.

use crate::ids::TaskId;
use crate::job::JobId;
use crate::time::Timestamp;

/// The forge that is Callboard itself.
pub const LOCAL: &str = "local";

pub const OPEN: &str = "open";
pub const MERGED: &str = "merged";
pub const CLOSED: &str = "closed";

pub fn local_url(number: u64) -> String {
    format!("callboard://pr/{number}")
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
    pub task: Option<TaskId>,
    /// The job that made it.
    pub job: Option<JobId>,
    /// The only one that has the repository.
    pub machine: Option<String>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}
