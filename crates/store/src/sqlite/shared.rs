//! The shared parts of an open store: opening and closing it, the writer's turn, the readers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use callboard_domain::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, OpenFlags, StatementStatus};
use tokio::sync::oneshot;

use crate::clock::{Clock, Floor};
use crate::feed::Feed;
use crate::knowledge::vectors::VectorCache;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::writer::{self, Writer};
use crate::sqlite::{Shared, SqliteStore, bell, identity, read, schema, turnstile};
use crate::watch::Watch;
use crate::{Migrated, STATEMENTS, StoreError};

/// Idle read connections kept open.
const READERS_KEPT: usize = 4;
/// SQLite reads a negative size as kibibytes. Memory is allocated only as the cache fills.
const WRITER_CACHE_KIB: i32 = -16_000;

impl SqliteStore {
    /// Opens or creates the database at `path` and migrates an older one. Refuses a file that is no board, and a
    /// path whose board is gone.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_or_make(path, clock, &|_, _| {})
    }

    /// As `open`. `made` is called for a database that this call creates: with the file, which has its inode and
    /// birth time already, and with the path under which other processes find the file right after.
    pub fn open_or_make(
        path: &Path,
        clock: Arc<dyn Clock>,
        made: &dyn Fn(&Path, &Path),
    ) -> Result<Self, StoreError> {
        let path = &identity::real(path);
        let unavailable = |error: std::io::Error| {
            StoreError::Unavailable(format!("cannot open {}: {error}", path.display()))
        };
        let turnstile = turnstile::Turnstile::open(path).map_err(unavailable)?;
        let bell = bell::Bell::open(path).map_err(unavailable)?;
        if !bell.share().map_err(unavailable)? {
            let words = "a backup is being put back as this board; try again when that is done";
            return Err(StoreError::Unavailable(words.into()));
        }
        if identity::look(path).map_err(unavailable)?.is_none() {
            match bell.memory().seq {
                0 => schema::make(path, &turnstile, made)?,
                events => return Err(gone(path, events)),
            }
        }
        let admitted = identity::Admitted::look(path, &bell)?;
        let flags = OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE;
        let mut db = Connection::open_with_flags(path, flags).map_err(from_sqlite)?;
        configure(&db).map_err(from_sqlite)?;
        schema::recognise(&db)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(from_sqlite)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(from_sqlite)?;
        // Savepoints keep a journal for their rollback; in memory it costs next to nothing.
        db.pragma_update(None, "temp_store", "MEMORY").map_err(from_sqlite)?;
        db.pragma_update(None, "cache_size", WRITER_CACHE_KIB).map_err(from_sqlite)?;
        let migrated = schema::migrate(&mut db, path, &turnstile)?;
        let floor = Floor::default();
        floor.raise(read::last_at(&db).map_err(from_sqlite)?, clock.steady_us());
        let guard = identity::Guard::over(path).map_err(unavailable)?;
        if identity::FileId::at(path).map_err(unavailable)? != Some(admitted.0) {
            let words = "the database file was replaced while it was being opened; try again";
            return Err(StoreError::Unavailable(words.into()));
        }
        bell.settle(path, &turnstile, || read::last_seq(&db).map_err(from_sqlite))?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            clock,
            turnstile,
            bell,
            guard,
            feed: Feed::default(),
            floor,
            watch: Watch::default(),
            readers: Mutex::default(),
            orgs: Mutex::default(),
            vectors: VectorCache::default(),
            _admitted: admitted,
        });
        let (inbox, jobs) = mpsc::channel();
        let writer = Writer { shared: shared.clone(), db };
        let writer = std::thread::Builder::new()
            .name("callboard-writer".into())
            .spawn(move || writer.run(&jobs))
            .map_err(unavailable)?;
        Ok(Self { shared, inbox: Some(inbox), writer: Some(writer), migrated })
    }

    /// Whether this call of `open` changed an older schema.
    pub fn migrated(&self) -> Option<&Migrated> {
        self.migrated.as_ref()
    }

    pub(crate) fn send(&self, request: writer::WriteRequest) -> Result<(), StoreError> {
        let gone = || StoreError::Unavailable("the store is closing".into());
        self.inbox.as_ref().ok_or_else(gone)?.send(request).map_err(|_| gone())
    }

    /// Runs rare work on the writer's connection, in its turn.
    pub(crate) async fn on_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let shared = self.shared.clone();
        self.send(writer::WriteRequest::Run(Box::new(move |turn| {
            let done = turn.and_then(|db| {
                shared.guard.check()?;
                let done = work(db)?;
                // The file may be gone by now, and the work with it.
                shared.guard.check()?;
                Ok(done)
            });
            let _ = reply.send(done);
        })))?;
        answer.await.map_err(|_| StoreError::Unavailable("the store is closing".into()))?
    }

    /// Runs a read that may take long on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, Timestamp) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || shared.read(work))
            .await
            .map_err(|error| StoreError::Internal(format!("a read stopped: {error}")))?
    }

    /// As `read`, in an org.
    pub(crate) async fn read_in<T: Send + 'static>(
        &self,
        org: Arc<str>,
        work: impl FnOnce(&Connection, i64, Timestamp) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        self.read(move |db, now| work(db, shared.org(db, &org)?, now)).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to finish.
            let _ = writer.join();
        }
    }
}

impl Shared {
    /// Raises the floor of the clock to a time that is in the store.
    pub(crate) fn has_seen(&self, at: i64) {
        self.floor.raise(at, self.clock.steady_us());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.floor.now(self.clock.now(), self.clock.steady_us())
    }

    pub(crate) fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.path, flags)
            .and_then(|db| configure(&db).map(|()| db))
            .and_then(|db| self.traced(db))
            .map_err(from_sqlite);
        // The guard is asked even when the open failed: it has the better message for a missing file.
        self.guard.check()?;
        opened
    }

    /// Traces the statements of a connection, if its trace is wanted when the connection is opened. `steps` are the
    /// instructions that SQLite's machine took for the statement, which depend on rows and never on the load.
    fn traced(&self, mut db: Connection) -> rusqlite::Result<Connection> {
        if tracing::enabled!(target: STATEMENTS, tracing::Level::TRACE) {
            let file = self.path.clone();
            // A kept statement counts on from run to run, with 32 bits: the count goes on at zero.
            let mut counted: HashMap<String, u32> = HashMap::new();
            let trace = move |event: TraceEvent<'_>| {
                if let TraceEvent::Profile(statement, _) = event {
                    let (sql, all) =
                        (statement.sql(), statement.get_status(StatementStatus::VmStep));
                    let all = all.cast_unsigned();
                    let before = counted.insert(sql.to_string(), all);
                    let steps = steps_since(before, all);
                    tracing::trace!(target: STATEMENTS, file = %file.display(), sql = &*sql, steps);
                }
            };
            db.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(trace))?;
        }
        Ok(db)
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, Timestamp) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let db = self.take_reader()?;
        let answer = work(&db, self.now());
        self.keep_reader(db);
        answer
    }

    /// As `read`, in an org.
    pub(crate) fn read_in<T>(
        &self,
        org: &str,
        work: impl FnOnce(&Connection, i64, Timestamp) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|db, now| work(db, self.org(db, org)?, now))
    }

    /// The number of an org. It never changes, so it is read once.
    pub(crate) fn org(&self, db: &Connection, name: &str) -> Result<i64, StoreError> {
        // A panic while the map was held leaves at worst a missing entry.
        let known = || self.orgs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = known().get(name) {
            return Ok(*id);
        }
        let id = read::org(db, name)?;
        known().insert(name.into(), id);
        Ok(id)
    }

    /// Runs a read by key. It takes microseconds, less than a change of threads would.
    pub(crate) fn look_up<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(|db, _| work(db).map_err(from_sqlite))
    }

    /// A connection for a read. One on a file that is gone would answer with rows that no other process sees any
    /// more.
    fn take_reader(&self) -> Result<Connection, StoreError> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(db) => self.guard.check().map(|()| db),
            None => self.open_reader(),
        }
    }

    fn keep_reader(&self, db: Connection) {
        let mut kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < READERS_KEPT {
            kept.push(db);
        }
    }
}

/// The error for a bell that outlived its database.
fn gone(path: &Path, events: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "the board in {0} has no file any more: {0} is gone, and {0}-bell remembers {events} \
         events of it; put a backup back with callboard restore FILE, or delete {0}-bell to begin \
         a new board",
        path.display()
    ))
}

/// The steps of one run of a statement, by the counts before and after it. The counter of SQLite begins again when the
/// statement is prepared anew, and after 32 bits.
fn steps_since(before: Option<u32>, all: u32) -> u32 {
    const WRAPS_FROM: u32 = 1 << 31;
    match before {
        Some(before) if before <= all || before >= WRAPS_FROM => all.wrapping_sub(before),
        Some(_) | None => all,
    }
}

fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(64);
    // Behind the turnstile no process of ours ever waits here; a foreign program may.
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    // Plans must not depend on bound values: most calls would be planned anew.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "foreign_keys", true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_beyond_31_bits() {
        assert_eq!(steps_since(None, 7), 7);
        assert_eq!(steps_since(None, 3_000_000_000), 3_000_000_000);
        assert_eq!(steps_since(Some(10), 17), 7);
        assert_eq!(steps_since(Some(17), 10), 10, "prepared anew");
        assert_eq!(steps_since(Some(u32::MAX - 1), 5), 7, "over the end");
    }
}
