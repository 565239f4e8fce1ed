//! A crew's agents, its mail and its log. The log rows of a call, and the time an agent was last seen, have no
//! events: the rows are the history.

pub mod epic;
pub mod run;
pub mod task;

use serde_json::json;

use crate::command::{AgentAdd, DecisionLog, MailReply, MailSend};
use crate::crew::assignment::is_full;
use crate::crew::mail::{self, BODY_BYTES_MAX, SUBJECT_CHARS_MAX};
use crate::crew::merge::epic_is;
use crate::crew::state::EpicState;
use crate::crew::{Agent, AgentId, Decision, Mail, MailId, decision};
use crate::decide::input;
use crate::event::{Event, EventName};
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::refusal::found::{AsEpic, OrNotFound as _};
use crate::rights::AgentType;
use crate::time::Timestamp;
use crate::world::{Change, CrewWrite, Reply, World, Write};

/// Adds an agent, and with `task` assigns the task to it in one change, so that no other worker can get it in between.
pub(crate) fn agent_add(
    world: &World<'_>,
    new: &AgentAdd,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if world.crew.agent(&new.agent).is_some() {
        return match new.or_keep {
            true => Ok(noted(Vec::new(), Vec::new())),
            false => Err(Refusal::AgentExists { agent: new.agent.clone() }),
        };
    }
    // Only automatic additions have a limit (`crew.max_workers`); a person may add more.
    if let Some(max) = new.workers_max.filter(|max| is_full(world.crew.workers.into(), *max)) {
        return Err(Refusal::AgentState { message: format!("there are {max} workers already") });
    }
    if new.task.is_some() && new.kind != AgentType::Worker {
        let words = "only a WORKER has a task; name the epic that it looks after";
        return Err(Refusal::invalid(words));
    }
    if new.epic.is_some() && new.kind == AgentType::Worker {
        return Err(Refusal::invalid("a WORKER has the epic of its task; name the task"));
    }
    if let Some(epic) = new.epic {
        judge_open(world, epic)?;
    }
    let agent = Agent {
        id: new.agent.clone(),
        kind: new.kind,
        epic: new.epic,
        task: None,
        // Only workers wait for tasks; the longest idle worker gets the next one.
        idle_since: (new.kind == AgentType::Worker).then_some(now),
        last_active_at: now,
        created_at: now,
        updated_at: now,
        failed_at: None,
    };
    let data = json!({
        "agentId": agent.id,
        "type": agent.kind,
        "epicId": agent.epic,
        "taskId": new.task.as_ref().map(|given| given.task),
    });
    let events = vec![event(world, EventName::AgentAdded, data)];
    let mut change = noted(vec![CrewWrite::AgentInsert { agent: agent.clone() }], events);
    if let Some(given) = &new.task {
        // The rule of an assignment reads the worker from the world, which does not have it yet.
        let mut with_it = world.clone();
        with_it.crew.agents.push(agent);
        let Change { writes, events, .. } = task::assigned(&with_it, given, now)?;
        change.writes.extend(writes);
        change.events.extend(events);
    }
    Ok(change)
}

/// Refuses an epic that is over: an agent that looks after it would have nothing to do.
fn judge_open(world: &World<'_>, epic: TaskId) -> Result<(), Refusal> {
    let known = world.named.iter().find(|named| named.id == epic && !named.removed);
    let known = known.or_not_found(&AsEpic(epic))?;
    let stands = match known.phase {
        Phase::Initial | Phase::Working | Phase::Review => return Ok(()),
        Phase::ClosedDone => EpicState::Completed,
        Phase::ClosedCanceled => EpicState::Cancelled,
    };
    Err(epic_is(stands))
}

/// Removes an agent. Its mail and its log stay.
pub(crate) fn agent_remove(world: &World<'_>, id: &AgentId) -> Result<Change, Refusal> {
    known(world, id)?;
    let events = vec![event(world, EventName::AgentRemoved, json!({"agentId": id}))];
    Ok(noted(vec![CrewWrite::AgentRemove { agent: id.clone() }], events))
}

/// Records when an agent was last seen. An agent that was removed meanwhile is ignored.
pub(crate) fn agent_touch(world: &World<'_>, id: &AgentId, now: Timestamp) -> Change {
    let seen = world.crew.agent(id).map(|agent| CrewWrite::AgentUpdate {
        agent: Agent { last_active_at: now, ..agent.clone() },
    });
    noted(seen.into_iter().collect(), Vec::new())
}

/// Sends a mail to an agent, or to people when `to` is `None`. Idempotent by the mail's id.
pub(crate) fn mail_send(
    world: &World<'_>,
    new: &MailSend,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if world.crew.mail(new.mail).is_some() {
        return Ok(unchanged(new.mail));
    }
    input::said("subject", &new.subject, SUBJECT_CHARS_MAX, "subject cannot be blank")?;
    let body = body("body", &new.body, BODY_BYTES_MAX)?;
    if let Some(to) = &new.to {
        known(world, to)?;
    }
    let mail = Mail {
        id: new.mail,
        from: new.from.clone(),
        to: new.to.clone(),
        subject: new.subject.clone(),
        body,
        in_reply_to: None,
        created_at: now,
        read_at: None,
    };
    Ok(sent(world, mail))
}

/// Replies to the sender of the original: an agent of the crew, else people.
pub(crate) fn mail_reply(
    world: &World<'_>,
    new: &MailReply,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if world.crew.mail(new.mail).is_some() {
        return Ok(unchanged(new.mail));
    }
    let body = body("body", &new.body, BODY_BYTES_MAX)?;
    let original = received(world, new.original, new.by.as_ref())?;
    // The sender may have been removed since. A mail to it would never be read.
    if let Some(to) = &original.from {
        known(world, to)?;
    }
    let mail = Mail {
        id: new.mail,
        from: new.by.clone(),
        to: original.from.clone(),
        subject: mail::reply_subject(&original.subject),
        body,
        in_reply_to: Some(original.id),
        created_at: now,
        read_at: None,
    };
    Ok(sent(world, mail))
}

/// Idempotent: reading again keeps the time of the first read.
pub(crate) fn mail_read(
    world: &World<'_>,
    id: MailId,
    by: Option<&AgentId>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mail = received(world, id, by)?;
    if mail.read_at.is_some() {
        return Ok(unchanged(id));
    }
    let read = CrewWrite::MailRead { mail: id, at: now };
    let data = json!({"mailId": id, "toAgentId": mail.to, "isForHuman": mail.to.is_none()});
    Ok(Change {
        writes: vec![Write::Crew(read)],
        events: vec![event(world, EventName::MailRead, data)],
        reply: Reply::Mail(id),
        but: None,
    })
}

/// Logs a decision. An agent's own entry is judged and has an event; the line that every tool call leaves is not, since
/// the call itself was judged.
pub(crate) fn decision_log(
    world: &World<'_>,
    new: &DecisionLog,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if new.by_hand {
        let blank = "title cannot be blank";
        input::said("title", &new.words, decision::TITLE_CHARS_MAX, blank)?;
        body("body", &new.reasoning, decision::BODY_BYTES_MAX)?;
    }
    let decision = Decision {
        id: new.decision,
        agent: new.agent.clone(),
        decision: new.words.clone(),
        reasoning: new.reasoning.clone(),
        context: new.context.clone(),
        at: now,
    };
    let data = json!({"logId": new.decision, "agentId": new.agent});
    let events = new.by_hand.then(|| event(world, EventName::DecisionLogged, data));
    let change = noted(vec![CrewWrite::DecisionInsert { decision }], events.into_iter().collect());
    Ok(Change { reply: Reply::Decision(new.decision), ..change })
}

/// The mail, if it is in the inbox of `by`; `None` is the inbox of people.
fn received<'w>(
    world: &'w World<'_>,
    id: MailId,
    by: Option<&AgentId>,
) -> Result<&'w Mail, Refusal> {
    let mail = world.crew.mail(id).or_not_found(&id)?;
    if mail.to.as_ref() == by { Ok(mail) } else { Err(Refusal::MailOfAnother { mail: id }) }
}

/// The agent, which must be one of those that the command needs.
fn known<'w>(world: &'w World<'_>, id: &AgentId) -> Result<&'w Agent, Refusal> {
    world.crew.agent(id).or_not_found(id)
}

/// Writes a mail. Its event has everything but the body.
pub(crate) fn sent(world: &World<'_>, mail: Mail) -> Change {
    let data = json!({
        "mailId": mail.id,
        "toAgentId": mail.to,
        "isForHuman": mail.to.is_none(),
        "subject": mail.subject,
    });
    Change {
        reply: Reply::Mail(mail.id),
        writes: vec![Write::Crew(CrewWrite::MailInsert { mail })],
        events: vec![event(world, EventName::MailSent, data)],
        but: None,
    }
}

/// Judges a text by its bytes, as the tools of crews state the limit.
fn body(field: &str, text: &str, bytes_max: usize) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::invalid_field(field, format!("{field} cannot be blank")));
    }
    if text.len() > bytes_max {
        let message = format!("{field} must be at most {bytes_max} bytes, got {}", text.len());
        return Err(Refusal::invalid_field(field, message));
    }
    Ok(text.to_owned())
}

/// The answer to a repeated call.
fn unchanged(mail: MailId) -> Change {
    Change { writes: Vec::new(), events: Vec::new(), reply: Reply::Mail(mail), but: None }
}

/// A change of crew rows that answers with no row.
pub(crate) fn noted(writes: Vec<CrewWrite>, events: Vec<Event>) -> Change {
    let writes = writes.into_iter().map(Write::Crew).collect();
    Change { writes, events, reply: Reply::Noted, but: None }
}

/// An event about the crew itself: it belongs to no task, so no wait for a task wakes.
pub(crate) fn event(world: &World<'_>, name: EventName, data: serde_json::Value) -> Event {
    Event { actor: world.actor.clone(), name, about: None, data }
}
