//! The doorbell: after a commit the writer writes into a file beside the database, and processes in which a call
//! waits read the log at once. A slow poll backs the bell up, for file systems that report no changes.
//!
//! The bell also remembers what the database itself cannot tell: the number of the last committed event, and which
//! files held it. So a log that lost its end is noticed, and a database that was replaced is told from one that was
//! damaged.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::sqlite::identity::{self, beside};
use crate::sqlite::turnstile::Turnstile;
use crate::sqlite::{Shared, read, turnstile};
use crate::{Finding, LOOKS, StoreError};

/// How late a wait may hear of another process, where the file system reports no changes.
const POLL: Duration = Duration::from_secs(1);
/// Numbers that the file holds, 8 bytes each, little-endian.
const WORDS: usize = 7;

pub(crate) struct Bell {
    file: File,
    path: PathBuf,
    /// Set once the watching thread runs.
    watched: OnceLock<()>,
}

/// The content of the bell's file. A file of an older callboard holds the first number only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The last committed event.
    pub seq: u64,
    /// The inode and the birth time of the database that has this event.
    database: u64,
    born: u64,
    /// The inode of that database's write-ahead log; 0 for none.
    pub log: u64,
    /// The bell's own inode. A copy of the whole folder has another one, and then the inodes of the other files
    /// mean nothing.
    bell: u64,
    /// The events after the first number and up to the second were committed and are lost.
    lost: (u64, u64),
}

impl Memory {
    fn from_bytes(bytes: &[u8; WORDS * 8]) -> Self {
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[n * 8..n * 8 + 8]);
            u64::from_le_bytes(word)
        };
        Self {
            seq: word(0),
            database: word(1),
            born: word(2),
            log: word(3),
            bell: word(4),
            lost: (word(5), word(6)),
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        let Self { seq, database, born, log, bell, lost } = self;
        [seq, database, born, log, bell, lost.0, lost.1].map(u64::to_le_bytes).concat()
    }

    pub fn is_database(&self, found: &Metadata) -> bool {
        (self.database, self.born) == (found.ino(), identity::born(found))
    }
}

impl Bell {
    pub fn open(database: &Path) -> io::Result<Self> {
        let file = turnstile::beside(database, "-bell")?;
        Ok(Self { file, path: beside(database, "-bell"), watched: OnceLock::new() })
    }

    /// Marks the board as open for as long as this process lives; `false` while a restore is under way. The kernel
    /// releases the lock of a killed process.
    pub fn share(&self) -> io::Result<bool> {
        self.try_lock(FlockOperation::NonBlockingLockShared)
    }

    /// Locks the board exclusively; `false` while any process has it open.
    pub fn keep_others_out(&self) -> io::Result<bool> {
        self.try_lock(FlockOperation::NonBlockingLockExclusive)
    }

    fn try_lock(&self, operation: FlockOperation) -> io::Result<bool> {
        loop {
            match flock(&self.file, operation) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(errno) if errno == Errno::WOULDBLOCK => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Announces that the log reaches up to `seq`. Call this while this process still has its turn, or a slower
    /// process would write a smaller number over a larger one.
    pub fn ring(&self, seq: u64) {
        // A lost ring only delays readers until the next poll.
        let _ = self.file.write_all_at(&seq.to_le_bytes(), 0);
    }

    pub fn memory(&self) -> Memory {
        let mut bytes = [0; WORDS * 8];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => filled += more,
            }
        }
        Memory::from_bytes(&bytes)
    }

    /// Whether the inodes in the memory are of files that lie beside this bell.
    pub fn knows_files(&self, kept: &Memory) -> bool {
        kept.database != 0 && self.file.metadata().is_ok_and(|own| own.ino() == kept.bell)
    }

    /// Compares the memory with the database that was just opened, and brings the memory up to
    /// date. Events that the memory knows and the log does not have are noted as lost.
    pub fn settle(
        &self,
        database: &Path,
        turnstile: &Turnstile,
        log_end: impl Fn() -> Result<u64, StoreError>,
    ) -> Result<(), StoreError> {
        let unavailable = |error: io::Error| StoreError::Unavailable(error.to_string());
        let now = self.memory_of(database).map_err(unavailable)?;
        let is_current = |kept: &Memory, end| *kept == Memory { seq: end, lost: kept.lost, ..now };
        if is_current(&self.memory(), log_end()?) {
            return Ok(());
        }
        // While this process has its turn, no process commits between the two looks.
        let _turn = turnstile.enter().map_err(unavailable)?;
        let (kept, end) = (self.memory(), log_end()?);
        let is_same =
            self.knows_files(&kept) && (kept.database, kept.born) == (now.database, now.born);
        let mut next = Memory { seq: end, ..now };
        if is_same {
            next.lost = kept.lost;
        }
        if is_same && kept.seq > end {
            let from = if kept.lost.1 == 0 { end } else { end.min(kept.lost.0) };
            next.lost = (from, kept.seq.max(kept.lost.1));
            tracing::error!(last = kept.seq, log_end = end, "the end of the event log is lost");
        }
        self.file.write_all_at(&next.to_bytes(), 0).map_err(unavailable)
    }

    /// Forgets the former database, which a restored one replaced.
    pub fn begin_anew(&self, database: &Path, seq: u64) -> io::Result<()> {
        let next = Memory { seq, ..self.memory_of(database)? };
        self.file.write_all_at(&next.to_bytes(), 0)
    }

    fn memory_of(&self, database: &Path) -> io::Result<Memory> {
        let found = std::fs::metadata(database)?;
        let log = identity::look(&beside(database, "-wal"))?;
        Ok(Memory {
            seq: 0,
            database: found.ino(),
            born: identity::born(&found),
            log: log.map_or(0, |log| log.ino()),
            bell: self.file.metadata()?.ino(),
            lost: (0, 0),
        })
    }

    /// The events that are missing in a log that ends with event `end`, by the memory. Read the memory before the
    /// log.
    pub fn loss(&self, kept: &Memory, end: u64) -> Option<Finding> {
        let (after, up_to) = match kept.lost {
            (_, 0) if kept.seq > end => (end, kept.seq),
            (_, 0) => return None,
            lost => lost,
        };
        let events = match up_to - after {
            1 => format!("event {up_to} was acknowledged and is lost"),
            _ => format!("events {} to {up_to} were acknowledged and are lost", after + 1),
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Some(Finding {
            what: format!("the end of the event log is missing: {events}"),
            fix: format!(
                "put a backup back with callboard restore FILE; to go on without these events, \
                 stop every callboard of this board and delete {name}"
            ),
        })
    }

    /// Starts one watching thread, at the first wait.
    pub fn watch(&self, shared: &Arc<Shared>) -> Result<(), StoreError> {
        // Most processes never wait, and need no thread.
        if self.watched.set(()).is_err() {
            return Ok(());
        }
        let log = shared.open_reader()?;
        let (path, shared) = (self.path.clone(), Arc::downgrade(shared));
        std::thread::Builder::new()
            .name("callboard-bell".into())
            .spawn(move || listen(&path, &log, &shared))
            .map_err(|error| StoreError::Internal(format!("cannot start a thread: {error}")))?;
        Ok(())
    }
}

fn listen(path: &Path, log: &Connection, shared: &Weak<Shared>) {
    let (rings, heard) = mpsc::channel();
    let watcher = notify::recommended_watcher(move |_| {
        let _ = rings.send(());
    })
    .and_then(|mut watcher| watcher.watch(path, RecursiveMode::NonRecursive).map(|()| watcher));
    if let Err(error) = &watcher {
        tracing::warn!(%error, "no doorbell; looking once a second instead");
    }
    let mut by = "start";
    loop {
        // The first look finds commits between the beginning of the wait and that of the watch.
        if let Some(shared) = shared.upgrade() {
            look(log, &shared);
            tracing::trace!(target: LOOKS, by, seen = shared.feed.seen());
        } else {
            return;
        }
        by = match heard.recv_timeout(POLL) {
            Ok(()) => {
                // One look serves all rings that came meanwhile.
                while heard.try_recv().is_ok() {}
                "bell"
            }
            Err(RecvTimeoutError::Timeout) => "poll",
            // The watcher could not start; only the poll is left.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::park_timeout(POLL);
                "poll"
            }
        };
    }
}

fn look(log: &Connection, shared: &Shared) {
    // The guard logs once that the file is gone.
    if shared.guard.check().is_err() {
        return;
    }
    if let Err(error) = shared.feed.look(|seen| read::events_after(log, seen)) {
        tracing::warn!(%error, "cannot read the event log");
    }
}
