//! The one thread of a process that writes. It takes up to 64 queued commands and commits once: many durable writes for
//! one flush of the disk. Commands that were given together are never split.
//!
//! A command is judged before it writes, so its writes fail only by a bug or by a broken disk. The batch is then rolled
//! back and done again with a savepoint for each command, and only the failing command is answered with the fault. A
//! savepoint for every command would cost 7 % of a claim (docs/decisions/0032-a-savepoint-only-after-a-failed-write.md).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use callboard_domain::desk::Desk;
use callboard_domain::event::{Event, LoggedEvent};
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::judge::judge;
use crate::migrations::refuse_newer;
use crate::replies::{Caller, Callers, Verdict};
use crate::retries::{Row, earlier};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::keep::Fetched;
use crate::sqlite::runs::counts::Counts;
use crate::sqlite::{Shared, fetch, keep, read, retries, schema, tick};
use crate::{Applied, ApplyError, Op, StoreError, journal, tally};

const BATCH_MAX: usize = 64;

pub(crate) enum WriteRequest {
    Apply(Vec<Op>, Caller),
    /// Rare work that needs the writer's connection and its turn.
    Run(Work),
}

/// Gets the connection, or the reason why there is no turn.
pub(crate) type Work = Box<dyn FnOnce(Result<&mut Connection, StoreError>) + Send>;

pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    pub db: Connection,
}

impl Writer {
    pub fn run(mut self, inbox: &Receiver<WriteRequest>) {
        while let Ok(job) = inbox.recv() {
            match job {
                WriteRequest::Apply(ops, caller) => self.batch(ops, caller, inbox),
                WriteRequest::Run(work) => self.run_alone(work),
            }
        }
    }

    fn run_alone(&mut self, work: Work) {
        match self.shared.turnstile.enter() {
            Ok(_turn) => work(Ok(&mut self.db)),
            Err(error) => work(Err(no_turn(&error))),
        }
    }

    fn batch(&mut self, first: Vec<Op>, caller: Caller, inbox: &Receiver<WriteRequest>) {
        let mut callers = Callers::default();
        callers.push(caller, first.len());
        let mut commands = first.len();
        let mut afterwards = None;
        let shared = self.shared.clone();
        let outcome = shared.turnstile.enter().map_err(|error| no_turn(&error)).and_then(|turn| {
            shared.guard.check()?;
            let mut batch = self.begin()?;
            let mut ops = Vec::with_capacity(BATCH_MAX);
            self.all(&mut batch, &mut ops, first)?;
            while ops.len() < BATCH_MAX {
                match inbox.try_recv() {
                    Ok(WriteRequest::Apply(more, caller)) => {
                        callers.push(caller, more.len());
                        commands += more.len();
                        self.all(&mut batch, &mut ops, more)?;
                    }
                    Ok(WriteRequest::Run(work)) => {
                        afterwards = Some(work);
                        break;
                    }
                    Err(_) => break,
                }
            }
            self.commit()?;
            // The file may be gone since the first look, and this commit with it. The caller must not be told of
            // success then.
            shared.guard.check()?;
            if let Some(last) = batch.events.last() {
                shared.bell.ring(last.seq);
            }
            drop(turn);
            Ok(batch)
        });
        match outcome {
            Ok(batch) => {
                if !batch.events.is_empty() {
                    shared.has_seen(batch.now.0);
                }
                shared.watch.judged(batch.now);
                tally::committed(commands, &batch.events);
                journal::committed(&batch.events);
                callers.answer(batch.verdicts);
                self.publish(&batch.events);
            }
            Err(error) => callers.refuse(&error),
        }
        if let Some(work) = afterwards {
            self.run_alone(work);
        }
    }

    fn begin(&mut self) -> Result<Batch, StoreError> {
        let begun = self.db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([]));
        begun.map_err(from_sqlite)?;
        self.look_around().inspect_err(|_| self.rollback())
    }

    /// Reads what another process may have changed since the last batch: the schema, the end of the log, the watch
    /// over the leases. Holders that had no way to keep their leases get grace before any command is decided, so
    /// that no command of the batch can take their tasks.
    fn look_around(&self) -> Result<Batch, StoreError> {
        let version = schema::version(&self.db).map_err(from_sqlite)?;
        refuse_newer(version)?;
        let newest = self
            .db
            .prepare_cached("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1")
            .and_then(|mut s| {
                s.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()
            })
            .map_err(from_sqlite)?;
        let (last_seq, last_at) = newest.unwrap_or((0, 0));
        let ticked_at = tick::ticked_at(&self.db).map_err(from_sqlite)?;
        self.shared.has_seen(last_at.max(ticked_at));
        let now = self.shared.now();
        tick::judge(&self.db, &self.shared, ticked_at, now).map_err(from_sqlite)?;
        let (verdicts, events) = (Vec::new(), Vec::new());
        let (has_savepoints, is_torn) = (false, false);
        let (last_seq, counts) = (last_seq as u64, Counts::default());
        Ok(Batch { now, last_seq, verdicts, events, counts, has_savepoints, is_torn })
    }

    fn commit(&self) -> Result<(), StoreError> {
        let committed = self.db.prepare_cached("COMMIT").and_then(|mut s| s.execute([]));
        committed.map(|_| ()).map_err(from_sqlite).inspect_err(|_| self.rollback())
    }

    fn rollback(&self) {
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }

    fn all(
        &mut self,
        batch: &mut Batch,
        ops: &mut Vec<Op>,
        more: Vec<Op>,
    ) -> Result<(), StoreError> {
        for op in more {
            ops.push(op);
            self.one(batch, ops)?;
        }
        Ok(())
    }

    /// Does the last of these commands; the others are done. When its writes fail, all of them are done again, each
    /// behind a savepoint.
    fn one(&mut self, batch: &mut Batch, ops: &[Op]) -> Result<(), StoreError> {
        let Some(op) = ops.last() else { return Ok(()) };
        self.decide_one(batch, op);
        if !batch.is_torn {
            return Ok(());
        }
        if !batch.has_savepoints {
            self.rollback();
            *batch = Batch { has_savepoints: true, ..self.begin()? };
            return ops.iter().try_for_each(|op| self.one(batch, std::slice::from_ref(op)));
        }
        batch.is_torn = false;
        // SQLite ends the whole transaction after some faults, a full disk for example.
        self.db.execute_batch("ROLLBACK TO one; RELEASE one").map_err(from_sqlite).inspect_err(
            |_| {
                self.rollback();
            },
        )
    }

    fn decide_one(&mut self, batch: &mut Batch, op: &Op) {
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge(batch, op)));
        let verdict = judged.unwrap_or_else(|_| {
            let words = format!("a bug stopped {}; nothing was written", op.tool);
            Err(StoreError::Internal(words).into())
        });
        batch.verdicts.push(verdict);
    }

    fn judge(&mut self, batch: &mut Batch, op: &Op) -> Verdict {
        let org = self.shared.org(&self.db, &op.org)?;
        if let Some(applied) = self.replayed(org, op, batch.now)? {
            return Ok(applied);
        }
        let needs = op.command.needs(&op.actor);
        let mut rows = fetch::rows(&self.db, org, &op.actor, &needs).map_err(from_sqlite)?;
        rows.counts = batch.counts.lay_out(&self.db, org, &needs).map_err(from_sqlite)?;
        let mut desk = Desk { now: batch.now, rows, ..Desk::default() };
        let mut judged = judge(&desk, op).map_err(ApplyError::Refused)?;
        let subject = judged.subject.take();
        let (reply, id) = (judged.change.reply, subject.as_ref().map(|task| task.id));
        fetch::for_reply(&self.db, org, reply, id, &mut desk.rows).map_err(from_sqlite)?;
        let others = desk.rows.tasks.iter().filter(|(other, _)| Some(**other) != id);
        let tasks = others.map(|(id, rows)| (*id, rows.task.clone()));
        let fetched = Fetched {
            tasks: tasks.chain(subject.map(|task| (task.id, task))).collect(),
            jobs: desk.rows.jobs.clone(),
            runs: desk.rows.runs.clone(),
        };
        let (mut applied, events) = judged.carry_out(&mut desk)?;
        if !applied.changed {
            self.remember(org, op, &applied).map_err(from_sqlite)?;
            return Ok(applied);
        }
        applied.last_seq = Some(batch.last_seq + events.len() as u64);
        self.keep(org, op, (&desk, &fetched), events, &applied, batch).map_err(from_sqlite)?;
        batch.counts.take_back(org, desk.rows.counts);
        Ok(applied)
    }

    fn keep(
        &self,
        org: i64,
        op: &Op,
        (desk, fetched): (&Desk, &Fetched),
        events: Vec<Event>,
        applied: &Applied,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        if batch.has_savepoints {
            self.db.prepare_cached("SAVEPOINT one")?.execute([])?;
        }
        batch.is_torn = true;
        keep::rows(&self.db, org, desk, fetched)?;
        let mut last_seq = batch.last_seq;
        let events = keep::append_events(&self.db, org, events, batch.now, &mut last_seq)?;
        self.remember(org, op, applied)?;
        if batch.has_savepoints {
            self.db.prepare_cached("RELEASE one")?.execute([])?;
        }
        batch.is_torn = false;
        batch.last_seq = last_seq;
        batch.events.extend(events);
        Ok(())
    }

    /// The first result of a command whose key is known.
    fn replayed(&self, org: i64, op: &Op, now: Timestamp) -> Result<Option<Applied>, ApplyError> {
        let Some(key) = &op.retry_key else { return Ok(None) };
        let (actor, key) = (op.actor.as_str(), key.key());
        let rows = retries::rows(&self.db, org, actor, op.tool, key, now).map_err(from_sqlite)?;
        let Some(kept) = earlier(&rows, op).map_err(ApplyError::Refused)? else { return Ok(None) };
        if let Some(held) = kept.held {
            let judged = retries::judge_held(&self.db, org, op, held, now).map_err(from_sqlite)?;
            judged.map_err(ApplyError::Refused)?;
        }
        kept.again(op.tool).map(Some).map_err(ApplyError::Refused)
    }

    /// Keeps the answer for a retry. A refused command, also one that left a trace, may be given again with its
    /// key, so it is not kept.
    fn remember(&self, org: i64, op: &Op, applied: &Applied) -> rusqlite::Result<()> {
        match Row::of(op, applied).filter(|_| applied.but.is_none()) {
            Some(row) => retries::remember(&self.db, org, op, &row),
            None => Ok(()),
        }
    }

    fn publish(&self, events: &[LoggedEvent]) {
        let read_after = |seen| read::events_after(&self.db, seen);
        if let Err(error) = self.shared.feed.committed(events, read_after) {
            tracing::warn!(%error, "cannot read the event log");
        }
    }
}

fn no_turn(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the locks beside the database cannot be used: {error}"))
}

/// The work of one transaction.
struct Batch {
    now: Timestamp,
    last_seq: u64,
    verdicts: Vec<Verdict>,
    events: Vec<LoggedEvent>,
    counts: Counts,
    /// Each command has a savepoint, because a write of this batch failed without them.
    has_savepoints: bool,
    /// The last command has written a part of its rows.
    is_torn: bool,
}
