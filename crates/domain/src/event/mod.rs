//! What happened: appended in the transaction of the change, numbered in commit order.

use serde_json::Value;

use crate::actor::Actor;
use crate::ids::{AttemptId, TaskId};
use crate::job::JobId;
use crate::time::Timestamp;

macro_rules! event_names {
    ($($variant:ident => $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventName { $($variant),* }

        impl EventName {
            pub const ALL: &'static [EventName] = &[$(EventName::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(EventName::$variant => $name),* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($name => Some(EventName::$variant),)* _ => None }
            }
        }
    };
}

event_names! {
    TaskCreated => "task.created",
    TaskUpdated => "task.updated",
    TaskDeleted => "task.deleted",
    TaskCompleted => "task.completed",
    TaskCanceled => "task.canceled",
    TaskReopened => "task.reopened",
    TaskClaimed => "task.claimed",
    TaskReleased => "task.released",
    TaskStatusChanged => "task.status_changed",
    TaskReady => "task.ready",
    TaskNoted => "task.noted",
    TaskTold => "task.told",
    TaskHeard => "task.heard",
    TaskBlocked => "task.blocked",
    TaskUnblocked => "task.unblocked",
    TaskScratchpad => "task.scratchpad",
    TaskDependencyAdded => "task.dependency_added",
    TaskDependencyRemoved => "task.dependency_removed",
    CheckRan => "check.ran",
    CheckAttested => "check.attested",
    AttemptStarted => "attempt.started",
    AttemptHeartbeat => "attempt.heartbeat",
    AttemptEnded => "attempt.ended",
    AttemptExpired => "attempt.expired",
    VerificationQueued => "verification.queued",
    VerificationSkipped => "verification.skipped",
    VerificationPending => "verification.pending",
    VerificationPassed => "verification.passed",
    VerificationFailed => "verification.failed",
    CommentAdded => "comment.added",
    CommentResolved => "comment.resolved",
    JobQueued => "job.queued",
    JobTaken => "job.taken",
    JobKept => "job.kept",
    JobEnded => "job.ended",
    JobSubmitted => "job.submitted",
    JobStarted => "job.started",
    JobStale => "job.stale",
    JobHeld => "job.held",
    JobRequeued => "job.requeued",
    JobSucceeded => "job.succeeded",
    JobFailed => "job.failed",
    JobCanceled => "job.canceled",
    JobExpired => "job.expired",
    JobArtifact => "job.artifact",
    JobPr => "job.pr",
    PrOpened => "pr.opened",
    PrUpdated => "pr.updated",
    PrMerged => "pr.merged",
    PrClosed => "pr.closed",
    JobAsked => "job.asked",
    JobAnswered => "job.answered",
    ReviewRequested => "review.requested",
    ReviewApproved => "review.approved",
    ReviewRejected => "review.rejected",
    ReviewMerged => "review.merged",
    ReviewRebased => "review.rebased",
    ReviewFailed => "review.failed",
    SessionCreated => "session.created",
    SessionKilled => "session.killed",
    CallRefused => "call.refused",
    WebhookQueued => "webhook.queued",
    WebhookDelivered => "webhook.delivered",
    WebhookFailed => "webhook.failed",
    KnowledgeStored => "knowledge.stored",
    KnowledgeSuperseded => "knowledge.superseded",
    SettingsUpdated => "settings.updated",
    ProjectCreated => "project.created",
    ProjectOpened => "project.opened",
    PlanProposed => "plan.proposed",
    PlanApproved => "plan.approved",
    PlanRejected => "plan.rejected",
    CallAnswered => "call.answered",
    AgentAdded => "agent.added",
    AgentRemoved => "agent.removed",
    MailSent => "mail.sent",
    MailRead => "mail.read",
    DecisionLogged => "decision.logged",
    AgentFreed => "agent.freed",
    TaskAssigned => "task.assigned",
    EpicStatusChanged => "epic.status_changed",
    EpicCompleted => "epic.completed",
}

impl EventName {
    /// Whether the event is a visible step of a job for an agent. Its data has `job`; its number is the version of
    /// that job until the next step.
    pub fn is_run_step(self) -> bool {
        matches!(
            self,
            EventName::JobSubmitted
                | EventName::JobStarted
                | EventName::JobStale
                | EventName::JobHeld
                | EventName::JobRequeued
                | EventName::JobSucceeded
                | EventName::JobFailed
                | EventName::JobCanceled
                | EventName::JobExpired
                | EventName::JobArtifact
                | EventName::JobPr
                | EventName::JobAsked
                | EventName::JobAnswered
        )
    }
}

/// The job for an agent of which the event is a step.
pub fn step_of(name: EventName, data: &Value) -> Option<JobId> {
    data["job"].as_str().filter(|_| name.is_run_step())?.parse().ok()
}

/// An event as `decide` makes it; its time is that of the whole change.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub actor: Actor,
    pub name: EventName,
    /// `None` for events that belong to the org alone.
    pub about: Option<About>,
    pub data: Value,
}

/// The task an event speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub project: i64,
    pub task: TaskId,
    pub attempt: Option<AttemptId>,
}

/// An event as the log holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    pub seq: u64,
    pub at: Timestamp,
    pub actor: Actor,
    pub name: EventName,
    pub about: Option<About>,
    pub data: Value,
}

impl LoggedEvent {
    pub fn task(&self) -> Option<TaskId> {
        self.about.map(|about| about.task)
    }
}
