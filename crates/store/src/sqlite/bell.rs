//! The doorbell: after a commit the writer touches a file beside the database, and processes in
//! which somebody waits look into the log at once. A slow poll stands behind it, for file systems
//! that tell nobody.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use rusqlite::Connection;

use super::{Shared, read, turnstile};
use crate::StoreError;

const POLL: Duration = Duration::from_secs(1);

pub(super) struct Bell {
    file: File,
    path: PathBuf,
    watched: OnceLock<()>,
}

impl Bell {
    pub fn open(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-bell");
        let file = turnstile::beside(database, "-bell")?;
        Ok(Self { file, path: path.into(), watched: OnceLock::new() })
    }

    /// Says that the log reaches up to `seq`. Losing a ring only costs a poll.
    pub fn ring(&self, seq: u64) {
        let _ = self.file.write_all_at(&seq.to_le_bytes(), 0);
    }

    /// Starts one watching thread, the first time somebody waits.
    pub fn watch(&self, shared: &Arc<Shared>) -> Result<(), StoreError> {
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
    loop {
        match heard.recv_timeout(POLL) {
            Ok(()) => while heard.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            // The watcher could not start; only the poll is left.
            Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(POLL),
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.feed.look(|seen| read::events_after(log, seen)) {
            tracing::warn!(%error, "cannot read the event log");
        }
    }
}
