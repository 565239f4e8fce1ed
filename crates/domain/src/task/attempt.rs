//! One actor's try at one task. The fencing token tells an old try from the current one.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{AttemptId, TaskId};
use crate::policy::{Phase, Policy};
use crate::time::Timestamp;
use crate::words::words;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum AttemptKind {
        Graph => "graph",
        Execution => "execution",
        Pair => "pair",
        Crew => "crew",
        Job => "job",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    pub task: TaskId,
    pub kind: AttemptKind,
    pub fence: u64,
    pub actor: Actor,
    /// The idempotency key of `begin`: a repeat by one actor on one task finds this attempt again.
    pub key: Option<String>,
    pub client: Option<String>,
    pub model: Option<String>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub head_started: Option<String>,
    pub started_at: Timestamp,
    pub state: AttemptState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptState {
    /// Left by finish, cancel, release, takeover, or the end of its lease.
    Live {
        heartbeat_at: Timestamp,
        progress: Option<String>,
        lease: Option<Lease>,
    },
    Ended {
        at: Timestamp,
        end: AttemptEnd,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub granted_s: u32,
    pub expires_at: Timestamp,
}

impl Lease {
    /// A lease ends exactly at its expiry.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptEnd {
    Finished { summary: String, head: Option<String> },
    Canceled { reason: String },
    Released,
    Expired,
}

impl AttemptEnd {
    pub fn as_str(&self) -> &'static str {
        match self {
            AttemptEnd::Finished { .. } => "finished",
            AttemptEnd::Canceled { .. } => "canceled",
            AttemptEnd::Released => "released",
            AttemptEnd::Expired => "expired",
        }
    }

    /// The actor's closing words: summary or reason.
    pub fn words(&self) -> Option<&str> {
        match self {
            AttemptEnd::Finished { summary, .. } => Some(summary),
            AttemptEnd::Canceled { reason } => Some(reason),
            AttemptEnd::Released | AttemptEnd::Expired => None,
        }
    }

    /// The commit the attempt ended with.
    pub fn head(&self) -> Option<&str> {
        match self {
            AttemptEnd::Finished { head, .. } => head.as_deref(),
            AttemptEnd::Canceled { .. } | AttemptEnd::Released | AttemptEnd::Expired => None,
        }
    }
}

words! {
    /// The health of an attempt right now, as other actors should see it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Health {
        Active => "active",
        Stalled => "stalled",
        Finished => "finished",
        Canceled => "canceled",
    }
}

words! {
    /// What a task's newest attempt means to an actor that looks for work or reviews.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExecutionState {
        Active => "active",
        Stalled => "stalled",
        AwaitingReview => "awaiting_review",
    }
}

impl Attempt {
    /// Live as written and, if leased, still within its lease.
    pub fn is_live(&self, now: Timestamp) -> bool {
        match &self.state {
            AttemptState::Live { lease, .. } => !lease.is_some_and(|lease| lease.is_over(now)),
            AttemptState::Ended { .. } => false,
        }
    }

    /// The lease of a live attempt, if it has one.
    pub fn lease(&self) -> Option<Lease> {
        match &self.state {
            AttemptState::Live { lease, .. } => *lease,
            AttemptState::Ended { .. } => None,
        }
    }

    /// The last heartbeat of a live attempt.
    pub fn heartbeat_at(&self) -> Option<Timestamp> {
        match &self.state {
            AttemptState::Live { heartbeat_at, .. } => Some(*heartbeat_at),
            AttemptState::Ended { .. } => None,
        }
    }

    pub fn lease_is_over(&self, now: Timestamp) -> bool {
        self.lease().is_some_and(|lease| lease.is_over(now))
    }

    /// Ends an attempt whose lease is over at `now`, and returns when it was over.
    pub fn settle(&mut self, now: Timestamp) -> Option<Timestamp> {
        let at = self.lease().filter(|lease| lease.is_over(now))?.expires_at;
        self.state = AttemptState::Ended { at, end: AttemptEnd::Expired };
        Some(at)
    }

    /// The attempt as it stands at `now`.
    pub fn as_of(mut self, now: Timestamp) -> Self {
        self.settle(now);
        self
    }

    /// Until when no other actor can take the task, unless a heartbeat comes: the end of the lease, or the silence after
    /// which a session may be taken over.
    pub fn safe_until(&self, policy: &Policy) -> Option<Timestamp> {
        match (&self.state, self.kind) {
            (AttemptState::Live { lease: Some(lease), .. }, _) => Some(lease.expires_at),
            (AttemptState::Live { heartbeat_at, .. }, AttemptKind::Graph) => {
                Some((*heartbeat_at).max(self.started_at).plus_s(policy.stale_after_s))
            }
            (AttemptState::Live { .. } | AttemptState::Ended { .. }, _) => None,
        }
    }

    /// Whether this is a session that has been silent for so long that another actor may take over.
    pub fn may_be_taken_over(&self, policy: &Policy, now: Timestamp) -> bool {
        self.kind == AttemptKind::Graph && self.health(policy, now) == Health::Stalled
    }

    pub fn health(&self, policy: &Policy, now: Timestamp) -> Health {
        match &self.state {
            AttemptState::Live { .. } if self.lease_is_over(now) => Health::Canceled,
            AttemptState::Live { heartbeat_at, .. } => {
                let last = (*heartbeat_at).max(self.started_at);
                if now > last.plus_s(policy.stale_after_s) {
                    Health::Stalled
                } else {
                    Health::Active
                }
            }
            AttemptState::Ended { end: AttemptEnd::Finished { .. }, .. } => Health::Finished,
            AttemptState::Ended {
                end: AttemptEnd::Canceled { .. } | AttemptEnd::Released | AttemptEnd::Expired,
                ..
            } => Health::Canceled,
        }
    }

    /// What this attempt, the newest of its task, says about the task.
    pub fn execution_state(
        &self,
        task_phase: Phase,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<ExecutionState> {
        match self.health(policy, now) {
            Health::Active => Some(ExecutionState::Active),
            Health::Stalled => Some(ExecutionState::Stalled),
            Health::Finished => {
                let waits = match policy.review() {
                    Some(_) => task_phase == Phase::Review,
                    None => !task_phase.is_closed(),
                };
                waits.then_some(ExecutionState::AwaitingReview)
            }
            Health::Canceled => None,
        }
    }
}
