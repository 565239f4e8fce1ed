//! The message about a job's end, for a notification and a webhook alike.

use serde_json::{Map, Value, json};

use crate::event::{EventData, EventName};
use crate::runs::job::JobId;

pub fn artifact_uri(job: JobId, name: &str) -> String {
    format!("mcp://jobs/{job}/artifacts/{name}")
}

/// The URIs of these artifacts: `{patch?, out?, logs?, pr?}`.
pub fn artifact_uris<'n>(job: JobId, names: impl Iterator<Item = &'n str>) -> Value {
    let mut uris = Map::new();
    for name in names {
        if let Some((key, _)) = name.split_once('.') {
            uris.insert(key.into(), artifact_uri(job, name).into());
        }
    }
    uris.into()
}

const VERSION: &str = "stateVersion";

/// Fills in the number of the event that a message tells of.
pub fn with_version(mut data: Value, version: u64) -> Value {
    data[VERSION] = version.into();
    data
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Whether the job succeeded.
    pub finished: bool,
    pub data: Value,
}

impl Ending {
    /// The ending of a job, from the event that ends it; `None` for any other event. `version` is the number of
    /// that event, which is unknown before the commit.
    pub fn of(job: JobId, name: EventName, data: &Value, version: Option<u64>) -> Option<Self> {
        let (finished, state) = match name {
            EventName::JobSucceeded => (true, "SUCCEEDED"),
            EventName::JobFailed => (false, "FAILED"),
            EventName::JobCanceled => (false, "CANCELED"),
            EventName::JobExpired => (false, "EXPIRED"),
            _ => return None,
        };
        let data = EventData::of(data);
        let mut told = json!({
            "jobId": job.to_string(),
            "state": state,
            "summary": data.summary().unwrap_or_default(),
        });
        if finished {
            told["artifacts"] = artifact_uris(job, data.artifacts());
        } else if let Some(reason) = data.reason() {
            told["reasonCode"] = reason.into();
        }
        told[VERSION] = version.into();
        if finished {
            let (started, ended) = (data.started_at_ms(), data.finished_at_ms());
            if let Some(started) = started {
                told["startedAt"] = started.into();
            }
            if let Some(ended) = ended {
                told["finishedAt"] = ended.into();
            }
            if let (Some(started), Some(ended)) = (started, ended) {
                told["durationMs"] = (ended - started).into();
            }
        }
        told["attempt"] = data.attempt().clone();
        Some(Self { finished, data: told })
    }

    /// The event type of the webhook.
    pub fn kind(&self) -> &'static str {
        if self.finished { "job.finished" } else { "job.failed" }
    }
}
