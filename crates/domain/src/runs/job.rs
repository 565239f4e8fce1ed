//! One piece of durable outside work: queued in the transaction that wants it, leased by a runner, and retried when
//! the outcome is not known yet or its runner went away.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{IdKind, TaskId, id};
use crate::task::PRIORITY_DEFAULT;
use crate::time::Timestamp;
use crate::words::words;

id!(JobId, IdKind::Job.sign(), "not a job id");

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum JobKind {
        /// Judges a task's verification contract.
        Verify => "verify",
        /// Makes vectors for stored knowledge.
        Embed => "embed",
        /// Lets an agent make a patch for a caller.
        Run => "run",
        /// Lets an agent work on a task in the task's own workspace.
        Work => "work",
        /// Lets a worker of a crew go on with the task it has.
        Crew => "crew",
        /// Sends a message about the end of a run, or about an event.
        Deliver => "deliver",
        /// Ends the work of an agent on a task.
        Stop => "stop",
        /// Runs the command checks of a task that came into review.
        Check => "check",
    }
}

impl JobKind {
    /// The kinds that let agents work in tasks' own workspaces.
    pub const IN_WORKSPACES: [JobKind; 2] = [JobKind::Work, JobKind::Crew];

    pub fn is_in_workspace(self) -> bool {
        Self::IN_WORKSPACES.contains(&self)
    }

    /// Whether an agent does the work, so that there is a run beside the job.
    pub fn is_run(self) -> bool {
        match self {
            JobKind::Run | JobKind::Work | JobKind::Crew => true,
            JobKind::Verify
            | JobKind::Embed
            | JobKind::Deliver
            | JobKind::Stop
            | JobKind::Check => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub kind: JobKind,
    /// At most one job with a key is not over.
    pub key: String,
    pub task: Option<TaskId>,
    /// On the scale of tasks: smaller goes first.
    pub priority: u16,
    /// How often the job was taken: the number of the current try. It works as a fencing token, because an older
    /// try cannot know it.
    pub tries: u32,
    pub created_at: Timestamp,
    pub state: JobState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// Left when a runner takes the job, not before `due_at`.
    Queued {
        due_at: Timestamp,
    },
    /// Left by a report of its runner, or to the next runner when the lease is over.
    Running {
        runner: Actor,
        until: Timestamp,
    },
    /// The runner was silent past the lease. Left by a report of that runner until `until`, then back to the queue
    /// or to a final state.
    Stale {
        runner: Actor,
        until: Timestamp,
    },
    Done {
        at: Timestamp,
    },
    Failed {
        at: Timestamp,
        reason: String,
    },
    /// The job is not wanted any more.
    Canceled {
        at: Timestamp,
    },
    /// The job did not end within its time to live.
    Expired {
        at: Timestamp,
    },
}

impl JobState {
    pub fn as_str(&self) -> &'static str {
        match self {
            JobState::Queued { .. } => "queued",
            JobState::Running { .. } => "running",
            JobState::Stale { .. } => "stale",
            JobState::Done { .. } => "done",
            JobState::Failed { .. } => "failed",
            JobState::Canceled { .. } => "canceled",
            JobState::Expired { .. } => "expired",
        }
    }
}

impl Job {
    /// A new job that is due now, with the default priority. Every job begins here.
    pub fn queued(
        id: JobId,
        kind: JobKind,
        key: String,
        task: Option<TaskId>,
        now: Timestamp,
    ) -> Self {
        let state = JobState::Queued { due_at: now };
        Self { id, kind, key, task, priority: PRIORITY_DEFAULT, tries: 0, created_at: now, state }
    }

    pub fn is_over(&self) -> bool {
        match self.state {
            JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => false,
            JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => true,
        }
    }

    /// The end of a job that is over, else its creation.
    pub fn since(&self) -> Timestamp {
        match self.state {
            JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => {
                self.created_at
            }
            JobState::Done { at }
            | JobState::Failed { at, .. }
            | JobState::Canceled { at }
            | JobState::Expired { at } => at,
        }
    }

    /// Whether a runner may take the job now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.state {
            JobState::Queued { due_at } => now >= due_at,
            JobState::Running { until, .. } => now >= until,
            JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => false,
        }
    }

    /// Whether `runner` still has the try that `tries` counted.
    pub fn is_run_by(&self, runner: &Actor, tries: u32, now: Timestamp) -> bool {
        let in_time = match &self.state {
            JobState::Running { runner: holder, until } => holder == runner && now < *until,
            JobState::Queued { .. }
            | JobState::Stale { .. }
            | JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => false,
        };
        in_time && self.tries == tries
    }
}
