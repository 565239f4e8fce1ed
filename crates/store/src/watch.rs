//! The knowledge of one process about the watch over the leases. The rule is `callboard_domain::task::watch`.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use callboard_domain::task::watch::Watcher;
use callboard_domain::time::Timestamp;

use crate::clock::Clock;

#[derive(Default)]
pub(crate) struct Watch {
    /// When this process last judged the leases, by a tick or by an ordinary write. A write counts
    /// only here: in the store it would hide the interruption from a process that did not judge.
    judged_at: AtomicI64,
    /// Whether this process ticks.
    stays: AtomicBool,
}

impl Watch {
    /// Records that the leases were judged at `now`, and that the result is in the store.
    pub fn judged(&self, now: Timestamp) {
        self.judged_at.fetch_max(now.0, Ordering::SeqCst);
    }

    pub fn stays(&self) {
        self.stays.store(true, Ordering::SeqCst);
    }

    pub fn watcher(&self) -> Watcher {
        if self.stays.load(Ordering::SeqCst) { Watcher::Stays } else { Watcher::Passes }
    }

    /// The last moment at which a process is known to have watched. `ticked_at` is the time in the store, 0 when it
    /// has none.
    pub fn seen_at(&self, ticked_at: i64, clock: Option<&dyn Clock>) -> Timestamp {
        let judged_at = self.judged_at.load(Ordering::SeqCst);
        let in_clock = clock.and_then(Clock::ticked_at).unwrap_or_default();
        Timestamp(ticked_at.max(judged_at)).max(in_clock)
    }
}
