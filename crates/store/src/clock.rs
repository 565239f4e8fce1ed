//! The door through which a store learns the time. Tests put their own clock in it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use callboard_domain::time::Timestamp;

pub trait Clock: Send + Sync {
    /// The wall clock. A person or a time server can set it, forwards and back.
    fn now(&self) -> Timestamp;
    /// The steady clock in microseconds. Only differences mean something, and they never shrink.
    fn steady_us(&self) -> i64;
    /// When this clock itself last counted as watched; `None` for a machine's clock.
    fn ticked_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The clocks of the machine. Both stores use it; PostgreSQL's time comes from the server.
pub struct SystemClock;

/// `Instant` cannot be stored as a number, so the steady clock counts from here.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 0; the floor then carries time on from the newest row.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(since.as_micros() as i64)
    }

    fn steady_us(&self) -> i64 {
        STARTED.elapsed().as_micros() as i64
    }
}

/// A clock that moves only when a test moves it.
pub struct ManualClock {
    wall: AtomicI64,
    steady: AtomicI64,
    /// The wall time up to which a process counts as having watched the leases.
    ticked: AtomicI64,
}

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        Self {
            wall: AtomicI64::new(start.0),
            steady: AtomicI64::new(0),
            ticked: AtomicI64::new(start.0),
        }
    }

    /// Time passes while a process watches the leases. A negative number sets the wall clock back.
    pub fn advance_ms(&self, ms: i64) {
        let wall = self.wall.fetch_add(ms * 1000, Ordering::SeqCst) + ms * 1000;
        self.steady.fetch_add(ms.max(0) * 1000, Ordering::SeqCst);
        self.ticked.store(wall, Ordering::SeqCst);
    }

    /// The machine sleeps: the wall clock goes on, the steady clock stands, and no process watches.
    pub fn sleep_ms(&self, ms: i64) {
        self.wall.fetch_add(ms * 1000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::SeqCst))
    }

    fn steady_us(&self) -> i64 {
        self.steady.load(Ordering::SeqCst)
    }

    fn ticked_at(&self) -> Option<Timestamp> {
        Some(Timestamp(self.ticked.load(Ordering::SeqCst)))
    }
}

/// The newest time known to be in the store. The store's time never falls below it: while the wall
/// clock reads less, time goes on from there by the steady clock. A floor that stood still would
/// stop every lease and every retry until the wall clock caught up, for a day if one write came
/// from a clock that was a day ahead.
#[derive(Default)]
pub(crate) struct Floor(Mutex<Anchor>);

#[derive(Clone, Copy, Default)]
struct Anchor {
    at: i64,
    /// What the steady clock read when `at` became known.
    steady: i64,
}

impl Anchor {
    /// The anchor's time, moved on by what the steady clock has counted since.
    fn carried(self, steady: i64) -> i64 {
        self.at.saturating_add((steady - self.steady).max(0))
    }
}

impl Floor {
    pub fn now(&self, wall: Timestamp, steady: i64) -> Timestamp {
        Timestamp(wall.0.max(self.anchor().carried(steady)))
    }

    /// Raises the floor to a time that is in the store.
    pub fn raise(&self, newest: i64, steady: i64) {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An older time would set the floor back.
        if newest > anchor.carried(steady) {
            *anchor = Anchor { at: newest, steady };
        }
    }

    fn anchor(&self) -> Anchor {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the wall clock and the steady clock in seconds, a time seen in the store, if any,
    /// and the store's time after that.
    #[test]
    fn below_the_floor_time_goes_on_by_the_steady_clock() {
        const S: i64 = 1_000_000;
        let rows = [
            (100, 0, None, 100, "the wall clock counts"),
            (101, 1, Some(90), 101, "an older time changes nothing"),
            (102, 2, Some(500), 500, "the store is ahead"),
            (103, 3, None, 501, "and goes on from there"),
            (40, 13, None, 511, "whatever the wall clock says"),
            (41, 14, Some(505), 512, "a time that has passed changes nothing"),
            (42, 15, Some(520), 520, "another process was further"),
            (43, 14, None, 520, "the steady clock never counts backwards"),
            (900, 16, None, 900, "the wall clock caught up"),
            (901, 17, Some(900), 901, "and counts again"),
        ];
        let floor = Floor::default();
        for (wall, steady, seen, now, why) in rows {
            if let Some(seen) = seen {
                floor.raise(seen * S, steady * S);
            }
            assert_eq!(floor.now(Timestamp(wall * S), steady * S), Timestamp(now * S), "{why}");
        }
    }
}
