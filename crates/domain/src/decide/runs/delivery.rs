//! Messages about ended jobs and about events: queued in the change they tell of, and retried until the receiver
//! takes them, wants no more, or the retries are used up.

use serde_json::{Value, json};

use crate::decide::draft::job_writes;
use crate::decide::runs::job::own;
use crate::event::{About, Event, EventName};
use crate::ids::TaskId;
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::relay::ending::Ending;
use crate::runs::delivery::{AGAIN_AFTER_S, Delivery, Receipt, Topic, Tried, Webhook, destination};
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::task::PRIORITY_DEFAULT;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Queues a message about each mail and each new task of the change, in that change. The id of a message is the id
/// of its subject, so nothing is told twice.
pub(crate) fn told(world: &World<'_>, change: &mut Change, now: Timestamp) {
    let Some(url) = &world.policy.webhook else { return };
    let letters: Vec<_> =
        change.events.iter().filter_map(|event| Some((event.clone(), Topic::of(event)?))).collect();
    for (event, topic) in letters {
        let data = data_of(&event, topic, &change.writes);
        let delivery = Delivery {
            job: JobId(topic.id()),
            about: topic,
            url: url.clone(),
            kind: event.name.as_str().to_owned(),
            data,
            ended_at: now,
            tried: None,
        };
        let task = event.about.map(|about| about.task);
        let (writes, event) = letter(delivery, task, PRIORITY_DEFAULT, &event);
        change.writes.extend(writes);
        change.events.push(event);
    }
}

/// The event's data; for a task also its id and its epic.
fn data_of(event: &Event, topic: Topic, writes: &[Write]) -> Value {
    let mut data = event.data.clone();
    if let Topic::Task(id) = topic {
        let parent = writes.iter().find_map(|write| match write {
            Write::TaskInsert { task, .. } if task.id == id => task.parent,
            _ => None,
        });
        data["taskId"] = id.to_string().into();
        data["epicId"] = parent.map(|parent| parent.to_string()).into();
    }
    data
}

/// The rows and the event that queue the message about a job's end.
pub(crate) fn queued(
    over: &Job,
    webhook: &Webhook,
    end: &Event,
    now: Timestamp,
) -> Option<([Write; 2], Event)> {
    // The number of the event is filled in when the message is sent.
    let ending = Ending::of(over.id, end.name, &end.data, None)?;
    let delivery = Delivery {
        job: webhook.delivery,
        about: Topic::Job(over.id),
        url: webhook.url.clone(),
        kind: ending.kind().to_owned(),
        data: ending.data,
        ended_at: now,
        tried: None,
    };
    Some(letter(delivery, over.task, over.priority, end))
}

/// A message with the job that sends it. Its event has the actor and the task of the event it tells of.
fn letter(
    delivery: Delivery,
    task: Option<TaskId>,
    priority: u16,
    from: &Event,
) -> ([Write; 2], Event) {
    let key = format!("deliver-{}", delivery.about);
    let job = Job::queued(delivery.job, JobKind::Deliver, key, task, delivery.ended_at);
    let job = Job { priority, ..job };
    let data = json!({
        delivery.about.noun(): delivery.about.to_string(),
        "delivery": delivery.job.to_string(),
        "to": destination(&delivery.url),
    });
    let event = Event { name: EventName::WebhookQueued, data, ..from.clone() };
    ([Write::JobInsert { job }, Write::DeliveryInsert { delivery }], event)
}

/// Records one try to send a message. The pauses between tries grow by a fixed table; a receiver that answers 410 is
/// not asked again.
pub(crate) fn delivery_try(
    world: &World<'_>,
    id: JobId,
    tries: u32,
    (about, to): (Topic, &str),
    receipt: &Receipt,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let job = own(world, id, tries, now)?;
    let failed = |reason: &str| JobState::Failed { at: now, reason: reason.to_owned() };
    let again_s = AGAIN_AFTER_S.get(tries.saturating_sub(1) as usize);
    let (outcome, state) = match (receipt, again_s) {
        (Receipt::Taken, _) => ("delivered", JobState::Done { at: now }),
        (Receipt::Unwanted, _) => ("the receiver wants no more (410)", failed("unwanted")),
        (Receipt::Failed(words), Some(again_s)) => {
            (words.as_str(), JobState::Queued { due_at: now.plus_s(*again_s) })
        }
        (Receipt::Failed(words), None) => (words.as_str(), failed("given up")),
    };
    let name = match receipt {
        Receipt::Taken => EventName::WebhookDelivered,
        Receipt::Unwanted | Receipt::Failed(_) => EventName::WebhookFailed,
    };
    let mut data = json!({
        about.noun(): about.to_string(),
        "delivery": id.to_string(),
        "to": to,
        "tries": tries,
        "outcome": outcome,
    });
    if let JobState::Queued { due_at } = state {
        data["again_at"] = (due_at.0 / 1000).into();
    }
    let subject = world.subject.as_ref().map(|subject| &subject.task);
    let about = subject.map(|task| About { project: task.project, task: task.id, attempt: None });
    let tried = Tried { at: now, outcome: outcome.to_owned() };
    let job = Job { state, ..job.clone() };
    let mut writes = job_writes(world, Some(job), None);
    writes.push(Write::DeliveryTried { job: id, tried });
    Ok(Change {
        writes,
        events: vec![Event { actor: world.actor.clone(), name, about, data }],
        reply: Reply::Job(id),
        but: None,
    })
}

/// Queues a message that waits, was taken or was given up. Its tries go on: after the last pause one more try is made.
pub(crate) fn delivery_again(
    world: &World<'_>,
    id: JobId,
    (about, to): (Topic, &str),
    now: Timestamp,
) -> Result<Change, Refusal> {
    let found = world.job.as_ref().filter(|job| job.kind == JobKind::Deliver);
    let job = found.or_not_found(&id)?;
    if matches!(job.state, JobState::Running { until, .. } if now < until) {
        return Err(Refusal::invalid("this message is being sent now"));
    }
    let data = json!({
        about.noun(): about.to_string(),
        "delivery": id.to_string(),
        "to": to,
    });
    let subject = world.subject.as_ref().map(|subject| &subject.task);
    let about = subject.map(|task| About { project: task.project, task: task.id, attempt: None });
    let job = Job { state: JobState::Queued { due_at: now }, ..job.clone() };
    let actor = world.actor.clone();
    Ok(Change {
        writes: job_writes(world, Some(job), None),
        events: vec![Event { actor, name: EventName::WebhookQueued, about, data }],
        reply: Reply::Job(id),
        but: None,
    })
}
