//! A job for an agent, beside the `Job` that queues it: the order, the progress and the artifacts. Its state is the
//! job's; its version is the number of its newest step event.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::relay::JobSpec;
use crate::relay::spec::Priority;
use crate::runs::delivery::Webhook;
use crate::runs::job::{Job, JobId, JobState};
use crate::runs::usage::RunUsage;
use crate::runs::work::WorkOrder;
use crate::time::Timestamp;
use crate::words::words;

/// The actor that holds the tasks of these jobs.
pub fn holder() -> Actor {
    "system:relay".parse().expect("a constant actor is well formed")
}

/// The key of a job; at most one job with it is open.
pub fn run_key(idempotency_key: &str) -> String {
    format!("run-{idempotency_key}")
}

impl Priority {
    /// On the scale of tasks.
    pub fn rank(self) -> u16 {
        match self {
            Priority::P0 => 100,
            Priority::P1 => 500,
            Priority::P2 => 900,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub job: JobId,
    pub order: Order,
    pub content_hash: String,
    /// The time of the newest step.
    pub changed_at: Timestamp,
    pub summary: Option<String>,
    /// 0 before the first run; the number of the current or next one after that.
    pub attempt: u32,
    /// The fencing token of the newest run; 0 before the first. A worker with an older one is refused.
    pub fence: u64,
    /// The start of the newest run.
    pub started_at: Option<Timestamp>,
    /// When the agent of a first run was seen at work. Callers that requested its start wait for this.
    pub up_at: Option<Timestamp>,
    /// When no process of the newest run was left on its machine.
    pub gone_at: Option<Timestamp>,
    pub expires_at: Timestamp,
    /// The only machine that can run it, because the repository is there.
    pub bound_to: Option<String>,
    /// The machine of the newest run.
    pub runs_on: Option<String>,
    /// In the order they were first stored.
    pub artifacts: Vec<Artifact>,
    /// The newest question.
    pub question: Option<Question>,
    pub pr: Option<PullRequest>,
    pub webhook: Option<Webhook>,
    /// The terminal of the newest run, once its agent is at work.
    pub terminal: Option<Terminal>,
    /// The tokens and the cost of all runs so far, where their executors reported them.
    pub usage: Option<RunUsage>,
}

/// The head of a task's work at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCommit {
    pub head: String,
    /// The number of commits that the task's target lacks.
    pub commits: u64,
    /// Whether the server committed changes that the agent had left.
    pub is_leftovers: bool,
}

/// A tmux session in which a person sees what the agent of a run prints, on the machine of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    pub session: String,
    /// The socket of the tmux server; each run has a server of its own.
    pub socket: String,
}

impl Terminal {
    /// The command that a person types to attach.
    pub fn attach(&self) -> String {
        format!("tmux -S {} attach -t {}", shell_word(&self.socket), self.session)
    }
}

fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The order for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Order {
    /// A change to a commit, handed over as a patch.
    Patch(Box<JobSpec>),
    /// Work on the job's task, in the task's workspace.
    Work(WorkOrder),
}

impl Order {
    pub fn patch(&self) -> Option<&JobSpec> {
        match self {
            Order::Patch(spec) => Some(spec),
            Order::Work(_) => None,
        }
    }

    pub fn work(&self) -> Option<&WorkOrder> {
        match self {
            Order::Patch(_) => None,
            Order::Work(order) => Some(order),
        }
    }

    /// The idempotency key by which the caller finds the job again; empty for work.
    pub fn key(&self) -> &str {
        self.patch().map_or("", |spec| &spec.idempotency_key)
    }
}

impl Run {
    /// The run of a new job, before its first step.
    pub fn queued(job: JobId, order: Order, now: Timestamp, expires_at: Timestamp) -> Self {
        Self {
            job,
            order,
            content_hash: String::new(),
            changed_at: now,
            summary: None,
            attempt: 0,
            fence: 0,
            started_at: None,
            up_at: None,
            gone_at: None,
            expires_at,
            bound_to: None,
            runs_on: None,
            artifacts: Vec::new(),
            question: None,
            pr: None,
            webhook: None,
            terminal: None,
            usage: None,
        }
    }

    pub fn artifact(&self, name: ArtifactName) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }

    /// The names of everything there is to read, in the order it came.
    pub fn artifact_names(&self) -> impl Iterator<Item = ArtifactName> {
        let pr = self.pr.as_ref().map(|_| ArtifactName::Pr);
        self.artifacts.iter().map(|artifact| artifact.name).chain(pr)
    }

    /// The question that waits for an answer.
    pub fn open_question(&self) -> Option<&Question> {
        self.question.as_ref().filter(|question| question.answer.is_none())
    }
}

words! {
    /// The name of an artifact, in the order artifacts are stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ArtifactName {
        #[serde(rename = "patch.diff")]
        Patch => "patch.diff",
        #[serde(rename = "out.md")]
        Out => "out.md",
        #[serde(rename = "logs.txt")]
        Logs => "logs.txt",
        #[serde(rename = "pr.json")]
        Pr => "pr.json",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: ArtifactName,
    /// The store's name for the file; new content is a new file.
    pub file: String,
    pub size: u64,
    /// The digest in hex.
    pub sha256: String,
    /// The fence of the run that left it.
    #[serde(default)]
    pub fence: u64,
}

/// An artifact that a run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    pub artifact: Artifact,
    /// The content, to be stored in the transaction that records the artifact; `None`: the file is in the store.
    pub bytes: Option<Arc<[u8]>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Numbered from 1; a number is never used again.
    pub number: u32,
    pub text: String,
    pub command: Option<String>,
    /// Whether the permission was granted.
    pub answer: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub url: String,
    pub number: u64,
    /// open, merged or closed.
    pub status: String,
    pub branch: String,
    pub base: String,
    pub forge: String,
    /// The commit at the end of the branch.
    pub head: String,
}

/// A run with its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub job: Job,
    pub run: Run,
}

impl RunRecord {
    /// Whether a run of the job may have printed: its output is kept, or the run goes on.
    pub fn may_have_printed(&self) -> bool {
        let is_kept = self.run.artifact(ArtifactName::Logs).is_some();
        is_kept || (self.run.started_at.is_some() && !self.job.is_over())
    }

    /// The question that the agent waits on. In a run that is lost or over no agent waits.
    pub fn asks(&self) -> Option<&Question> {
        match self.job.state {
            JobState::Running { .. } => self.run.open_question(),
            JobState::Queued { .. }
            | JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => None,
        }
    }

    /// The terminal of a run that is under way. That of a lost run ends with the run's processes.
    pub fn terminal(&self) -> Option<&Terminal> {
        let is_running = matches!(self.job.state, JobState::Running { .. });
        self.run.terminal.as_ref().filter(|_| is_running && self.is_alive())
    }

    /// Whether processes of the newest run may live: it began, and their end is not on record.
    pub fn is_alive(&self) -> bool {
        self.run.runs_on.is_some() && self.run.gone_at.is_none()
    }

    /// The processes of earlier runs that keep the agent from starting, in words.
    pub fn held(&self) -> Option<&str> {
        let is_running = matches!(self.job.state, JobState::Running { .. });
        let words = self.run.summary.as_deref().filter(|_| is_running);
        words.filter(|_| self.run.open_question().is_none())
    }

    pub fn finished_at(&self) -> Option<Timestamp> {
        match self.job.state {
            JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => None,
            JobState::Done { at }
            | JobState::Failed { at, .. }
            | JobState::Canceled { at }
            | JobState::Expired { at } => Some(at),
        }
    }
}

/// How many jobs of an org are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenRuns {
    pub queued: u32,
    /// Includes stale ones.
    pub running: u32,
}
