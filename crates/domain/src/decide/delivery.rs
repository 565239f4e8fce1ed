//! Messages about jobs that are over: queued with the end, tried until somebody has them.

use serde_json::json;

use super::job::own;
use crate::delivery::{AGAIN_AFTER_S, Delivery, Receipt, Tried, Webhook, destination};
use crate::event::{About, Event, EventName};
use crate::job::{Job, JobId, JobKind, JobState};
use crate::refusal::Refusal;
use crate::relay::ending::Ending;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// What is written, and logged, when the event that ends a job is to be told.
pub(super) fn queued(
    over: &Job,
    webhook: &Webhook,
    end: &Event,
    now: Timestamp,
) -> Option<([Write; 2], Event)> {
    let ending = Ending::of(over.id, end.name, &end.data)?;
    let delivery = Delivery {
        job: webhook.delivery,
        about: over.id,
        url: webhook.url.clone(),
        kind: ending.kind().to_owned(),
        data: ending.data,
        ended_at: now,
        tried: None,
    };
    let job = Job {
        id: webhook.delivery,
        kind: JobKind::Deliver,
        key: format!("deliver-{}", over.id),
        task: over.task,
        priority: over.priority,
        tries: 0,
        created_at: now,
        state: JobState::Queued { due_at: now },
    };
    let data = json!({
        "job": over.id.to_string(),
        "delivery": webhook.delivery.to_string(),
        "to": destination(&webhook.url),
    });
    let event = Event { name: EventName::WebhookQueued, data, ..end.clone() };
    Some(([Write::JobInsert { job }, Write::DeliveryInsert { delivery }], event))
}

pub(super) fn delivery_try(
    world: &World<'_>,
    id: JobId,
    tries: u32,
    (about, to): (JobId, &str),
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
        "job": about.to_string(),
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
    Ok(Change {
        writes: vec![Write::JobUpdate { job }, Write::DeliveryTried { job: id, tried }],
        events: vec![Event { actor: world.actor.clone(), name, about, data }],
        reply: Reply::Job(id),
        but: None,
    })
}
