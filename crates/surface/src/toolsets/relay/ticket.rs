//! A job as a ticket with the job's id, for clients that follow work by the protocol's own means. The rights are those
//! of the corresponding tools.

use async_trait::async_trait;
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::RunRecord;
use callboard_engine::EngineError;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::store::RunSeen;
use serde_json::{Map, Value};

use super::words::StateWord;
use super::{CANCEL, GET, judge, view};
use crate::front::{Front, ToolReply};
use crate::hooks::Tickets;
use crate::question;
use crate::ticket::{KEPT_MS, POLL_MS, Ticket, TicketState};

pub(super) struct JobTickets;

#[async_trait]
impl Tickets for JobTickets {
    async fn find(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<Ticket, EngineError> {
        judge(GET, principal)?;
        let op = OpContext::new(principal.clone(), GET);
        Ok(ticket(&front.engine().run_get(&op, job).await?))
    }

    async fn answer(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
        answers: Map<String, Value>,
    ) -> Result<(), EngineError> {
        // An answer can let an agent run a command, so it needs the right to control jobs, not only to see them.
        judge(CANCEL, principal)?;
        let op = OpContext::new(principal.clone(), "tasks/update");
        // A job of another toolset or caller is refused here, before its question is looked at.
        front.engine().run_get(&op, job).await?;
        question::answer(front.engine(), &op, job, &answers).await
    }

    async fn cancel(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<(), EngineError> {
        judge(CANCEL, principal)?;
        let op = OpContext::new(principal.clone(), CANCEL);
        front.engine().run_cancel(&op, job).await.map(|_| ())
    }
}

fn ticket(seen: &RunSeen) -> Ticket {
    let RunRecord { job, run } = &seen.record;
    Ticket {
        id: job.id.to_string(),
        state: state(seen),
        message: Some(message(seen)),
        created_at: job.created_at,
        updated_at: run.changed_at,
        // The time that the job may take, and a day to fetch the result.
        ttl_ms: run.expires_at.ms_since(seen.record.job.created_at).unsigned_abs() + KEPT_MS,
        poll_ms: POLL_MS,
    }
}

/// A stale job is still working: its runner may report again, or another one takes it.
fn state(seen: &RunSeen) -> TicketState {
    // A job that asks is still running; the question is what the client has to know.
    if let Some(asked) = seen.record.asks() {
        return TicketState::Asking(question::form(asked));
    }
    match &seen.record.job.state {
        JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => {
            TicketState::Working
        }
        JobState::Done { .. } => TicketState::Answered(ToolReply::Done(view::result(seen))),
        // "failed" in the protocol means that there is no result; here there is one, with its reason.
        JobState::Failed { .. } | JobState::Expired { .. } => {
            TicketState::Answered(ToolReply::Refused(view::result(seen)))
        }
        JobState::Canceled { .. } => TicketState::Cancelled,
    }
}

/// `QUEUED, number 2 in the queue`, `RUNNING`, `STALE: Worker lost`.
fn message(seen: &RunSeen) -> String {
    let RunRecord { job, run } = &seen.record;
    let mut words = StateWord::of(&job.state).word().to_owned();
    if let Some(summary) = &run.summary {
        words.push_str(": ");
        words.push_str(summary);
    }
    if let Some(position) = seen.position {
        words.push_str(&format!(", number {position} in the queue"));
    }
    words
}
