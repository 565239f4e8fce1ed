//! Messages to a webhook about an ended job or an event: what is sent where, and when it is retried. The runner
//! sends them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crew::MailId;
use crate::event::{Event, EventName};
use crate::ids::{Id, TaskId};
use crate::runs::job::{JobId, JobState};
use crate::time::Timestamp;

/// Pauses before the second try and those after it; then the message is given up.
pub const AGAIN_AFTER_S: [u32; 6] = [5, 30, 120, 600, 1800, 7200];

/// The receiver of a message about a job's end; named when the job is submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The job that will send the message.
    pub delivery: JobId,
    pub url: String,
}

/// The subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A job that is over.
    Job(JobId),
    /// A mail that was sent.
    Mail(MailId),
    /// A task that was created.
    Task(TaskId),
}

impl Topic {
    /// The topic of an event; `None` for events without messages.
    pub fn of(event: &Event) -> Option<Self> {
        match event.name {
            EventName::MailSent => event.read().mail().map(Self::Mail),
            EventName::TaskCreated => event.about.map(|about| Self::Task(about.task)),
            _ => None,
        }
    }

    /// The topic of a message, by its type and the id of its subject.
    pub fn read(kind: &str, id: Id, data: &Value) -> Option<Self> {
        match EventName::parse(kind) {
            Some(EventName::MailSent) => Some(Self::Mail(MailId(id))),
            Some(EventName::TaskCreated) => data["taskId"].as_str()?.parse().ok().map(Self::Task),
            _ => Some(Self::Job(JobId(id))),
        }
    }

    pub fn id(self) -> Id {
        match self {
            Self::Job(job) => job.0,
            Self::Mail(mail) => mail.0,
            Self::Task(task) => task.id,
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Mail(_) => "mail",
            Self::Task(_) => "task",
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => job.fmt(f),
            Self::Mail(mail) => mail.fmt(f),
            Self::Task(task) => task.fmt(f),
        }
    }
}

/// One message, beside the `Job` that sends it. Its content never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The job that sends the message.
    pub job: JobId,
    pub about: Topic,
    pub url: String,
    /// `job.finished` or `job.failed`; for an event its name.
    pub kind: String,
    pub data: Value,
    /// When the job ended or the event happened.
    pub ended_at: Timestamp,
    /// The newest try.
    pub tried: Option<Tried>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub at: Timestamp,
    /// The outcome, for a person.
    pub outcome: String,
}

impl Delivery {
    /// The id by which receivers recognise a repeat.
    pub fn message_id(&self) -> String {
        format!("msg_{}", self.job.0)
    }
}

/// A receiver's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The receiver has the message.
    Taken,
    /// The receiver wants no more messages.
    Unwanted,
    /// The receiver is busy or not reachable; the reason, for the log.
    Failed(String),
}

/// The state of a message, for people.
pub fn delivery_word(state: &JobState) -> &'static str {
    match state {
        JobState::Queued { .. } => "waiting",
        JobState::Running { .. } | JobState::Stale { .. } => "sending",
        JobState::Done { .. } => "delivered",
        JobState::Failed { .. } | JobState::Canceled { .. } | JobState::Expired { .. } => {
            "given up"
        }
    }
}

/// The public part of an address: paths and users of webhooks are often secrets.
pub fn destination(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{}://{host}", scheme.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::destination;

    #[test]
    fn nothing_secret_of_an_address_is_shown() {
        for (url, shown) in [
            ("https://hooks.example/T0/s3cret", "https://hooks.example"),
            ("HTTP://ana:s3cret@host:81?key=s3cret", "http://host:81"),
            ("https://[::1]:8/x@y", "https://[::1]:8"),
        ] {
            assert_eq!(destination(url), shown);
        }
    }
}
