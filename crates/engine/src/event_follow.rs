//! The log as it grows, for one reader: every event that the reader may know of and asked for, once and
//! in order, whichever process commits it. Read page by page as the reader takes them, so that nobody's
//! slowness costs more than a page.

use std::collections::VecDeque;
use std::sync::Arc;

use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::rights::Lane;

use crate::context::{OpContext, Principal};
use crate::wait::Watch;
use crate::{Engine, EngineError};

const PAGE: usize = 200;

/// What a reader asks for; nothing asked for is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsWanted {
    pub names: Option<Vec<EventName>>,
    /// Mail to this agent, and tasks given to it.
    pub agent: Option<AgentId>,
}

impl EventsWanted {
    fn has(&self, event: &LoggedEvent) -> bool {
        let named = self.names.as_ref().is_none_or(|names| names.contains(&event.name));
        named && self.agent.as_ref().is_none_or(|agent| is_for(event, agent))
    }
}

/// Whether an event tells an agent of something that it got.
fn is_for(event: &LoggedEvent, agent: &AgentId) -> bool {
    match event.name {
        EventName::MailSent | EventName::MailRead => event.data["toAgentId"] == agent.as_str(),
        EventName::TaskAssigned | EventName::AgentFreed => event.data["agentId"] == agent.as_str(),
        _ => false,
    }
}

/// Whose mail a reader hears of. Only an agent that had to show a token is kept to its own.
fn mail_of(reader: &Principal) -> Option<AgentId> {
    let Principal { actor, rights, token, .. } = reader;
    let is_bound = token.is_some() && !actor.is_human() && rights.lane != Lane::KaganAdmin;
    is_bound.then(|| AgentId::of(actor))
}

pub struct EventFollow {
    engine: Arc<Engine>,
    op: OpContext,
    watch: Watch,
    wanted: EventsWanted,
    mail_of: Option<AgentId>,
    /// Up to where the log was read.
    read: u64,
    ready: VecDeque<LoggedEvent>,
}

impl Engine {
    /// What happens after the event with that number; `None`: from now on. From when this returns,
    /// nothing is missed.
    pub async fn event_follow(
        self: &Arc<Self>,
        op: &OpContext,
        after: Option<u64>,
        wanted: EventsWanted,
    ) -> Result<EventFollow, EngineError> {
        let watch = self.event_watch().await?;
        let last = self.last_seq().await?;
        let mut follow = EventFollow {
            engine: self.clone(),
            op: op.clone(),
            watch,
            wanted,
            mail_of: mail_of(&op.principal),
            // A number that there is not yet is one of another log.
            read: after.unwrap_or(last).min(last),
            ready: VecDeque::new(),
        };
        follow.read_on().await?;
        Ok(follow)
    }
}

impl EventFollow {
    /// Whoever resumes after this number misses nothing and hears nothing twice.
    pub fn position(&self) -> u64 {
        self.ready.front().map_or(self.read, |next| next.seq - 1)
    }

    /// The next one, as soon as there is one.
    pub async fn next(&mut self) -> Result<LoggedEvent, EngineError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if !self.read_on().await? {
                self.watch.changed().await;
            }
        }
    }

    /// Whether there was anything, wanted or not.
    async fn read_on(&mut self) -> Result<bool, EngineError> {
        let page = self.engine.event_list(&self.op, self.read, None, PAGE).await?;
        let Some(last) = page.last() else { return Ok(false) };
        self.read = last.seq;
        let (wanted, mail_of) = (&self.wanted, self.mail_of.as_ref());
        let heard = |event: &LoggedEvent| match (event.name, mail_of) {
            (EventName::MailSent | EventName::MailRead, Some(own)) => is_for(event, own),
            _ => true,
        };
        self.ready.extend(page.into_iter().filter(|event| heard(event) && wanted.has(event)));
        Ok(true)
    }
}
