//! The start or stop of an agent as a ticket with the job's id, for clients that follow work by the protocol's own
//! means. Its final answer is that of `jobs_get`. A started agent may ask a question later than that, and its start
//! then has an open question again.

use async_trait::async_trait;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobId;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{EngineError, WorkJob};
use serde_json::{Map, Value, json};

use super::TOOLS;
use super::job_view::Shown;
use crate::front::{Front, ToolReply};
use crate::hooks::{Started, Tickets};
use crate::question;
use crate::ticket::{KEPT_MS, Ticket, TicketState};

pub(super) const SUBMIT: &str = "jobs_submit";
const GET: &str = "jobs_get";
const CANCEL: &str = "jobs_cancel";
/// The tool whose rights answering a question needs.
const REVIEW: &str = "review";
/// As long as the reference's default wait for a job, 1.5 seconds.
const POLL_MS: u64 = 1500;

/// The work of a submitted job. Its steps have no notices.
pub(super) fn started(tool: &str, answer: &Value) -> Option<Started> {
    let job: JobId = answer["job_id"].as_str().filter(|_| tool == SUBMIT)?.parse().ok()?;
    Some(Started { id: job.to_string(), notices: None })
}

pub(super) struct JobTickets;

#[async_trait]
impl Tickets for JobTickets {
    async fn find(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<Ticket, EngineError> {
        let (task, seen) = found(front, principal, GET, job).await?;
        let shown = Shown::of(&seen);
        let state = match shown.status {
            // Before the status: a started agent that asks something is "succeeded" as a start.
            _ if let Some(asked) = &shown.question => TicketState::Asking(question::form(asked)),
            "cancelled" => TicketState::Cancelled,
            _ if !shown.is_final => TicketState::Working,
            "succeeded" => {
                TicketState::Answered(ToolReply::Done(result(front, principal, task, job).await?))
            }
            _ => TicketState::Answered(ToolReply::Refused(
                result(front, principal, task, job).await?,
            )),
        };
        let created_at = seen.job().created_at;
        let work_ms = match &seen {
            WorkJob::Start(seen) => seen.record.run.expires_at.ms_since(created_at).unsigned_abs(),
            // A stop has no time to live of its own.
            WorkJob::Stop(_) => 0,
        };
        Ok(Ticket {
            id: job.to_string(),
            state,
            message: Some(format!("{}: {}", shown.code, shown.message)),
            created_at,
            updated_at: shown.updated_at,
            ttl_ms: work_ms + KEPT_MS,
            poll_ms: POLL_MS,
        })
    }

    async fn cancel(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<(), EngineError> {
        let (task, _) = found(front, principal, CANCEL, job).await?;
        let op = OpContext::new(principal.clone(), CANCEL);
        front.engine().work_cancel(&op, task, job).await.map(|_| ())
    }

    /// Answers the agent's question. Agents that work alone may not answer each other, nor themselves: only callers that
    /// may decide a review may answer.
    async fn answer(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
        answers: Map<String, Value>,
    ) -> Result<(), EngineError> {
        found(front, principal, REVIEW, job).await?;
        let op = OpContext::new(principal.clone(), "tasks/update");
        question::answer(front.engine(), &op, job, &answers).await
    }
}

/// The job, for callers that may call the corresponding tool.
async fn found(
    front: &Front,
    principal: &Principal,
    tool: &'static str,
    job: JobId,
) -> Result<(TaskId, WorkJob), EngineError> {
    let row = TOOLS.iter().find(|row| row.name == tool);
    row.expect("this file names only tools of its table").judge(principal)?;
    let op = OpContext::new(principal.clone(), tool);
    let (task, seen) = front.engine().work_find(&op, job).await?;
    principal.rights.judge_task(task)?;
    Ok((task, seen))
}

/// The answer of `jobs_get`, asked for as the caller would: rights and words are those of the tool.
async fn result(
    front: &Front,
    principal: &Principal,
    task: TaskId,
    job: JobId,
) -> Result<Value, EngineError> {
    let arguments = json!({"job_id": job, "task_id": task});
    let asked = front.ask(GET, arguments, |tool| OpContext::new(principal.clone(), tool)).await;
    match asked {
        Ok((answer, _)) => answer,
        Err(unknown) => Err(EngineError::Internal(format!("{unknown:?}"))),
    }
}
