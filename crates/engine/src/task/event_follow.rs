//! The log as it grows, for one reader: every event that the reader may know of and asked for, once and in order,
//! whichever process commits it.
//!
//! Readers that are up to date share one tail per org: an event is read from the store once, however many readers get
//! it. A reader that is behind reads the log itself, page by page at its own pace, so a slow reader costs no more than
//! a page.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_store::EventQuery;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::context::OpContext;
use crate::task::wait::Watch;
use crate::{Engine, EngineError};

const PAGE: usize = 200;
/// How many events of an org the tail buffers for slower readers.
const TAIL_MAX: usize = 256;

/// The tail of each org's log that has readers.
#[derive(Default)]
pub(crate) struct Tails(Mutex<HashMap<Arc<str>, broadcast::Sender<Arc<LoggedEvent>>>>);

impl Tails {
    fn open(&self) -> MutexGuard<'_, HashMap<Arc<str>, broadcast::Sender<Arc<LoggedEvent>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The filter of a reader; an empty filter lets every event pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsWanted {
    pub names: Option<Vec<EventName>>,
    /// Only mail to this agent, and tasks assigned to it.
    pub agent: Option<AgentId>,
}

impl EventsWanted {
    fn has(&self, event: &LoggedEvent) -> bool {
        let named = self.names.as_ref().is_none_or(|names| names.contains(&event.name));
        named && self.agent.as_ref().is_none_or(|agent| is_for(event, agent))
    }
}

/// Whether an event tells an agent of mail or of a task that it got.
fn is_for(event: &LoggedEvent, agent: &AgentId) -> bool {
    match event.name {
        EventName::MailSent | EventName::MailRead => event.read().mail_to() == Some(agent.as_str()),
        EventName::TaskAssigned | EventName::AgentFreed => {
            event.read().agent() == Some(agent.as_str())
        }
        _ => false,
    }
}

/// Whether a reader may know of an event: one that reads only its own mail knows of no other mail.
pub(crate) fn may_know(event: &LoggedEvent, mail_of: Option<&AgentId>) -> bool {
    match (event.name, mail_of) {
        (EventName::MailSent | EventName::MailRead, Some(own)) => is_for(event, own),
        _ => true,
    }
}

pub struct EventFollow {
    engine: Arc<Engine>,
    op: OpContext,
    tail: broadcast::Receiver<Arc<LoggedEvent>>,
    wanted: EventsWanted,
    mail_of: Option<AgentId>,
    /// The cursor: the number of the last event read.
    read: u64,
    /// Whether the log may hold events that the tail will not deliver.
    is_behind: bool,
    ready: VecDeque<Arc<LoggedEvent>>,
}

impl Engine {
    /// Follows the events after that number; `None`: from now on. No event after this call's return is missed. A number
    /// whose next events may have been removed is refused.
    pub async fn event_follow(
        self: &Arc<Self>,
        op: &OpContext,
        after: Option<u64>,
        wanted: EventsWanted,
    ) -> Result<EventFollow, EngineError> {
        let watch = self.event_watch().await?;
        let last = self.last_seq_in(&op.principal.org).await?;
        let mut follow = EventFollow {
            engine: self.clone(),
            op: op.clone(),
            tail: self.tail(&op.principal.org, watch, last),
            wanted,
            mail_of: op.principal.kept_to(),
            // A larger number is one of another log or another org, and this org has no event up to it.
            read: match after {
                Some(after) => {
                    self.event_gap(op, after).await?;
                    after.min(last)
                }
                None => last,
            },
            is_behind: true,
            ready: VecDeque::new(),
        };
        follow.read_on().await?;
        Ok(follow)
    }

    /// The events committed in the org from now on. The first reader starts the task that reads them for all, from
    /// where that reader's own watch began.
    fn tail(
        self: &Arc<Self>,
        org: &Arc<str>,
        watch: Watch,
        last: u64,
    ) -> broadcast::Receiver<Arc<LoggedEvent>> {
        let mut tails = self.tails.open();
        if let Some(tail) = tails.get(org) {
            return tail.subscribe();
        }
        let (tell, tail) = broadcast::channel(TAIL_MAX);
        tails.insert(org.clone(), tell.clone());
        tokio::spawn(self.clone().tell_all(org.clone(), tell, watch, last));
        tail
    }

    async fn tell_all(
        self: Arc<Self>,
        org: Arc<str>,
        tell: broadcast::Sender<Arc<LoggedEvent>>,
        watch: Watch,
        mut read: u64,
    ) {
        loop {
            let query = EventQuery { org: Some(org.clone()), after: read, task: None, limit: PAGE };
            let page = match self.parts.store.events(query).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the event log for its followers");
                    self.tails.open().remove(&org);
                    return;
                }
            };
            let is_last = page.len() < PAGE;
            for event in page {
                read = event.seq;
                // Sending fails when no reader is left; that is handled below.
                let _ = tell.send(Arc::new(event));
            }
            if !is_last {
                continue;
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tell.closed() => {
                    let mut tails = self.tails.open();
                    // A reader may have subscribed between the two.
                    if tell.receiver_count() == 0 {
                        tails.remove(&org);
                        return;
                    }
                }
            }
        }
    }
}

impl EventFollow {
    /// The cursor to resume from: after this number a reader misses no event and gets none twice.
    pub fn position(&self) -> u64 {
        self.ready.front().map_or(self.read, |next| next.seq - 1)
    }

    /// The next event, as soon as there is one.
    pub async fn next(&mut self) -> Result<Arc<LoggedEvent>, EngineError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if self.is_behind {
                self.read_on().await?;
                continue;
            }
            match self.tail.recv().await {
                Ok(event) => self.take(event),
                Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    return Err(EngineError::Unavailable(
                        "the event log cannot be read now".into(),
                    ));
                }
            }
        }
    }

    async fn read_on(&mut self) -> Result<(), EngineError> {
        self.engine.event_gap(&self.op, self.read).await?;
        let page = self.engine.event_list(&self.op, self.read, None, PAGE).await?;
        self.is_behind = page.len() == PAGE;
        for event in page {
            self.take(Arc::new(event));
        }
        Ok(())
    }

    /// Queues an event that is new to this reader and that it may see and asked for.
    fn take(&mut self, event: Arc<LoggedEvent>) {
        if event.seq <= self.read {
            return;
        }
        self.read = event.seq;
        if may_know(&event, self.mail_of.as_ref()) && self.wanted.has(&event) {
            self.ready.push_back(event);
        }
    }
}
