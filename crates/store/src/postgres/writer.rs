//! The one task of a process that writes. It takes up to 64 queued commands, decides them in memory and commits
//! once. Commands that were given together are split only when one of them is wide or when their batch fails. Other
//! processes do the same concurrently: row locks keep them apart, and `log.rs` numbers their events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_domain::event::LoggedEvent;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::watch::is_unwatched;
use tokio::sync::mpsc;

use crate::judge::judge;
use crate::postgres::batch::Batch;
use crate::postgres::connections::{STATEMENTS, late, within};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::keep::{BatchKept, Numbering};
use crate::postgres::log::CROWDED;
use crate::postgres::{Shared, fetch, keep, lookups, orgs};
use crate::replies::{Caller, Callers, Verdict};
use crate::{ApplyError, Op, StoreError, journal, tally};

const BATCH_MAX: usize = 64;
/// How often work is tried that conflicts with another process.
const TRIES_MAX: usize = 6;
/// How often a lost connection is replaced before the caller is told.
const LINES_MAX: usize = 3;

/// How long a batch may take; longer than any wait for a lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long everything around a batch may take.
const AROUND: Duration = Duration::from_secs(15);

pub(crate) struct WriteRequest {
    pub ops: Vec<Op>,
    pub caller: Caller,
}

/// A connection with its prepared statements.
struct Line {
    db: Db,
    load: lookups::Statements,
    keep: keep::Statements,
}

/// Why a batch failed.
enum Failed {
    /// Nothing was written.
    Before(Trouble),
    /// The connection broke after the commit was sent.
    Unknown(Trouble),
}

impl<T: Into<Trouble>> From<T> for Failed {
    fn from(trouble: T) -> Self {
        Self::Before(trouble.into())
    }
}

struct Done {
    verdicts: Vec<Verdict>,
    events: Vec<LoggedEvent>,
    /// Whether the events still need their numbers.
    is_parked: bool,
    /// Whether the batch found the log's lock taken.
    has_missed: bool,
}

pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    line: Option<Line>,
    begin: String,
    /// Until when batches park their events, because another process had the log's lock.
    crowded_until: Option<Instant>,
}

impl Writer {
    pub fn new(shared: Arc<Shared>) -> Self {
        let begin = shared.connections.begin("BEGIN");
        Self { shared, line: None, begin, crowded_until: None }
    }

    pub async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<WriteRequest>) {
        let mut kept = None;
        loop {
            let next = match kept.take() {
                Some(request) => Some(request),
                None => inbox.recv().await,
            };
            let Some(first) = next else { return };
            let (mut commands, alone) = (first.ops.len(), goes_alone(&first));
            let (mut requests, mut is_waited_for) = (vec![first], false);
            while commands < BATCH_MAX && !alone {
                match inbox.try_recv() {
                    Ok(request) if goes_alone(&request) => {
                        kept = Some(request);
                        break;
                    }
                    Ok(request) => {
                        commands += request.ops.len();
                        requests.push(request);
                        is_waited_for = false;
                    }
                    // Callers of the batch before were answered just now. Their next commands come with this batch
                    // when they get a turn first.
                    Err(_) if !is_waited_for => {
                        is_waited_for = true;
                        tokio::task::yield_now().await;
                    }
                    Err(_) => break,
                }
            }
            self.batch(requests).await;
        }
    }

    async fn batch(&mut self, requests: Vec<WriteRequest>) {
        let mut callers = Callers::default();
        let mut ops: Vec<Op> = Vec::new();
        for WriteRequest { ops: more, caller } in requests {
            callers.push(caller, more.len());
            ops.extend(more);
        }
        let all: Vec<&Op> = ops.iter().collect();
        // A desk has room for the rows of one wide command, so the commands that came with it are done apart.
        if all.len() > 1 && ops.iter().any(is_wide) {
            callers.answer(self.one_by_one(&all).await);
            return;
        }
        match self.persist(&all).await {
            Ok(Done { verdicts, events, is_parked, .. }) => {
                count(all.len(), &events);
                callers.answer(verdicts);
                self.publish(&events, is_parked);
            }
            // One command of the batch failed it; tried alone, each gets its own answer.
            Err(Failed::Before(trouble)) if all.len() > 1 && !trouble.is_lost() => {
                tracing::debug!(?trouble, "a batch is tried one by one");
                callers.answer(self.one_by_one(&all).await);
            }
            Err(failed) => {
                let fault = failed.fault();
                callers.answer(all.iter().map(|_| Err(fault.answer())));
            }
        }
    }

    async fn one_by_one(&mut self, ops: &[&Op]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(ops.len());
        for op in ops {
            match self.persist(&[op]).await {
                Ok(done) => {
                    count(1, &done.events);
                    verdicts.extend(done.verdicts);
                    self.publish(&done.events, done.is_parked);
                }
                Err(failed) => verdicts.push(Err(failed.fault().answer())),
            }
        }
        verdicts
    }

    /// Wakes the waiters of these events, or the task that numbers them first.
    fn publish(&self, events: &[LoggedEvent], is_parked: bool) {
        if is_parked {
            self.shared.sequencer.left_behind.notify_one();
        } else if !self.shared.feed.hand_over(events) {
            self.shared.bell.ring.notify_one();
        }
    }

    /// Retries a batch that may succeed then: nothing was written, according to the server.
    async fn persist(&mut self, ops: &[&Op]) -> Result<Done, Failed> {
        let (mut tries, mut lines) = (1, 1);
        loop {
            let failed = match self.once(ops).await {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            match &failed {
                Failed::Before(trouble) if trouble.is_lost() && lines < LINES_MAX => lines += 1,
                Failed::Before(trouble)
                    if trouble.is_conflict() && ops.len() == 1 && tries < TRIES_MAX =>
                {
                    tries += 1;
                }
                Failed::Before(_) | Failed::Unknown(_) => return Err(failed),
            }
        }
    }

    async fn once(&mut self, ops: &[&Op]) -> Result<Done, Failed> {
        let line = match self.line.take().filter(|line| !line.db.is_closed()) {
            Some(line) => line,
            None => within(AROUND, self.connect()).await?,
        };
        let result = match tokio::time::timeout(PATIENCE, self.transact(&line, ops)).await {
            Ok(result) => result,
            Err(_) => Err(Failed::Unknown(late())),
        };
        let keep = match &result {
            Ok(_) => true,
            Err(Failed::Before(trouble)) if !trouble.is_lost() => {
                let rollback = async { Ok(line.db.batch_execute("ROLLBACK").await?) };
                within(AROUND, rollback).await.is_ok()
            }
            Err(Failed::Before(_) | Failed::Unknown(_)) => false,
        };
        if keep {
            self.line = Some(line);
        }
        if matches!(&result, Ok(done) if done.has_missed) {
            self.crowded_until = Some(Instant::now() + CROWDED);
        }
        result
    }

    async fn connect(&self) -> Result<Line, Trouble> {
        let db = self.shared.connections.get().await?;
        db.batch_execute(&self.begin).await?;
        let load = lookups::Statements::prepare(&db).await?;
        let keep = keep::Statements::prepare(&db).await?;
        // Nothing was written, and the prepared statements stay.
        db.batch_execute("ROLLBACK").await?;
        if !db.is_pooled() {
            // The writer keeps this connection until it is closed.
            db.batch_execute(&lookups::settings_of_connection()).await?;
        }
        Ok(Line { db, load, keep })
    }

    async fn transact(&self, line: &Line, ops: &[&Op]) -> Result<Done, Failed> {
        let Line { db, load, keep } = line;
        let mut orgs = Vec::with_capacity(ops.len());
        for op in ops {
            orgs.push(self.org(&op.org).await?);
        }
        let known = orgs.iter().zip(ops);
        let known: Vec<(i64, &Op)> =
            known.filter_map(|(org, op)| org.map(|org| (org, *op))).collect();
        let mut batch = fetch::batch(db, &self.begin, load, &self.shared.clock, &known).await?;
        if self.is_unwatched(&batch) {
            // Holders that had no way to keep their leases get grace before any command is decided. That locks
            // other rows than these, so it needs a transaction of its own.
            db.batch_execute("ROLLBACK").await?;
            self.shared.judge_leases().await?;
            batch = fetch::batch(db, &self.begin, load, &self.shared.clock, &known).await?;
        }
        if self.is_unwatched(&batch) {
            let words = "the machine slept while the call was under way; try again";
            return Err(StoreError::Unavailable(words.into()).into());
        }
        self.shared.watch.judged(batch.now);
        let mut verdicts = Vec::with_capacity(ops.len());
        for (org, op) in orgs.iter().zip(ops) {
            verdicts.push(match org {
                Some(org) => decide(&mut batch, *org, op)?,
                None => Err(orgs::unknown(&op.org).into()),
            });
        }
        if batch.is_unchanged() {
            db.batch_execute("COMMIT").await?;
            let events = Vec::new();
            return Ok(Done { verdicts, events, is_parked: false, has_missed: false });
        }
        let how = match ops.iter().any(|op| op.command.needs(&op.actor).number) {
            true => Numbering::Waits,
            false if self.crowded_until.is_some_and(|until| Instant::now() < until) => {
                Numbering::Parks
            }
            false => Numbering::Tries,
        };
        let kept = keep::batch(db, keep, batch, (how, &self.shared.channel)).await;
        let BatchKept { events, before, is_parked } = kept.map_err(|trouble| {
            if trouble.is_lost() { Failed::Unknown(trouble) } else { Failed::Before(trouble) }
        })?;
        for applied in verdicts.iter_mut().flatten() {
            let place = applied.last_seq.filter(|_| !events.is_empty());
            applied.last_seq = before.zip(place).map(|(before, place)| before + place);
        }
        let has_missed = is_parked && how == Numbering::Tries;
        Ok(Done { verdicts, events, is_parked, has_missed })
    }

    fn is_unwatched(&self, batch: &Batch) -> bool {
        is_unwatched(self.shared.seen_at(batch.ticked_at), batch.now)
    }

    /// Looks up the org on another connection: the batch's own transaction sends everything at once.
    async fn org(&self, name: &str) -> Result<Option<i64>, Trouble> {
        let orgs = &self.shared.orgs;
        match orgs.learned(name) {
            Some(id) => Ok(Some(id)),
            None => {
                let find = |db: Arc<Db>| async move { orgs.find(&db, name).await };
                self.shared.connections.run(&STATEMENTS, find).await
            }
        }
    }
}

/// Whether commands need a batch of their own.
fn goes_alone(request: &WriteRequest) -> bool {
    request.ops.iter().any(is_wide)
}

fn is_wide(op: &Op) -> bool {
    op.command.needs(&op.actor).is_wide()
}

/// Counts one commit.
fn count(commands: usize, events: &[LoggedEvent]) {
    tally::committed(commands, events);
    journal::committed(events);
}

/// The answer to every command of a failed batch.
enum BatchFault {
    Text,
    Store(StoreError),
}

impl BatchFault {
    fn answer(&self) -> ApplyError {
        match self {
            Self::Text => {
                let words = "text cannot hold the character U+0000; leave it out";
                ApplyError::Refused(Refusal::invalid(words))
            }
            Self::Store(error) => error.clone().into(),
        }
    }
}

impl Failed {
    fn fault(self) -> BatchFault {
        match self {
            Self::Before(trouble) if trouble.is_unstorable_text() => BatchFault::Text,
            Self::Before(trouble) => BatchFault::Store(trouble.into()),
            Self::Unknown(trouble) => {
                tracing::warn!(?trouble, "the connection broke during a commit");
                BatchFault::Store(StoreError::Unavailable(
                    "the connection to PostgreSQL broke during the commit, so the change may or may \
                     not be there; look, or repeat the call with the same idempotency key"
                        .into(),
                ))
            }
        }
    }
}

/// Decides one command. The outer error stops the batch; the inner one is this command's answer.
fn decide(batch: &mut Batch, org: i64, op: &Op) -> Result<Verdict, StoreError> {
    match batch.replayed(org, op) {
        Ok(None) => {}
        Ok(Some(applied)) => return Ok(Ok(applied)),
        Err(refusal) => return Ok(Err(ApplyError::Refused(refusal))),
    }
    let desk = batch.desk(org);
    match catch_unwind(AssertUnwindSafe(|| judge(desk, op))) {
        Ok(Ok(judged)) => batch.carry_out(org, op, judged).map(Ok),
        Ok(Err(refusal)) => Ok(Err(ApplyError::Refused(refusal))),
        Err(_) => {
            let words = format!("a bug stopped {}; nothing was written", op.tool);
            Ok(Err(StoreError::Internal(words).into()))
        }
    }
}
