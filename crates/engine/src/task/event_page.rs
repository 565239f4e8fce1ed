//! The log as a list, newest first, under the conditions of a reader.
//!
//! No index serves conditions on actors and names: each event would pay for it, and few are ever searched. A page looks
//! through a bounded range of numbers instead, and says where it stopped.

use std::collections::HashMap;

use callboard_domain::event::{EventTerms, LoggedEvent};
use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::time::Timestamp;
use callboard_store::{BackQuery, EventQuery};

use crate::context::{OpContext, Scope};
use crate::task::event_follow::may_know;
use crate::{Engine, EngineError};

/// How many numbers of the log one page looks through.
pub const LOOKED_MAX: u64 = 50_000;

/// One page of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// The newest first.
    pub events: Vec<LoggedEvent>,
    /// Earlier events, if there are any, lie below this number.
    pub next: Option<u64>,
    /// Whether the page ends because `LOOKED_MAX` numbers were looked through, before it was full.
    pub is_cut: bool,
}

/// A task as lists of events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTask {
    pub name: TaskName,
    pub title: String,
}

impl Engine {
    /// Events that fit, below the number `before`; at most `limit`.
    pub async fn event_page(
        &self,
        op: &OpContext,
        terms: &EventTerms,
        before: Option<u64>,
        limit: usize,
    ) -> Result<EventPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let store = &self.parts.store;
        let newest = store.last_seq().await?;
        let below = before.unwrap_or(u64::MAX).min(newest + 1);
        let floor = match terms.since {
            Some(since) => self.last_before(since, newest).await?,
            None => 0,
        };
        let lowest = below.saturating_sub(LOOKED_MAX + 1).max(floor);
        let query = BackQuery {
            before: Some(below),
            after: lowest,
            names: Some(terms.names()),
            task: terms.task,
            actors: terms.actors.clone(),
            words: terms.words.clone(),
            // One more tells whether there is another page.
            ..BackQuery::of(op.principal.org.clone(), limit + 1)
        };
        let mut events = store.events_back(query).await?;
        let is_full = events.len() > limit;
        events.truncate(limit);
        let last = events.last().map(|event| event.seq);
        let mail_of = op.principal.kept_to();
        events.retain(|event| may_know(event, mail_of.as_ref()));
        let is_cut = !is_full && lowest > floor;
        let next = match is_full {
            true => last,
            false => is_cut.then_some(lowest + 1),
        };
        Ok(EventPage { events, next, is_cut })
    }

    /// The number of the last event before a time. Times rise with the numbers, and numbers have no gaps.
    async fn last_before(&self, at: Timestamp, newest: u64) -> Result<u64, EngineError> {
        let (mut low, mut high) = (0, newest);
        while low < high {
            let middle = low + (high - low) / 2;
            let query = EventQuery { org: None, after: middle, task: None, limit: 1 };
            let found = self.parts.store.events(query).await?;
            match found.first() {
                Some(event) if event.at < at => low = event.seq,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Names and titles of the tasks of some events. A removed task has none.
    pub async fn event_tasks(
        &self,
        op: &OpContext,
        events: &[LoggedEvent],
    ) -> Result<HashMap<TaskId, EventTask>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let mut found = HashMap::new();
        for task in events.iter().filter_map(LoggedEvent::task) {
            if found.contains_key(&task) {
                continue;
            }
            if let Some(record) = self.parts.store.task(&op.principal.org, task).await? {
                let task = record.task;
                found.insert(task.id, EventTask { name: task.name(), title: task.title });
            }
        }
        Ok(found)
    }
}
