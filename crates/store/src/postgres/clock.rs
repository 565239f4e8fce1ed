//! The database's clock, as seen from here. Between round trips the machine's steady clock carries
//! it on; it never goes back, and never below the newest time in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use callboard_domain::time::Timestamp;

use crate::clock::Clock;

/// The server's time in microseconds, as SQL.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(super) struct SharedClock {
    /// A test's clock stands in for the database's.
    stand_in: Option<Arc<dyn Clock>>,
    opened: Instant,
    /// The database's time minus the steady clock's, in microseconds.
    offset: AtomicI64,
    /// The newest time known to be in the store or already given out.
    newest: AtomicI64,
}

impl SharedClock {
    pub fn new(stand_in: Option<Arc<dyn Clock>>) -> Self {
        Self {
            stand_in,
            opened: Instant::now(),
            offset: AtomicI64::new(0),
            newest: AtomicI64::new(0),
        }
    }

    fn steady(&self) -> i64 {
        self.opened.elapsed().as_micros() as i64
    }

    /// Takes in what a round trip said: the server's time, and the newest time in the store. The
    /// answer is the time of whatever happens next.
    pub fn learn(&self, server: i64, in_store: i64) -> Timestamp {
        self.offset.store(server - self.steady(), Ordering::SeqCst);
        let read = self.stand_in.as_ref().map_or(server, |clock| clock.now().0);
        self.at_least(read.max(in_store))
    }

    pub fn now(&self) -> Timestamp {
        let read = match &self.stand_in {
            Some(clock) => clock.now().0,
            None => self.steady() + self.offset.load(Ordering::SeqCst),
        };
        self.at_least(read)
    }

    fn at_least(&self, read: i64) -> Timestamp {
        let newest = self.newest.fetch_max(read, Ordering::SeqCst);
        Timestamp(read.max(newest))
    }
}
