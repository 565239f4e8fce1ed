//! What happened: appended in the transaction of the change, numbered in commit order.

mod data;
mod names;
mod terms;
mod words;

use serde_json::Value;

pub use data::EventData;
pub use names::EventName;
pub use terms::{EventTerm, EventTerms};
pub use words::{plain, sentence, short};

use crate::actor::Actor;
use crate::ids::{AttemptId, TaskId};
use crate::runs::job::JobId;
use crate::time::Timestamp;

impl EventName {
    /// Whether the event only says that a holder goes on: lists leave it out unless a reader asks for it.
    pub fn is_renewal(self) -> bool {
        matches!(self, EventName::AttemptHeartbeat | EventName::JobKept)
    }

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
    EventData::of(data).job().filter(|_| name.is_run_step())
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

impl Event {
    pub fn read(&self) -> EventData<'_> {
        EventData::of(&self.data)
    }
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
    pub fn read(&self) -> EventData<'_> {
        EventData::of(&self.data)
    }

    pub fn task(&self) -> Option<TaskId> {
        self.about.map(|about| about.task)
    }
}
