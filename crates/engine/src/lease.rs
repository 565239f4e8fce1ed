//! The leases of the jobs that this process runs. One commit renews all that are due or soon will be; each holder hears
//! the answer about its own job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use callboard_domain::command::Command;
use callboard_domain::runs::together::renews_along;
use callboard_store::Outcome;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Engine, EngineError};

type Answer = Result<Outcome, EngineError>;

/// A command with its org.
type Step = (Arc<str>, Command);

/// The leases by a number that each holder has.
#[derive(Default)]
pub(crate) struct Leases {
    next: AtomicU64,
    held: Mutex<BTreeMap<u64, Lease>>,
}

struct Lease {
    org: Arc<str>,
    /// The command that renews it.
    keep: Command,
    every: Duration,
    /// When it was taken or last renewed.
    since: Instant,
    answers: mpsc::UnboundedSender<Answer>,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the lease is to be renewed next.
    fn due_at(&self, number: u64) -> Option<Instant> {
        self.held().get(&number).map(|lease| lease.since + lease.every)
    }

    /// The steps that renew every lease that can be renewed along with one that is due, and the holders that hear of
    /// them.
    fn renewals(&self, now: Instant) -> (Vec<mpsc::UnboundedSender<Answer>>, Vec<Step>) {
        let mut held = self.held();
        let along = held.values_mut().filter(|lease| {
            renews_along(now.duration_since(lease.since).as_millis(), lease.every.as_millis())
        });
        along
            .map(|lease| {
                lease.since = now;
                (lease.answers.clone(), (lease.org.clone(), lease.keep.clone()))
            })
            .unzip()
    }
}

/// A lease that is renewed until this is dropped.
pub(crate) struct HeldLease {
    engine: Weak<Engine>,
    number: u64,
    answers: mpsc::UnboundedReceiver<Answer>,
}

impl HeldLease {
    /// The answer to the next renewal. Whichever lease is due first renews those of all holders, in a task of its own: a
    /// holder that goes away meanwhile takes nothing from the others.
    pub async fn renewed(&mut self) -> Answer {
        loop {
            let due_at = self.engine.upgrade().and_then(|engine| engine.leases.due_at(self.number));
            let Some(due_at) = due_at else { return std::future::pending().await };
            tokio::select! {
                biased;
                Some(answer) = self.answers.recv() => return answer,
                () = tokio::time::sleep_until(due_at) => self.renew_all(),
            }
        }
    }

    fn renew_all(&self) {
        let (Some(engine), now) = (self.engine.upgrade(), Instant::now()) else { return };
        // Another holder may have renewed this lease while it slept.
        if engine.leases.due_at(self.number).is_none_or(|due_at| due_at > now) {
            return;
        }
        let (holders, steps) = engine.leases.renewals(now);
        tokio::spawn(async move {
            let answers = engine.act_all_as_runner(steps).await;
            for (holder, answer) in holders.into_iter().zip(answers) {
                // A holder that went away needs no answer.
                let _ = holder.send(answer);
            }
        });
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.leases.held().remove(&self.number);
        }
    }
}

impl Engine {
    /// Holds a lease: `keep` renews it every `every`, beginning that long after now.
    pub(crate) fn lease_hold(&self, org: &Arc<str>, keep: Command, every: Duration) -> HeldLease {
        let number = self.leases.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = mpsc::unbounded_channel();
        let (org, since) = (org.clone(), Instant::now());
        self.leases.held().insert(number, Lease { org, keep, every, since, answers: sender });
        HeldLease { engine: self.me.clone(), number, answers }
    }
}
