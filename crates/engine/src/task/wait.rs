//! Waits, indexed by what they wait for: an event wakes only the waits for its task.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventData, EventName, LoggedEvent, step_of};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::runs::job::JobId;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::goal::Goal;
use callboard_domain::time::Timestamp;
use callboard_store::{EventQuery, EventSink};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use crate::context::OpContext;
use crate::{At, Engine, EngineError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WaitKey {
    Task(Id),
    /// Mail to an agent or to people, by a hash of the recipient.
    Inbox(u64),
    /// Any event: follow modes.
    Any,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub struct RunEvent {
    /// The version of the job from this event on.
    pub seq: u64,
    pub at: Timestamp,
    pub job: JobId,
    pub name: EventName,
    pub data: Value,
}

impl RunEvent {
    pub fn read(&self) -> EventData<'_> {
        EventData::of(&self.data)
    }

    /// `None` for an event that is no step of a run.
    fn of(event: &LoggedEvent) -> Option<Self> {
        let job = step_of(event.name, &event.data)?;
        let (seq, at, name, data) = (event.seq, event.at, event.name, event.data.clone());
        Some(Self { seq, at, job, name, data })
    }
}

type RunFeeds = HashMap<Option<JobId>, HashMap<u64, mpsc::UnboundedSender<RunEvent>>>;

#[derive(Default)]
pub(crate) struct Waits {
    /// Feeds of one job, or of all jobs; each gets every event in order.
    runs: Mutex<RunFeeds>,
    by_key: Mutex<HashMap<WaitKey, HashMap<u64, Arc<Notify>>>>,
    next: AtomicU64,
    count: AtomicUsize,
    /// How often waits looked again.
    looks: AtomicU64,
}

impl Waits {
    pub(crate) fn look_again(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    fn by_key(&self) -> MutexGuard<'_, HashMap<WaitKey, HashMap<u64, Arc<Notify>>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(self: &Arc<Self>, key: WaitKey) -> Watch {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let changed = Arc::new(Notify::new());
        // Counted before it is registered: a store that sees no listener has skipped no event of this watch.
        self.count.fetch_add(1, Ordering::SeqCst);
        self.by_key().entry(key).or_default().insert(number, changed.clone());
        Watch { waits: self.clone(), key, number, changed }
    }
}

impl Waits {
    fn runs(&self) -> MutexGuard<'_, RunFeeds> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(self: &Arc<Self>, job: Option<JobId>) -> RunFeed {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // A job has some ten events in its life, so the number of jobs bounds this channel.
        let (sender, events) = mpsc::unbounded_channel();
        self.count.fetch_add(1, Ordering::SeqCst);
        self.runs().entry(job).or_default().insert(number, sender);
        RunFeed { waits: self.clone(), job, number, events }
    }

    fn publish_runs(&self, events: &[LoggedEvent]) {
        let feeds = self.runs();
        if feeds.is_empty() {
            return;
        }
        for event in events.iter().filter_map(RunEvent::of) {
            for key in [Some(event.job), None] {
                for feed in feeds.get(&key).into_iter().flat_map(HashMap::values) {
                    // A receiver that is gone is about to be removed from the list.
                    let _ = feed.send(event.clone());
                }
            }
        }
    }
}

/// Every event of a job, or of all jobs, in order; none is merged or left out.
pub struct RunFeed {
    waits: Arc<Waits>,
    job: Option<JobId>,
    number: u64,
    events: mpsc::UnboundedReceiver<RunEvent>,
}

impl RunFeed {
    pub async fn next(&mut self) -> Option<RunEvent> {
        self.events.recv().await
    }

    /// Drops the events that have arrived so far.
    pub(crate) fn skip(&mut self) {
        while self.events.try_recv().is_ok() {}
    }
}

impl Drop for RunFeed {
    fn drop(&mut self) {
        let mut feeds = self.waits.runs();
        if let Some(following) = feeds.get_mut(&self.job) {
            following.remove(&self.number);
            if following.is_empty() {
                feeds.remove(&self.job);
            }
        }
        self.waits.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EventSink for Waits {
    fn publish(&self, events: &[LoggedEvent]) {
        self.publish_runs(events);
        let by_key = self.by_key();
        for event in events {
            let task = event.task().map(|task| WaitKey::Task(task.id));
            let inbox = (event.name == EventName::MailSent).then(|| inbox_of(event));
            for key in task.into_iter().chain(inbox).chain([WaitKey::Any]) {
                for changed in by_key.get(&key).into_iter().flat_map(HashMap::values) {
                    changed.notify_one();
                }
            }
        }
    }

    fn is_listening(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }
}

fn inbox_of(event: &LoggedEvent) -> WaitKey {
    inbox(event.read().mail_to())
}

/// Recipients that share a hash wake each other needlessly, and look again.
fn inbox(of: Option<&str>) -> WaitKey {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    WaitKey::Inbox(hasher.finish())
}

/// Wakes when something it watches happens. Several events before a look count as one.
pub struct Watch {
    waits: Arc<Waits>,
    key: WaitKey,
    number: u64,
    changed: Arc<Notify>,
}

impl Watch {
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut by_key = self.waits.by_key();
        if let Some(waiting) = by_key.get_mut(&self.key) {
            waiting.remove(&self.number);
            if waiting.is_empty() {
                by_key.remove(&self.key);
            }
        }
        self.waits.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Debug)]
pub enum WaitOutcome {
    Reached(Box<At<TaskRecord>>),
    TimedOut(Box<At<TaskRecord>>),
}

impl Engine {
    /// A watch for changes of a task. No change after this call's return goes unnoticed.
    pub async fn task_watch(&self, task: TaskId) -> Result<Watch, EngineError> {
        let watch = self.waits.register(WaitKey::Task(task.id));
        self.parts.store.listen().await?;
        Ok(watch)
    }

    /// How often waits of this process looked at their task again because it changed.
    pub fn wait_looks(&self) -> u64 {
        self.waits.looks.load(Ordering::Relaxed)
    }

    /// A feed of the job's events, or of all jobs'. No event after this call's return is missed, whichever process
    /// makes it.
    pub async fn run_feed(&self, job: Option<JobId>) -> Result<RunFeed, EngineError> {
        let feed = self.waits.follow(job);
        self.parts.store.listen().await?;
        Ok(feed)
    }

    /// The events of a job so far.
    pub async fn run_events(
        &self,
        op: &OpContext,
        job: JobId,
    ) -> Result<Vec<RunEvent>, EngineError> {
        let task = self.run_get(op, job).await?.record.job.task;
        self.run_events_of(&op.principal.org, task, job).await
    }

    pub(crate) async fn run_events_of(
        &self,
        org: &str,
        task: Option<TaskId>,
        job: JobId,
    ) -> Result<Vec<RunEvent>, EngineError> {
        let org = Some(org.into());
        let query = EventQuery { org, after: 0, task, limit: i32::MAX as usize };
        let events = self.parts.store.events(query).await?;
        Ok(events.iter().filter_map(RunEvent::of).filter(|event| event.job == job).collect())
    }

    /// A watch for mail to an agent; `None`: to people. No mail after this call's return goes unnoticed.
    pub async fn mail_watch(&self, to: Option<&AgentId>) -> Result<Watch, EngineError> {
        let watch = self.waits.register(inbox(to.map(AgentId::as_str)));
        self.parts.store.listen().await?;
        Ok(watch)
    }

    pub async fn event_watch(&self) -> Result<Watch, EngineError> {
        let watch = self.waits.register(WaitKey::Any);
        self.parts.store.listen().await?;
        Ok(watch)
    }

    /// Returns when the task has one of the states, or with its state at the deadline.
    pub async fn task_wait(
        &self,
        op: &OpContext,
        task: TaskId,
        states: &[String],
        timeout: Duration,
    ) -> Result<WaitOutcome, EngineError> {
        let goals = Goal::read_all(states, &self.parts.policy)?;
        let deadline = tokio::time::Instant::now() + timeout;
        let watch = self.task_watch(task).await?;
        loop {
            let seen = self.task_get(op, task).await?;
            let there = goals.iter().any(|goal| goal.is_reached(&seen.it));
            if there {
                return Ok(WaitOutcome::Reached(Box::new(seen)));
            }
            tokio::select! {
                () = watch.changed() => self.waits.look_again(),
                () = tokio::time::sleep_until(deadline) => {
                    return Ok(WaitOutcome::TimedOut(Box::new(seen)));
                }
                () = op.cancel.cancelled() => return Err(EngineError::Canceled),
            }
        }
    }
}
