//! The feed of a task for a person: its notes, letters and events in one list, page by page. Reads only.

use callboard_domain::board::feed::{
    FEED_LINES_MAX, FeedLine, FeedShow, FeedWords, feed_lines, is_letter_of,
};
use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;
use callboard_store::{BackQuery, EventQuery, MailQuery, MailSeen};

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How many events of a task one page looks through; most heartbeats have no words and no line.
const EVENTS_MAX: usize = 500;
/// Refused calls name their task in their data alone, so a page looks through so many numbers of the log for them.
const REFUSALS_LOOKED_MAX: u64 = 5_000;
const REFUSALS_MAX: usize = 20;
/// How many of the newest letters of an inbox are looked at, and of how many workers.
const LETTERS_MAX: usize = 200;
const WORKERS_MAX: usize = 5;

/// One page of a task's feed.
#[derive(Clone, Debug)]
pub struct TaskFeed {
    /// The newest first.
    pub entries: Vec<FeedEntry>,
    /// Older entries lie below this number.
    pub next: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum FeedEntry {
    Line(FeedLine),
    Letter(MailSeen),
}

impl FeedEntry {
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Line(line) => line.at,
            Self::Letter(seen) => seen.mail.created_at,
        }
    }
}

impl Engine {
    /// A page of the feed of a task, below the number `before`. `attempts` are those of the task: they say whose
    /// letters belong to it. `reader` is the inbox of the reader, `None`: people. A reader sees its own letters alone.
    pub async fn task_feed(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        attempts: &[Attempt],
        reader: Option<&AgentId>,
        (show, before): (FeedShow, Option<u64>),
    ) -> Result<TaskFeed, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, task) = (&self.parts.store, record.task.id);
        let query = BackQuery {
            before,
            names: Some(show.names()),
            task: Some(task),
            ..BackQuery::of(op.principal.org.clone(), EVENTS_MAX)
        };
        let mut events = store.events_back(query).await?;
        let is_more = events.len() == EVENTS_MAX;
        let lowest = events.last().map(|event| event.seq);
        if show.names().contains(&EventName::CallRefused) {
            let after = lowest.filter(|_| is_more).unwrap_or_default();
            events.extend(self.refusals(op, record, (after, before)).await?);
            events.sort_by_key(|event| std::cmp::Reverse(event.seq));
        }
        let comments = store.comments(&op.principal.org, task).await?;
        let is_question = |event: &LoggedEvent| event.name == EventName::JobAsked;
        let runs = match events.iter().any(is_question) {
            true => self.work_runs(op, task).await?,
            false => Vec::new(),
        };
        let words = FeedWords { history: &record.entries, comments: &comments, runs: &runs };
        let mut lines = feed_lines(&events, words);
        let mut next = lowest.filter(|_| is_more);
        if lines.len() > FEED_LINES_MAX {
            lines.truncate(FEED_LINES_MAX);
            next = lines.last().map(|line| line.seq);
        }
        let mut entries: Vec<FeedEntry> = Vec::new();
        if show.has_letters() {
            // Letters have no numbers: those of a page are the letters of its time.
            let until = match before {
                Some(before) => self.event_at(op, before).await?,
                None => None,
            };
            let from = next.and(lines.last()).map(|line| line.at);
            let letters = self.letters(op, attempts, reader).await?;
            let is_here = |seen: &MailSeen| {
                let at = seen.mail.created_at;
                until.is_none_or(|until| at < until) && from.is_none_or(|from| at >= from)
            };
            entries.extend(letters.into_iter().filter(is_here).map(FeedEntry::Letter));
            entries.truncate(FEED_LINES_MAX);
        }
        entries.extend(lines.into_iter().map(FeedEntry::Line));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at()));
        Ok(TaskFeed { entries, next })
    }

    /// Refused calls on a task among the newest numbers of a range.
    async fn refusals(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        (after, before): (u64, Option<u64>),
    ) -> Result<Vec<LoggedEvent>, EngineError> {
        let store = &self.parts.store;
        let below = match before {
            Some(before) => before,
            None => store.last_seq().await? + 1,
        };
        let query = BackQuery {
            before: Some(below),
            after: after.max(below.saturating_sub(REFUSALS_LOOKED_MAX)),
            names: Some(vec![EventName::CallRefused]),
            ..BackQuery::of(op.principal.org.clone(), EVENTS_MAX)
        };
        let mut found = store.events_back(query).await?;
        found.retain(|event| event.read().named_task() == Some(record.task.id));
        found.truncate(REFUSALS_MAX);
        Ok(found)
    }

    /// The time of the event with this number, or of the next one of the org.
    async fn event_at(&self, op: &OpContext, seq: u64) -> Result<Option<Timestamp>, EngineError> {
        let org = Some(op.principal.org.clone());
        let query = EventQuery { org, after: seq.saturating_sub(1), task: None, limit: 1 };
        Ok(self.parts.store.events(query).await?.first().map(|event| event.at))
    }

    /// The letters between the reader and the workers of a task, while they held the task; the newest first.
    async fn letters(
        &self,
        op: &OpContext,
        attempts: &[Attempt],
        reader: Option<&AgentId>,
    ) -> Result<Vec<MailSeen>, EngineError> {
        let mut workers: Vec<AgentId> = Vec::new();
        for attempt in attempts.iter().rev().filter(|attempt| !attempt.actor.is_human()) {
            let worker = AgentId::of(&attempt.actor);
            if !workers.contains(&worker) {
                workers.push(worker);
            }
        }
        workers.truncate(WORKERS_MAX);
        if workers.is_empty() {
            return Ok(Vec::new());
        }
        let mut inboxes: Vec<Option<AgentId>> = workers.into_iter().map(Some).collect();
        if !inboxes.contains(&reader.cloned()) {
            inboxes.push(reader.cloned());
        }
        let mut letters = Vec::new();
        for to in inboxes {
            let query = MailQuery {
                org: op.principal.org.clone(),
                to,
                unread_only: false,
                before: None,
                limit: LETTERS_MAX,
            };
            letters.extend(self.parts.store.mails(query).await?);
        }
        letters.retain(|seen| seen.mail.is_between(reader) && is_letter_of(&seen.mail, attempts));
        letters.sort_by_key(|seen| std::cmp::Reverse(seen.mail.created_at));
        Ok(letters)
    }
}
