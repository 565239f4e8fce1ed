//! The port that runs agents: one job, once, in a place of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, RunVerdict};
use callboard_domain::runs::usage::RunUsage;
use tokio_util::sync::CancellationToken;

/// The problem with a local repository that may not be used, or is not there.
pub const NOT_ALLOWED: &str = "must be a folder that relay.local_roots allows";

/// Runs agents on jobs. They see a copy of the repository and change no checkout.
#[async_trait]
pub trait AgentRunner: Send + Sync {
    /// Problems with a repository that only this machine can find before a job is accepted: a local one must exist, be
    /// allowed, and have the commit. Empty when all is well.
    async fn repo_problems(&self, repo: &Repo) -> Vec<Problem>;

    /// Whether a local repository that `repo_problems` accepted is this folder, or lies in it.
    async fn lies_in(&self, _path: &str, _folder: &Path) -> bool {
        false
    }

    /// Runs to the end, the time limit or `stop`. No process of the run is left when this returns or is dropped.
    async fn run(&self, order: RunOrder, asks: Arc<dyn Asks>, stop: CancellationToken)
    -> RunReport;

    /// Puts a patch on a shared branch and touches nothing else there. A repeat moves that branch. The fault is the
    /// cause, for a person.
    async fn branch(&self, _order: PatchOrder) -> Result<Branch, String> {
        Err("this server makes no branches".into())
    }

    /// The state of a branch in a repository of this machine; `None` when that cannot be told.
    async fn branch_state(&self, _branch: &Branch, _base: &str) -> Option<BranchState> {
        None
    }

    /// Ends and removes what dead processes of this machine left behind: their agents, and the folders those worked in.
    /// The runs of live processes are left alone.
    async fn clean_up(&self);

    /// Ends the processes of earlier runs on this machine, also those that a live server started: their turn is over.
    /// Returns the processes that could not be ended, each by number and name.
    async fn end_earlier(&self, _runs: Vec<EarlierRuns>) -> Vec<String> {
        Vec::new()
    }

    /// Whether processes of these runs live on this machine.
    async fn are_left(&self, _runs: Vec<EarlierRuns>) -> bool {
        true
    }
}

/// The attempts of a job with a number below `below`.
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
    /// How long the agent may run. The time it waits for an answer does not count.
    pub timeout: Duration,
}

/// The result of a run. It has the artifacts of every stage that the run reached; secrets are replaced in all of them
/// but the patch.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub verdict: RunVerdict,
    /// One line. For a stopped run it holds nothing worth keeping.
    pub summary: String,
    /// patch.diff; empty when no change is needed.
    pub patch: Option<String>,
    /// out.md.
    pub out: Option<String>,
    /// logs.txt of this attempt; never empty.
    pub logs: String,
    /// The tokens and the cost, if the executor reported them.
    pub usage: Option<RunUsage>,
}

/// An order to make a branch of a patch.
#[derive(Clone, Debug)]
pub struct PatchOrder {
    /// Names the folder in which the branch is made, as for the run.
    pub job: String,
    pub attempt: u32,
    pub repo: Repo,
    pub name: String,
    pub patch: String,
    /// The message of the branch's one commit.
    pub message: String,
    /// Pushes the branch of a local repository to its `origin` too.
    pub push: bool,
    /// As in `RunOrder`.
    pub has_tokens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    /// The commit of the branch.
    pub head: String,
    /// The path of a local repository, or the address of a remote one.
    pub repo: String,
    /// The address it was pushed to; without secrets.
    pub remote: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchState {
    Open,
    /// Its commits are in the base branch, or all of them squashed into one: that commit.
    Merged {
        commit: Option<String>,
    },
    /// The branch no longer exists.
    Gone,
}

/// Takes the questions of a running agent.
#[async_trait]
pub trait Asks: Send + Sync {
    /// Waits for the answer; silence for too long is a refusal. Dropped when the run ends first.
    async fn ask(&self, question: Question) -> Answer;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// One line, for a person.
    pub text: String,
    /// The command that the agent wants to run, if it asks for that.
    pub command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted,
    Refused,
}
