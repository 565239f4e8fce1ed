//! Commands of runs: an agent's work on a job, from its submission to its end.

use crate::actor::Actor;
use crate::ids::{AttemptId, TaskId};
use crate::relay::{JobSpec, RunVerdict};
use crate::runs::delivery::Webhook;
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::NewArtifact;
use crate::runs::usage::RunUsage;

#[derive(Clone, Debug, PartialEq)]
pub struct RunSubmit {
    pub job: JobId,
    pub task: TaskId,
    pub project: i64,
    pub spec: JobSpec,
    /// The only machine that can run it.
    pub bound_to: Option<String>,
    pub webhook: Option<Webhook>,
    /// How long after its end a job is still found by its key.
    pub window_s: u32,
    /// How many jobs of an org may be open.
    pub open_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLease {
    pub job: JobId,
    pub kind: JobKind,
    /// The agent that works, when it is not the relay.
    pub agent: Option<Actor>,
    pub attempt: AttemptId,
    /// The machine of the runner.
    pub machine: String,
    /// How many runs there may be on the machine.
    pub running_max: u32,
    pub lease_s: u32,
    /// The run is held for this process, which may lease it before others can.
    pub early: bool,
}

/// The end of a patch job's run, with everything that the run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    pub job: JobId,
    pub fence: u64,
    pub verdict: RunVerdict,
    pub summary: String,
    /// Artifacts that are not on record yet.
    pub artifacts: Vec<NewArtifact>,
    /// The agent, with the tokens and the cost that it reported.
    pub used: Option<(Actor, RunUsage)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPr {
    pub job: JobId,
    pub forge: String,
    /// As in `Pull::repo`.
    pub repo: String,
    /// Number and page of the pull request; `None` where Callboard itself is the forge and assigns them.
    pub at: Option<(u64, String)>,
    pub status: String,
    pub branch: String,
    pub base: String,
    pub head: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettle {
    pub job: JobId,
    /// How long a lost worker may still report.
    pub hold_s: u32,
    pub attempts_max: u32,
    /// The process that ran it is known to be gone.
    pub is_gone: bool,
}
