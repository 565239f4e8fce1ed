//! The board's long poll on one task, or on the first of several tasks to move. Events wake it and decide its result,
//! so that a status that came and went is noticed too.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use callboard_domain::decide::same_column;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::TaskRecord;
use callboard_domain::time::Timestamp;
use callboard_store::EventQuery;
use tokio::time::Instant;

use crate::context::{OpContext, Progress};
use crate::task::wait::Watch;
use crate::{Engine, EngineError};

/// How often a wait reports progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
const EVENTS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct CardWait {
    pub task: TaskId,
    /// Only these phases end the wait; empty: any column other than the current one.
    pub goals: Vec<Phase>,
    /// The caller's cursor: the time up to which it has seen the task.
    pub since: Option<Timestamp>,
    pub timeout: Duration,
}

/// How a wait ended, with the task at that time.
#[derive(Clone, Debug)]
pub struct CardWaited {
    pub why: WaitEnd,
    /// The phase of the task when the wait began, or at the caller's cursor.
    pub before: Phase,
    /// `None` when the task was removed.
    pub task: Option<Box<TaskRecord>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    Changed(Timestamp),
    AlreadyThere,
    ChangedSince,
    TimedOut,
    Interrupted,
    Removed(Timestamp),
}

/// Counts a wait while it lasts.
struct CountedWait<'a>(&'a AtomicUsize);

impl<'a> CountedWait<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine {
    /// How many board waits of this process are under way.
    pub fn card_waits(&self) -> usize {
        self.card_waits.load(Ordering::SeqCst)
    }

    /// Waits for the first of several waits to end; returns its index.
    pub async fn card_wait_any(
        &self,
        op: &OpContext,
        waits: &[CardWait],
    ) -> Result<(usize, CardWaited), EngineError> {
        // One wait reports progress for all: they take equally long.
        let quiet = OpContext { progress: Progress::default(), ..op.clone() };
        let company = |place: usize| if place == 0 { op } else { &quiet };
        let wait = |(place, wait)| Box::pin(self.card_wait(company(place), wait));
        let mut all: Vec<_> = waits.iter().enumerate().map(wait).collect();
        poll_fn(|context| {
            for (place, one) in all.iter_mut().enumerate() {
                if let Poll::Ready(ended) = one.as_mut().poll(context) {
                    return Poll::Ready(ended.map(|ended| (place, ended)));
                }
            }
            Poll::Pending
        })
        .await
    }

    pub async fn card_wait(
        &self,
        op: &OpContext,
        wait: &CardWait,
    ) -> Result<CardWaited, EngineError> {
        let began = Instant::now();
        let watch = self.task_watch(wait.task).await?;
        let seen = self.last_seq().await?;
        let start = match self.task_get(op, wait.task).await {
            Ok(start) => Box::new(start.it),
            Err(EngineError::Refused(refusal @ Refusal::TaskNotFound { .. })) => {
                return self.removed_since(op, wait).await?.ok_or_else(|| refusal.into());
            }
            Err(error) => return Err(error),
        };
        let before = start.task.phase;
        if wait.goals.contains(&before) {
            return Ok(CardWaited { why: WaitEnd::AlreadyThere, before, task: Some(start) });
        }
        if let Some(since) = wait.since.filter(|_| wait.goals.is_empty())
            && start.task.updated_at > since
        {
            let before = self.phase_at(op, &start, since).await?;
            return Ok(CardWaited { why: WaitEnd::ChangedSince, before, task: Some(start) });
        }
        let why = self.wait_for_change(op, wait, &watch, &start, seen, began).await?;
        let task = match why {
            WaitEnd::Removed(_) => None,
            WaitEnd::Changed(_) => {
                self.task_get(op, wait.task).await.ok().map(|at| Box::new(at.it))
            }
            WaitEnd::AlreadyThere
            | WaitEnd::ChangedSince
            | WaitEnd::TimedOut
            | WaitEnd::Interrupted => {
                let now = self.task_get(op, wait.task).await;
                Some(now.map_or(start, |at| Box::new(at.it)))
            }
        };
        Ok(CardWaited { why, before, task })
    }

    async fn wait_for_change(
        &self,
        op: &OpContext,
        wait: &CardWait,
        watch: &Watch,
        start: &TaskRecord,
        mut seen: u64,
        began: Instant,
    ) -> Result<WaitEnd, EngineError> {
        let _counted = CountedWait::among(&self.card_waits);
        let total = wait.timeout.as_secs_f64();
        let deadline = began + wait.timeout;
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        loop {
            tokio::select! {
                biased;
                () = op.cancel.cancelled() => return Ok(WaitEnd::Interrupted),
                () = op.closing.cancelled() => return Ok(WaitEnd::Interrupted),
                () = watch.changed() => self.waits.look_again(),
                () = tokio::time::sleep_until(deadline) => return Ok(WaitEnd::TimedOut),
                _ = tick.tick() => {
                    op.progress.report(began.elapsed().as_secs_f64(), Some(total), "waiting");
                    continue;
                }
            }
            for event in self.events_of(op, wait.task, seen).await? {
                seen = event.seq;
                if event.name == EventName::TaskDeleted {
                    return Ok(WaitEnd::Removed(event.at));
                }
                let Some((phase, moment)) = moved(&event) else { continue };
                let news = moment > start.task.updated_at;
                let ends = match wait.goals.as_slice() {
                    [] => !same_column(phase, start.task.phase),
                    goals => goals.contains(&phase),
                };
                if news && ends {
                    return Ok(WaitEnd::Changed(event.at));
                }
            }
        }
    }

    async fn events_of(
        &self,
        op: &OpContext,
        task: TaskId,
        after: u64,
    ) -> Result<Vec<LoggedEvent>, EngineError> {
        let org = Some(op.principal.org.clone());
        let query = EventQuery { org, after, task: Some(task), limit: EVENTS_MAX };
        Ok(self.parts.store.events(query).await?)
    }

    /// The result for a caller that knew the task: its removal since the cursor ends the wait.
    async fn removed_since(
        &self,
        op: &OpContext,
        wait: &CardWait,
    ) -> Result<Option<CardWaited>, EngineError> {
        let Some(since) = wait.since else { return Ok(None) };
        let removed = self.parts.store.removed(&op.principal.org, wait.task).await?;
        let removed = removed.filter(|removed| removed.at > since);
        let ended = removed.map(|removed| CardWaited {
            why: WaitEnd::Removed(removed.at),
            before: removed.phase,
            task: None,
        });
        Ok(ended)
    }

    /// The phase of a task at a moment, by the log.
    async fn phase_at(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        since: Timestamp,
    ) -> Result<Phase, EngineError> {
        let events = self.events_of(op, record.task.id, 0).await?;
        let moves = events.iter().filter_map(moved);
        let last = moves.take_while(|(_, moment)| *moment <= since).last();
        Ok(last.map_or(Phase::Initial, |(phase, _)| phase))
    }
}

/// The phase to which an event moved its task, and the time of that move.
fn moved(event: &LoggedEvent) -> Option<(Phase, Timestamp)> {
    if event.name != EventName::TaskStatusChanged {
        return None;
    }
    let data = event.read();
    Some((data.phase()?, data.moved_at().unwrap_or(event.at)))
}
