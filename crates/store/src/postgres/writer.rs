//! The one task of a process that writes. It takes up to 64 queued commands, decides them in memory and commits
//! once. Other processes do the same concurrently: row locks keep them apart, the log's lock orders their commits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::event::LoggedEvent;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::watch::is_unwatched;
use tokio::sync::{mpsc, oneshot};

use crate::judge::judge;
use crate::postgres::batch::Batch;
use crate::postgres::connections::{STATEMENTS, late, within};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::{Shared, fetch, keep, lookups, orgs};
use crate::{Applied, ApplyError, Op, StoreError, journal, tally};

const BATCH_MAX: usize = 64;
/// How often work is tried that conflicts with another process.
const TRIES_MAX: usize = 6;
/// How often a lost connection is replaced before the caller is told.
const LINES_MAX: usize = 3;

/// How long a batch may take; longer than any wait for a lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long everything around a batch may take.
const AROUND: Duration = Duration::from_secs(15);

type Verdict = Result<Applied, ApplyError>;

pub(crate) struct WriteRequest {
    pub op: Op,
    pub reply: oneshot::Sender<Verdict>,
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
}

pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    line: Option<Line>,
    begin: String,
}

impl Writer {
    pub fn new(shared: Arc<Shared>) -> Self {
        let begin = shared.connections.begin("BEGIN");
        Self { shared, line: None, begin }
    }

    pub async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<WriteRequest>) {
        let mut kept = None;
        loop {
            let next = match kept.take() {
                Some(request) => Some(request),
                None => inbox.recv().await,
            };
            let Some(first) = next else { return };
            let mut requests = vec![first];
            while requests.len() < BATCH_MAX && !goes_alone(&requests[0]) {
                match inbox.try_recv() {
                    Ok(request) if goes_alone(&request) => {
                        kept = Some(request);
                        break;
                    }
                    Ok(request) => requests.push(request),
                    Err(_) => break,
                }
            }
            self.batch(requests).await;
        }
    }

    async fn batch(&mut self, requests: Vec<WriteRequest>) {
        let ops: Vec<&Op> = requests.iter().map(|request| &request.op).collect();
        match self.persist(&ops).await {
            Ok(done) => self.answer(requests, done),
            // One command of the batch failed it; tried alone, each gets its own answer.
            Err(Failed::Before(trouble)) if requests.len() > 1 && !trouble.is_lost() => {
                tracing::debug!(?trouble, "a batch is tried one by one");
                for request in requests {
                    match self.persist(&[&request.op]).await {
                        Ok(done) => self.answer(vec![request], done),
                        Err(failed) => refuse(vec![request], failed),
                    }
                }
            }
            Err(failed) => refuse(requests, failed),
        }
    }

    fn answer(&self, requests: Vec<WriteRequest>, done: Done) {
        tally::committed(requests.len(), &done.events);
        journal::committed(&done.events);
        for (request, verdict) in requests.into_iter().zip(done.verdicts) {
            // A caller that went away does not need its answer.
            let _ = request.reply.send(verdict);
        }
        if !self.shared.feed.hand_over(&done.events) {
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
        result
    }

    async fn connect(&self) -> Result<Line, Trouble> {
        let db = self.shared.connections.get().await?;
        db.batch_execute(&self.begin).await?;
        let load = lookups::Statements::prepare(&db).await?;
        let keep = keep::Statements::prepare(&db).await?;
        // Nothing was written, and the prepared statements stay.
        db.batch_execute("ROLLBACK").await?;
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
            return Ok(Done { verdicts, events: Vec::new() });
        }
        let events = keep::batch(db, keep, batch, &self.shared.channel).await;
        let events = events.map_err(|trouble| {
            if trouble.is_lost() { Failed::Unknown(trouble) } else { Failed::Before(trouble) }
        })?;
        let before = events.first().map_or(0, |event| event.seq - 1);
        for applied in verdicts.iter_mut().flatten() {
            applied.last_seq = applied.last_seq.map(|place| before + place);
        }
        Ok(Done { verdicts, events })
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

/// Whether a command needs a batch of its own.
fn goes_alone(request: &WriteRequest) -> bool {
    request.op.command.needs(&request.op.actor).is_wide()
}

fn refuse(requests: Vec<WriteRequest>, failed: Failed) {
    let error = match failed {
        Failed::Before(trouble) if trouble.is_unstorable_text() => {
            let words = "text cannot hold the character U+0000; leave it out";
            for request in requests {
                let _ = request.reply.send(Err(ApplyError::Refused(Refusal::invalid(words))));
            }
            return;
        }
        Failed::Before(trouble) => StoreError::from(trouble),
        Failed::Unknown(trouble) => {
            tracing::warn!(?trouble, "the connection broke during a commit");
            StoreError::Unavailable(
                "the connection to PostgreSQL broke during the commit, so the change may or may \
                 not be there; look, or repeat the call with the same idempotency key"
                    .into(),
            )
        }
    };
    for request in requests {
        let _ = request.reply.send(Err(error.clone().into()));
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
