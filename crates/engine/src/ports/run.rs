//! What the engine asks of whoever runs agents: one job, once, in a place of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, RunVerdict};
use tokio_util::sync::CancellationToken;

/// What is wrong with a local repository that may not be used, or is not there.
pub const NOT_ALLOWED: &str = "must be a folder that relay.local_roots allows";

/// Runs agents on jobs. They see a copy of the repository and change nobody's checkout.
#[async_trait]
pub trait AgentRunner: Send + Sync {
    /// What only this machine can say of a repository before a job on it is accepted: a local one
    /// is there, is allowed, and has the commit. Empty when all is well.
    async fn repo_problems(&self, repo: &Repo) -> Vec<Problem>;

    /// Whether a local repository that `repo_problems` let pass is this folder, or lies in it.
    async fn lies_in(&self, _path: &str, _folder: &Path) -> bool {
        false
    }

    /// Runs to the end, the time limit or `stop`. Nothing of it is left running when this returns
    /// or is dropped.
    async fn run(&self, order: RunOrder, asks: Arc<dyn Asks>, stop: CancellationToken)
    -> RunReport;

    /// Puts a patch on a branch where others find it, and nothing else there is touched. The same
    /// branch again is moved. The fault is the cause, for a person.
    async fn branch(&self, _order: PatchOrder) -> Result<Branch, String> {
        Err("this server makes no branches".into())
    }

    /// How a branch in a repository of this machine stands; `None` when that cannot be told.
    async fn branch_state(&self, _branch: &Branch, _base: &str) -> Option<BranchState> {
        None
    }

    /// Ends and removes what processes of this machine that are gone left behind: their agents,
    /// and the folders those worked in. What a live process runs is left alone.
    async fn clean_up(&self);

    /// Ends the processes of earlier runs on this machine, also those that a live server started: their
    /// turn is over. Returns the processes that could not be ended, each by number and name.
    async fn end_earlier(&self, _runs: Vec<EarlierRuns>) -> Vec<String> {
        Vec::new()
    }

    /// Whether processes of these runs live on this machine.
    async fn are_left(&self, _runs: Vec<EarlierRuns>) -> bool {
        true
    }
}

/// The attempts of a job below this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRuns {
    pub job: String,
    pub below: u32,
}

#[derive(Clone, Debug)]
pub struct RunOrder {
    /// `job_…`; names the folder of the run.
    pub job: String,
    pub attempt: u32,
    pub spec: JobSpec,
    /// Callers show tokens, so they are not the user whose git credentials the runner finds.
    pub has_tokens: bool,
    /// How long the agent may run. Time in which it waits for an answer does not count.
    pub timeout: Duration,
}

/// Artifacts are there for every outcome that got so far; secrets are replaced in all but the
/// patch.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub verdict: RunVerdict,
    /// One line. Of a stopped run it says nothing worth keeping.
    pub summary: String,
    /// patch.diff; empty when no change is needed.
    pub patch: Option<String>,
    /// out.md.
    pub out: Option<String>,
    /// logs.txt of this attempt; never empty.
    pub logs: String,
}

/// A patch that is to become a branch.
#[derive(Clone, Debug)]
pub struct PatchOrder {
    /// Names the folder it is made in, as the run's.
    pub job: String,
    pub attempt: u32,
    pub repo: Repo,
    pub name: String,
    pub patch: String,
    /// Of its one commit.
    pub message: String,
    /// A local repository's goes to its `origin` too.
    pub push: bool,
    /// As in `RunOrder`.
    pub has_tokens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    /// Its commit.
    pub head: String,
    /// The path of a local repository, or the address.
    pub repo: String,
    /// Where it was pushed to; without secrets.
    pub remote: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchState {
    Open,
    /// Its commits are in the base branch, or all of them as one: that commit.
    Merged {
        commit: Option<String>,
    },
    /// It is not there any more.
    Gone,
}

/// Somebody who can be asked on behalf of a running agent.
#[async_trait]
pub trait Asks: Send + Sync {
    /// Waits for the answer; silence for too long is a refusal. Dropped when the run ends first.
    async fn ask(&self, question: Question) -> Answer;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// One line, for a person.
    pub text: String,
    /// What would be run, when the agent wants to run something.
    pub command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted,
    Refused,
}
