//! A running program and all it started.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::process::Child;

use super::family;

/// Dropped before `reap`, it kills.
///
/// Group and leader share a number that is ours only while the leader is not reaped. So its exit
/// is noticed without reaping it, the group is killed, and only then the number is given back.
pub(super) struct Group {
    pub(super) leader: Child,
    pub(super) watchman: Option<Child>,
    pub(super) exits: tokio::signal::unix::Signal,
    /// What its processes carry, until none is left.
    pub(super) mark: Option<OsString>,
}

impl Group {
    /// `None` once reaped.
    pub(super) fn number(&self) -> Option<Pid> {
        self.leader.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    /// Returns when the leader has ended and waits to be reaped.
    pub(super) async fn leader_exit(&mut self) {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(number) = self.number() {
            match rustix::process::waitid(WaitId::Pid(number), looking) {
                Ok(None) => self.exits.recv().await,
                Ok(Some(_)) | Err(_) => return,
            };
        }
    }

    /// The polite way; whoever left the group is not asked.
    pub(super) fn ask_to_end(&self) {
        if let Some(number) = self.number() {
            let _ = rustix::process::kill_process_group(number, Signal::TERM);
        }
    }

    /// Signals fail only when nobody is left to kill.
    pub(super) fn kill(&mut self) {
        // One that stands outside would take the number for ours after it was given back.
        if self.mark.is_some()
            && let Some(watchman) = &mut self.watchman
        {
            let _ = watchman.start_kill();
        }
        let Some(number) = self.number() else { return };
        // `timeout` and job-control shells give their children groups of their own.
        let family = family::descendants(number);
        let _ = rustix::process::kill_process_group(number, Signal::KILL);
        for member in family {
            let _ = rustix::process::kill_process(member, Signal::KILL);
        }
    }

    /// Kills also those that left group and parents, until none is found.
    pub(super) async fn kill_marked(&mut self) {
        let Some(mark) = self.mark.clone() else { return };
        for _ in 0..family::PASSES_MAX {
            if family::kill_marked(&mark) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.mark = None;
    }

    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        self.leader.wait().await.ok()
    }

    pub(super) async fn dismiss_watchman(&mut self) {
        if let Some(watchman) = &mut self.watchman {
            let _ = watchman.wait().await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if let Some(mark) = &self.mark {
            family::kill_marked_all(mark);
        }
    }
}
