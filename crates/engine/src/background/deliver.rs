//! Delivers messages about ended jobs and about events: finds due messages, sends them, records the results. The domain
//! decides when a delivery is retried, and the store keeps that time; any process may send it then.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::relay::ending::{Ending, with_version};
use callboard_domain::runs::delivery::{Delivery, Receipt, Topic, destination};
use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::time::Timestamp;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::{OpContext, Scope};
use crate::job::LeasedJob;
use crate::ports::{Courier, Letter};
use crate::time::rfc3339_ms;
use crate::{Engine, EngineError};

/// How often the queue is polled for messages of other processes, and for messages that become due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many messages are sent at a time.
const AT_ONCE: usize = 16;
/// The name of the secret in the store.
const SECRET: &str = "webhook";

impl Engine {
    /// Delivers until canceled. A failure is logged and tried again at the next look.
    pub async fn deliver_until(self: Arc<Self>, stop: CancellationToken) {
        if self.parts.courier.is_none() {
            return;
        }
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.nudges.messages.notified() => {}
                _ = tick.tick() => {}
            }
            // A message that is being sent is left to the process that looks after its lease expires.
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.deliver() => if let Err(error) = done {
                    tracing::warn!(%error, "cannot deliver due webhooks");
                },
            }
        }
    }

    /// Sends the messages due now, all at once. Returns how many were sent.
    pub async fn deliver(self: &Arc<Self>) -> Result<usize, EngineError> {
        let Some(courier) = self.parts.courier.clone() else { return Ok(0) };
        let mut sending = JoinSet::new();
        let due = self.parts.store.jobs_due(JobKind::Deliver, AT_ONCE).await?;
        for taken in self.jobs_take(due).await? {
            let (engine, courier) = (self.clone(), courier.clone());
            sending.spawn(async move { engine.delivery_try(&*courier, &taken).await });
        }
        let mut sent = 0;
        while let Some(done) = sending.join_next().await {
            done.map_err(|error| EngineError::Internal(error.to_string()))??;
            sent += 1;
        }
        Ok(sent)
    }

    async fn delivery_try(
        &self,
        courier: &dyn Courier,
        taken: &LeasedJob,
    ) -> Result<(), EngineError> {
        let Job { id: job, tries, .. } = taken.job;
        let Some(delivery) = self.parts.store.delivery(&taken.org, job).await? else {
            return Err(EngineError::Internal(format!("{job} has no message to send")));
        };
        let delivery = self.numbered(&taken.org, taken.job.task, delivery).await?;
        let secret = self.secret_of(courier, &taken.org).await?;
        let letter = letter(&delivery, self.parts.store.now());
        let receipt = courier.deliver(&letter, &secret).await;
        let to = destination(&delivery.url);
        if let Receipt::Failed(words) = &receipt {
            tracing::info!(%job, about = %delivery.about, to, tries, words, "not delivered");
        }
        let tried = Command::DeliveryTry { job, tries, about: delivery.about, to, receipt };
        match self.act_as_runner(&taken.org, tried).await {
            // The send took so long that another process has the job now; its result counts.
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds the number of the event that ended the job to a message about that end.
    async fn numbered(
        &self,
        org: &str,
        task: Option<TaskId>,
        delivery: Delivery,
    ) -> Result<Delivery, EngineError> {
        let (Topic::Job(job), Some(_)) = (delivery.about, task) else { return Ok(delivery) };
        let events = self.run_events_of(org, task, job).await?;
        let ended = events
            .iter()
            .rfind(|event| Ending::of(job, event.name, &event.data, Some(event.seq)).is_some());
        let Some(ended) = ended else { return Ok(delivery) };
        let data = with_version(delivery.data.clone(), ended.seq);
        Ok(Delivery { data, ..delivery })
    }

    async fn secret_of(&self, courier: &dyn Courier, org: &str) -> Result<String, EngineError> {
        if let Some(secret) = courier.secret() {
            return Ok(secret.to_owned());
        }
        let fresh = courier.new_secret().map_err(EngineError::Internal)?;
        Ok(self.parts.store.secret(org, SECRET, &fresh).await?)
    }

    /// The secret with which an org's messages are signed; made when it is first needed.
    pub async fn webhook_secret(&self, org: &str) -> Result<String, EngineError> {
        let none = || EngineError::Unavailable("this server delivers no webhooks".into());
        let courier = self.parts.courier.as_ref().ok_or_else(none)?;
        self.secret_of(&**courier, org).await
    }

    /// Sends a message once more, whatever came of it before.
    pub async fn delivery_again(&self, op: &OpContext, job: JobId) -> Result<(), EngineError> {
        let found = self.parts.store.delivery(&op.principal.org, job).await?;
        let delivery = found.or_not_found(&job)?;
        let to = destination(&delivery.url);
        self.act(op, Command::DeliveryAgain { job, about: delivery.about, to }).await?;
        Ok(())
    }

    /// Messages sent or to be sent, with the jobs that send them; newest first.
    pub async fn delivery_list(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.deliveries(&op.principal.org, limit).await?)
    }

    /// Messages that are older than this one, the newest first.
    pub async fn delivery_list_below(
        &self,
        op: &OpContext,
        job: JobId,
        limit: usize,
    ) -> Result<Vec<(Job, Delivery)>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.deliveries_below(&op.principal.org, job, limit).await?)
    }
}

fn letter(delivery: &Delivery, now: Timestamp) -> Letter {
    let body = json!({
        "type": delivery.kind,
        "timestamp": rfc3339_ms(delivery.ended_at),
        "data": delivery.data,
    });
    Letter {
        url: delivery.url.clone(),
        id: delivery.message_id(),
        sent_at: now.0.div_euclid(1_000_000),
        body: body.to_string(),
    }
}
