//! A caller's ticket for work that goes on without it. The id names the kind of work: `call_…` is a tool call that
//! outlived its request, `job_…` a job of the first toolset that has it.

use callboard_domain::handle::{Handle, HandleId, Seen};
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{At, EngineError, LongCall};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::front::{Front, ToolReply, Unknown};
use crate::hooks::Tickets;
use crate::lookup::LookupError;

/// How often a caller should poll.
pub(crate) const POLL_MS: u64 = 2000;
/// How long the ticket of a job is kept after the job's time to live.
pub(crate) const KEPT_MS: u64 = 24 * 3600 * 1000;

/// What a client sees of the work when it polls.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    pub id: String,
    pub state: TicketState,
    /// The progress of the work.
    pub message: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// How long the ticket is kept, from its beginning.
    pub ttl_ms: u64,
    pub poll_ms: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TicketState {
    Working,
    /// The questions that the work waits for, by key.
    Asking(Map<String, Value>),
    /// The call's result as its caller would have received it.
    Completed(Value),
    /// The result of work that no call waits for, as a tool would answer.
    Answered(ToolReply),
    /// `None`: the reason is unknown, because the server of the work is gone.
    Failed(Option<Value>),
    Cancelled,
}

/// The kind of work that an id names.
enum TicketSource {
    Handle(HandleId),
    Job(JobId),
}

impl TicketSource {
    fn of(id: &str) -> Option<Self> {
        // The prefixes of both kinds differ, so at most one of them parses.
        let handle = id.parse().map(Self::Handle).ok();
        handle.or_else(|| id.parse().map(Self::Job).ok())
    }
}

impl Ticket {
    /// The ticket of a call that has just outlived its request.
    pub fn of_call(call: &LongCall) -> Self {
        let handle = call.handle();
        let now = handle.created_at;
        Self::from(At { it: handle, now })
    }
}

impl From<At<Handle>> for Ticket {
    fn from(At { it: handle, now }: At<Handle>) -> Self {
        let state = match handle.seen(now) {
            Seen::Working => TicketState::Working,
            Seen::Asking(questions) => TicketState::Asking(questions.clone()),
            Seen::Completed(result) => TicketState::Completed(result.clone()),
            Seen::Failed(error) => TicketState::Failed(error.cloned()),
            Seen::Cancelled => TicketState::Cancelled,
        };
        Self {
            id: handle.id.to_string(),
            state,
            // The protocol counts the time from the creation of a task, not from now.
            ttl_ms: handle.expires_at.ms_since(handle.created_at).unsigned_abs(),
            message: handle.message,
            created_at: handle.created_at,
            updated_at: handle.updated_at,
            poll_ms: POLL_MS,
        }
    }
}

pub async fn find(front: &Front, principal: &Principal, id: &str) -> Result<Ticket, LookupError> {
    match TicketSource::of(id) {
        Some(TicketSource::Handle(handle)) => {
            let op = OpContext::new(principal.clone(), "tasks/get");
            let found = front.engine().handle_get(&op, handle).await?;
            Ok(found.map(Ticket::from).ok_or_else(|| Unknown(id.to_owned()))?)
        }
        Some(TicketSource::Job(job)) => {
            first(front, id, |tickets| tickets.find(front, principal, job)).await
        }
        None => Err(Unknown(id.to_owned()).into()),
    }
}

/// Answers the questions of the work; other keys are ignored.
pub async fn answer(
    front: &Front,
    principal: &Principal,
    id: &str,
    answers: Map<String, Value>,
) -> Result<(), LookupError> {
    match TicketSource::of(id) {
        Some(TicketSource::Handle(handle)) => {
            let op = OpContext::new(principal.clone(), "tasks/update");
            there(front.engine().handle_answer(&op, handle, answers).await?, id)
        }
        Some(TicketSource::Job(job)) => {
            first(front, id, |tickets| tickets.answer(front, principal, job, answers.clone())).await
        }
        None => Err(Unknown(id.to_owned()).into()),
    }
}

/// Asks the work to stop; it may finish all the same.
pub async fn cancel(front: &Front, principal: &Principal, id: &str) -> Result<(), LookupError> {
    match TicketSource::of(id) {
        Some(TicketSource::Handle(handle)) => {
            let op = OpContext::new(principal.clone(), "tasks/cancel");
            there(front.engine().handle_cancel(&op, handle).await?, id)
        }
        Some(TicketSource::Job(job)) => {
            first(front, id, |tickets| tickets.cancel(front, principal, job)).await
        }
        None => Err(Unknown(id.to_owned()).into()),
    }
}

/// The answer of the first toolset that has the job.
async fn first<'a, T>(
    front: &Front,
    id: &str,
    ask: impl Fn(&'static dyn Tickets) -> BoxFuture<'a, Result<T, EngineError>>,
) -> Result<T, LookupError> {
    for (_, tickets) in front.hooked(|hooks| hooks.tickets) {
        match ask(tickets).await {
            // Several toolsets have jobs, and an id does not tell which one queued it.
            Err(EngineError::Refused(Refusal::JobNotFound { .. })) => {}
            answer => return Ok(answer?),
        }
    }
    Err(Unknown(id.to_owned()).into())
}

/// A handle of another caller is as unknown as one that never existed.
fn there(there: bool, id: &str) -> Result<(), LookupError> {
    if there { Ok(()) } else { Err(Unknown(id.to_owned()).into()) }
}
