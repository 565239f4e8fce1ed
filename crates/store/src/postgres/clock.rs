//! The database's clock, as seen from here. Between round trips the machine's steady clock carries the database's
//! time on. The time never goes back and never falls below the newest time in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use callboard_domain::time::Timestamp;

use crate::clock::{Clock, Floor, SystemClock};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::log::END;

/// The server's time in microseconds, as SQL.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(crate) struct SharedClock {
    /// A test's clock, which replaces the database's.
    stand_in: Option<Arc<dyn Clock>>,
    /// The database's time minus the steady clock's, in microseconds.
    offset: AtomicI64,
    /// The newest time known to be in the store or already given out.
    floor: Floor,
}

impl SharedClock {
    pub fn new(stand_in: Option<Arc<dyn Clock>>) -> Self {
        Self { stand_in, offset: AtomicI64::new(0), floor: Floor::default() }
    }

    fn steady(&self) -> i64 {
        match &self.stand_in {
            Some(clock) => clock.steady_us(),
            None => SystemClock.steady_us(),
        }
    }

    /// Takes the server's time and the newest time in the store from a round trip. Returns the time of the next
    /// change.
    pub fn learn(&self, server: i64, in_store: i64) -> Timestamp {
        self.offset.store(server - self.steady(), Ordering::SeqCst);
        self.floor.raise(in_store, self.steady());
        self.now()
    }

    pub fn now(&self) -> Timestamp {
        let steady = self.steady();
        let read = match &self.stand_in {
            Some(clock) => clock.now(),
            None => Timestamp(steady + self.offset.load(Ordering::SeqCst)),
        };
        let now = self.floor.now(read, steady);
        self.floor.raise(now.0, steady);
        now
    }

    pub fn stand_in(&self) -> Option<&dyn Clock> {
        self.stand_in.as_deref()
    }
}

/// The time a read is judged at, fresh from the database.
pub(crate) async fn now(db: &Db, clock: &SharedClock) -> Result<Timestamp, Trouble> {
    let sql = format!("SELECT {NOW}, p.last_at FROM ({END}) p");
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[]).await?;
    Ok(clock.learn(row.try_get(0)?, row.try_get(1)?))
}
