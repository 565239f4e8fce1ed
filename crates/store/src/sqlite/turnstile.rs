//! Lets the writers of several processes through one at a time, in about the order they came.
//!
//! SQLite's own busy handler sleeps and retries, which starves unlucky writers for seconds. Two kernel locks do
//! better: the holder of the gate is next for the write lock, and all others queue at the gate. A killed process
//! drops both.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

pub(crate) struct Turnstile {
    /// Locked by the process that is next in line.
    gate: File,
    /// Locked by the process that writes.
    write: File,
}

impl Turnstile {
    pub fn open(database: &Path) -> io::Result<Self> {
        Ok(Self { gate: beside(database, "-gate")?, write: beside(database, "-turn")? })
    }

    /// Blocks until this process has its turn.
    pub fn enter(&self) -> io::Result<Turn<'_>> {
        lock(&self.gate, FlockOperation::LockExclusive)?;
        let entered = lock(&self.write, FlockOperation::LockExclusive);
        // The gate opens for the next in line as soon as this process writes; only one process waits at the write lock.
        lock(&self.gate, FlockOperation::Unlock)?;
        entered.map(|()| Turn(self))
    }

    /// Writes some bytes into the gate, whose content is never read or watched, and removes them. The kernel
    /// refuses on a full disk; nothing is flushed, so asking often costs little.
    pub fn try_disk(&self) -> io::Result<()> {
        let written = self.gate.write_all_at(&[0; TRIAL_BYTES], 0);
        let emptied = self.gate.set_len(0);
        written.and(emptied)
    }
}

/// The free space that the disk must have.
const TRIAL_BYTES: usize = 64 * 1024;

/// A writer's turn; the next one starts when this is dropped.
pub(crate) struct Turn<'t>(&'t Turnstile);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlocking a lock that is held cannot fail; if it ever did, closing the file frees it.
        let _ = lock(&self.0.write, FlockOperation::Unlock);
    }
}

fn lock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A file next to the database, named after it.
pub(crate) fn beside(database: &Path, suffix: &str) -> io::Result<File> {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(name)
}
