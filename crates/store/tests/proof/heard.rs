//! The last heartbeat, progress and lease of attempts that ended. The rules forget them at the end of an attempt, so they
//! are noted here while the attempt lives, and compared with the columns of each database.

use std::collections::BTreeMap;
use std::path::Path;

use callboard_domain::ids::{AttemptId, Id};
use callboard_domain::task::attempt::{Attempt, AttemptState};
use rusqlite::Connection;

use crate::rows::DATABASE;

/// The columns that only a live attempt changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    heartbeat_at: i64,
    progress: Option<String>,
    lease_s: Option<u32>,
    lease_expires_at: Option<i64>,
}

impl Heard {
    /// What a row says of an attempt that began and ended in one write.
    fn nothing(attempt: &Attempt) -> Self {
        let heartbeat_at = attempt.started_at.0;
        Self { heartbeat_at, progress: None, lease_s: None, lease_expires_at: None }
    }

    fn of(attempt: &Attempt) -> Option<Self> {
        match &attempt.state {
            AttemptState::Live { heartbeat_at, progress, lease } => Some(Self {
                heartbeat_at: heartbeat_at.0,
                progress: progress.clone(),
                lease_s: lease.map(|lease| lease.granted_s),
                lease_expires_at: lease.map(|lease| lease.expires_at.0),
            }),
            AttemptState::Ended { .. } => None,
        }
    }
}

pub type AllHeard = BTreeMap<AttemptId, Heard>;

/// What each database must have of every attempt that ended. SQLite writes rows after each command. PostgreSQL writes
/// them once for a commit, so it never sees a heartbeat whose attempt ends in the commit of that heartbeat. Commands given
/// together with one that is wide have a commit each. No reader looks at these columns of an attempt that ended.
#[derive(Default)]
pub struct LastHeard {
    after_command: AllHeard,
    after_commit: AllHeard,
    pub sqlite: AllHeard,
    pub postgres: AllHeard,
}

impl LastHeard {
    /// After a command.
    pub fn note<'a>(&mut self, attempts: impl Iterator<Item = &'a Attempt>) {
        for attempt in attempts {
            if let Some(heard) = Heard::of(attempt) {
                self.after_command.insert(attempt.id, heard);
            }
        }
    }

    /// After a commit.
    pub fn settle<'a>(&mut self, attempts: impl Iterator<Item = &'a Attempt>) {
        for attempt in attempts {
            let id = attempt.id;
            if let Some(heard) = Heard::of(attempt) {
                self.after_commit.insert(id, heard);
            } else if !self.sqlite.contains_key(&id) {
                let last = |noted: &mut AllHeard| {
                    noted.remove(&id).unwrap_or_else(|| Heard::nothing(attempt))
                };
                self.sqlite.insert(id, last(&mut self.after_command));
                self.postgres.insert(id, last(&mut self.after_commit));
            }
        }
    }
}

/// The columns of the ended attempts of a file.
pub fn ended(folder: &Path) -> AllHeard {
    let db = Connection::open(folder.join(DATABASE)).unwrap();
    let sql = "SELECT id, heartbeat_at, progress, lease_s, lease_expires_at FROM attempts \
         WHERE ended_at IS NOT NULL";
    let mut read = db.prepare(sql).unwrap();
    let rows = read.query_map([], |row| {
        let heard = Heard {
            heartbeat_at: row.get(1)?,
            progress: row.get(2)?,
            lease_s: row.get(3)?,
            lease_expires_at: row.get(4)?,
        };
        Ok((AttemptId(Id::from_bytes(row.get(0)?)), heard))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Sets the compared columns of ended attempts to one value, so that all other columns can be compared as text.
pub fn forget(folder: &Path) {
    let db = Connection::open(folder.join(DATABASE)).unwrap();
    let sql = "UPDATE attempts SET heartbeat_at = started_at, progress = NULL, lease_s = NULL, \
         lease_expires_at = NULL WHERE ended_at IS NOT NULL";
    db.execute(sql, []).unwrap();
}
