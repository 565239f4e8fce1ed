//! A job as a ticket: the same id, for clients that follow work by the protocol's own means. Whoever
//! may call the tool that does the same may do it here.

use callboard_domain::job::{JobId, JobState};
use callboard_domain::refusal::Refusal;
use callboard_domain::run::{Question, RunRecord};
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::store::RunSeen;
use callboard_engine::{Engine, EngineError};
use serde_json::{Map, Value, json};

use super::words::State;
use super::{CANCEL, GET, judge, view};
use crate::front::ToolReply;
use crate::ticket::{POLL_MS, Ticket, TicketState};

/// How long a job can be asked about after nobody wants its result any more.
const KEPT_MS: u64 = 24 * 3600 * 1000;
const KEY: &str = "ask_";
/// What the form of a question has to tick.
const ALLOW: &str = "allow";

pub(crate) async fn find(
    engine: &Engine,
    principal: &Principal,
    job: JobId,
) -> Result<Ticket, EngineError> {
    judge(GET, principal)?;
    let op = OpContext::new(principal.clone(), GET);
    Ok(ticket(&engine.run_get(&op, job).await?))
}

/// Answers the open question. What was not asked, was answered, or says neither yes nor no changes
/// nothing.
pub(crate) async fn answer(
    engine: &Engine,
    principal: &Principal,
    job: JobId,
    answers: Map<String, Value>,
) -> Result<(), EngineError> {
    judge(CANCEL, principal)?;
    let op = OpContext::new(principal.clone(), "tasks/update");
    engine.run_get(&op, job).await?;
    for (key, answer) in &answers {
        let (Some(number), Some(granted)) = (number(key), granted(answer)) else { continue };
        match engine.run_answer(&op, job, Some(number), granted).await {
            Ok(_) | Err(EngineError::Refused(Refusal::NoQuestion { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends the job, unless it is over.
pub(crate) async fn cancel(
    engine: &Engine,
    principal: &Principal,
    job: JobId,
) -> Result<(), EngineError> {
    judge(CANCEL, principal)?;
    let op = OpContext::new(principal.clone(), CANCEL);
    engine.run_cancel(&op, job).await.map(|_| ())
}

fn ticket(seen: &RunSeen) -> Ticket {
    let RunRecord { job, run } = &seen.record;
    Ticket {
        id: job.id.to_string(),
        state: state(seen),
        message: Some(message(seen)),
        created_at: job.created_at,
        updated_at: run.changed_at,
        ttl_ms: run.expires_at.ms_since(seen.record.job.created_at).unsigned_abs() + KEPT_MS,
        poll_ms: POLL_MS,
    }
}

fn state(seen: &RunSeen) -> TicketState {
    let RunRecord { job, run } = &seen.record;
    match &job.state {
        JobState::Running { .. } => match run.open_question() {
            Some(question) => {
                TicketState::Asking(Map::from_iter([(key(question.number), form(question))]))
            }
            None => TicketState::Working,
        },
        JobState::Queued { .. } | JobState::Stale { .. } => TicketState::Working,
        JobState::Done { .. } => TicketState::Answered(ToolReply::Done(view::result(seen))),
        JobState::Failed { .. } | JobState::Expired { .. } => {
            TicketState::Answered(ToolReply::Refused(view::result(seen)))
        }
        JobState::Canceled { .. } => TicketState::Cancelled,
    }
}

/// `QUEUED, number 2 in the queue`, `RUNNING`, `STALE: Worker lost`.
fn message(seen: &RunSeen) -> String {
    let RunRecord { job, run } = &seen.record;
    let mut words = State::of(&job.state).word().to_owned();
    if let Some(summary) = &run.summary {
        words.push_str(": ");
        words.push_str(summary);
    }
    if let Some(position) = seen.position {
        words.push_str(&format!(", number {position} in the queue"));
    }
    words
}

fn key(number: u32) -> String {
    format!("{KEY}{number}")
}

fn number(given: &str) -> Option<u32> {
    let number = given.strip_prefix(KEY)?.parse().ok()?;
    // One spelling only.
    (key(number) == given).then_some(number)
}

/// An elicitation: to accept it says yes, unless the box was unticked.
fn form(question: &Question) -> Value {
    let mut allow = json!({"type": "boolean", "title": "Allow", "default": true});
    if let Some(command) = &question.command {
        allow["description"] = command.clone().into();
    }
    let schema = json!({"type": "object", "properties": {ALLOW: allow}});
    let params = json!({"mode": "form", "message": question.text, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

fn granted(answer: &Value) -> Option<bool> {
    match answer["action"].as_str()? {
        "accept" => Some(answer["content"][ALLOW] != false),
        "decline" | "cancel" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_counts() {
        for (answer, granted_) in [
            (json!({"action": "accept"}), Some(true)),
            (json!({"action": "accept", "content": {"allow": true}}), Some(true)),
            (json!({"action": "accept", "content": {"allow": false}}), Some(false)),
            (json!({"action": "decline"}), Some(false)),
            (json!({"action": "cancel"}), Some(false)),
            (json!({"action": "perhaps"}), None),
            (json!({}), None),
            (json!("accept"), None),
        ] {
            assert_eq!(granted(&answer), granted_, "{answer}");
        }
        for (given, read) in [("ask_1", Some(1)), ("ask_01", None), ("ask_", None), ("1", None)] {
            assert_eq!(number(given), read, "{given}");
        }
    }
}
