//! The log as a list, newest first, under the conditions of a reader.
//!
//! No index serves conditions on actors and names: each event would pay for it, and few are ever searched. A page looks
//! through a bounded range of numbers instead, and says where it stopped.

use std::collections::HashMap;

use callboard_domain::board::column::COUNT_MAX;
use callboard_domain::event::{EventName, EventTerms, LoggedEvent};
use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::time::Timestamp;
use callboard_store::{BackQuery, EventQuery, TaskTitle};

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
    /// Earlier events may have been removed: the log is whole from this number on. Set on the last page.
    pub whole_from: Option<u64>,
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
        let whole = self.log_floor().await?;
        // Below the floor of the log only the events of open tasks are left, so their numbers are far apart.
        let lowest = match below <= whole.seq {
            true => floor,
            false => below.saturating_sub(LOOKED_MAX + 1).max(floor),
        };
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
        let whole_from = Some(whole.seq).filter(|seq| next.is_none() && floor + 1 < *seq);
        Ok(EventPage { events, next, is_cut, whole_from })
    }

    /// How many calls were refused under these conditions, whatever names of events they ask for. The second value says
    /// whether the count is exact: it stops at `COUNT_MAX`, and a condition on actors, words or a task is looked for in
    /// the newest `LOOKED_MAX` numbers, as in a page.
    pub async fn calls_refused(
        &self,
        op: &OpContext,
        terms: &EventTerms,
    ) -> Result<(usize, bool), EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let store = &self.parts.store;
        let newest = store.last_seq().await?;
        let floor = match terms.since {
            Some(since) => self.last_before(since, newest).await?,
            None => 0,
        };
        let is_searched =
            terms.task.is_some() || !terms.actors.is_empty() || !terms.words.is_empty();
        let lowest = newest.saturating_sub(LOOKED_MAX).max(floor);
        let after = if is_searched { lowest } else { floor };
        let query = BackQuery {
            after,
            names: Some(vec![EventName::CallRefused]),
            task: terms.task,
            actors: terms.actors.clone(),
            words: terms.words.clone(),
            ..BackQuery::of(op.principal.org.clone(), COUNT_MAX + 1)
        };
        let many = store.events_count(query).await?;
        Ok((many.min(COUNT_MAX), many <= COUNT_MAX && after == floor))
    }

    /// The number of the last event before a time. Times rise with the numbers.
    pub(crate) async fn last_before(&self, at: Timestamp, newest: u64) -> Result<u64, EngineError> {
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

    /// Names and titles of these tasks. A removed task has none.
    pub async fn event_tasks(
        &self,
        op: &OpContext,
        mut tasks: Vec<TaskId>,
    ) -> Result<HashMap<TaskId, EventTask>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        tasks.sort_unstable_by_key(|task| task.id);
        tasks.dedup_by_key(|task| task.id);
        let titles = self.parts.store.task_titles(&op.principal.org, &tasks).await?;
        let named = |TaskTitle { id, name, title }| (id, EventTask { name, title });
        Ok(titles.into_iter().map(named).collect())
    }
}
