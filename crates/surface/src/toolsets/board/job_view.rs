//! The start or stop of an agent as a job: a status, a code, a sentence, and its history. Once an agent was at work,
//! its start has succeeded for good, whatever the result of the work.

use callboard_domain::event::EventName;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::{Job, JobState};
use callboard_domain::runs::run::Question;
use callboard_domain::runs::work::WorkFault;
use callboard_domain::time::Timestamp;
use callboard_engine::{NOT_RUNNING, RunEvent, WorkJob, WorkSeen};
use serde_json::{Value, json};

use super::words::Action;
use callboard_engine::time::rfc3339_us;

/// A job in the words of this toolset. Final: the start or the stop is decided, and no wait changes it any more.
pub(super) struct Shown {
    pub action: Action,
    pub status: &'static str,
    pub code: &'static str,
    pub message: String,
    pub updated_at: Timestamp,
    /// Whether the job is final.
    pub is_final: bool,
    /// The number of the run, once an agent was started.
    attempt: Option<u32>,
    /// The open question of the started agent.
    pub question: Option<Question>,
}

impl Shown {
    pub fn of(job: &WorkJob) -> Self {
        match job {
            WorkJob::Start(seen) => start(seen),
            WorkJob::Stop(job) => stop(job),
        }
    }

    /// Replaces code and message.
    pub fn say(&mut self, code: &'static str, message: &str) {
        self.code = code;
        self.message = message.to_owned();
    }

    /// The result of a final job; `null` before that.
    pub fn result(&self) -> Value {
        if !self.is_final {
            return Value::Null;
        }
        let mut result = json!({"code": self.code});
        if let Some(attempt) = self.attempt {
            result["attempt"] = attempt.into();
        }
        if let Some(Question { number, text, command, .. }) = &self.question {
            result["question"] = json!({"number": number, "text": text, "command": command});
        }
        result
    }
}

/// The start of an agent. `up_at` decides first: an agent that came up was started, even if its work failed later.
fn start(seen: &WorkSeen) -> Shown {
    let (job, run) = (&seen.record.job, &seen.record.run);
    let (status, code, plain) = match &job.state {
        _ if run.up_at.is_some() && job.is_over() => ("succeeded", "STARTED", "Agent started"),
        _ if run.up_at.is_some() => ("succeeded", "STARTED", "Agent running"),
        JobState::Queued { .. } if seen.waits_for_place => {
            ("queued", "START_PENDING", "Waiting for a free agent slot")
        }
        // A queued job that was tried before lost its server.
        JobState::Queued { .. } if run.attempt > 0 => {
            ("queued", "JOB_REQUEUED", "The job's server was lost; the job starts again")
        }
        JobState::Queued { .. } => ("queued", "JOB_QUEUED", "Job queued"),
        JobState::Running { .. } | JobState::Stale { .. } => {
            ("running", "JOB_RUNNING", "The agent is being started")
        }
        JobState::Done { .. } => ("succeeded", "STARTED", "Agent started"),
        JobState::Canceled { .. } => ("cancelled", "JOB_CANCELLED", "Job cancelled"),
        JobState::Expired { .. } => ("failed", "NOT_STARTED", "The agent did not start in time"),
        JobState::Failed { reason, .. } => ("failed", fault(reason), "The agent did not start"),
    };
    let question = seen.record.asks();
    // The run's own words replace the fixed sentence where they say more than the status.
    let says = status == "failed" || question.is_some() || seen.record.held().is_some();
    let words = run.summary.as_deref().filter(|_| says);
    Shown {
        action: Action::Start,
        status,
        code,
        message: words.unwrap_or(plain).to_owned(),
        // The start was decided at `up_at`; later steps of the work are no news about it, but a question is.
        updated_at: run.up_at.filter(|_| question.is_none()).unwrap_or(run.changed_at),
        is_final: run.up_at.is_some() || job.is_over(),
        // An agent that came up counts as the first attempt at least.
        attempt: (run.attempt > 0 || run.up_at.is_some()).then_some(run.attempt.max(1)),
        question: question.cloned(),
    }
}

/// The reference's code for the reason that the run recorded.
fn fault(reason: &str) -> &'static str {
    match WorkFault::parse(reason) {
        Some(WorkFault::DepsOpen) => "START_BLOCKED",
        Some(WorkFault::Held) => "ALREADY_CLAIMED",
        Some(WorkFault::NotAuto) => "TASK_TYPE_MISMATCH",
        Some(WorkFault::TaskGone) => "TASK_NOT_FOUND",
        Some(WorkFault::NotStarted | WorkFault::Failed) => "NOT_STARTED",
        Some(WorkFault::Lost) => "JOB_RECOVERED_INTERRUPTED",
        None => "JOB_EXECUTION_ERROR",
    }
}

/// The stop of an agent. It has no run of its own, so the job's state says everything.
fn stop(job: &Job) -> Shown {
    let (status, code, message, updated_at) = match &job.state {
        JobState::Queued { .. } => {
            ("queued", "STOP_QUEUED", "The agent is being stopped", job.created_at)
        }
        JobState::Running { .. } | JobState::Stale { .. } => {
            ("running", "STOP_QUEUED", "The agent is being stopped", job.created_at)
        }
        JobState::Done { at } => ("succeeded", "STOPPED", "Agent stopped", *at),
        JobState::Canceled { at } => ("cancelled", "JOB_CANCELLED", "Job cancelled", *at),
        JobState::Failed { at, reason } if reason == NOT_RUNNING => {
            ("failed", "NOT_RUNNING", "No agent was running", *at)
        }
        JobState::Failed { at, reason } => ("failed", "JOB_EXECUTION_ERROR", reason.as_str(), *at),
        JobState::Expired { at } => ("failed", "JOB_EXECUTION_ERROR", "Not stopped in time", *at),
    };
    let (is_final, message) = (job.is_over(), message.to_owned());
    let (action, attempt, question) = (Action::Stop, None, None);
    Shown { action, status, code, message, updated_at, is_final, attempt, question }
}

/// The history of a job, oldest first, up to the event that decided it.
pub(super) fn events(task: TaskId, events: &[RunEvent]) -> Vec<Value> {
    let mut told = Vec::new();
    for event in events {
        let Some((status, code, message)) = step(event) else { continue };
        let entry = |status: &str, code: &str, message: &str| {
            json!({
                "job_id": event.job,
                "task_id": task,
                "status": status,
                "timestamp": rfc3339_us(event.at),
                "message": message,
                "code": code,
            })
        };
        told.push(entry(status, code, message));
        if event.name == EventName::JobSubmitted && event.read().waits() {
            told.push(entry("queued", "START_PENDING", "Waiting for a free agent slot"));
        }
        if !matches!(status, "queued" | "running") {
            break;
        }
    }
    told
}

/// The status, the code and the sentence of one event; `None` for events that clients of the reference do not know.
fn step(event: &RunEvent) -> Option<(&'static str, &'static str, &str)> {
    let data = event.read();
    let (stops, words) = (data.is_stop(), data.summary());
    let reason = data.reason().unwrap_or_default();
    Some(match event.name {
        EventName::JobSubmitted => ("queued", "JOB_QUEUED", "Job queued"),
        // A run that goes on after a question was started before.
        EventName::JobStarted if data.is_resumed() => return None,
        EventName::JobStarted => ("running", "JOB_RUNNING", "Job running"),
        EventName::JobRequeued => ("queued", "JOB_REQUEUED", "The job's server was lost"),
        EventName::JobSucceeded if stops => ("succeeded", "STOPPED", "Agent stopped"),
        EventName::JobSucceeded => ("succeeded", "STARTED", "Agent running"),
        EventName::JobCanceled => ("cancelled", "JOB_CANCELLED", "Job cancelled"),
        EventName::JobExpired => ("failed", "NOT_STARTED", words.unwrap_or("Out of time")),
        EventName::JobFailed if stops && reason == NOT_RUNNING => {
            ("failed", "NOT_RUNNING", "No agent was running")
        }
        EventName::JobFailed if stops => ("failed", "JOB_EXECUTION_ERROR", reason),
        EventName::JobFailed => ("failed", fault(reason), words.unwrap_or("Not started")),
        _ => return None,
    })
}
