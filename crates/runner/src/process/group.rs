//! A running program and all processes it started.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::process::Child;
use tokio::time::timeout;

use super::keeper::Keeper;
use super::{AFTER_KILL, family};

/// How long a killed family may take to end. Only a process stuck in the kernel needs longer.
const FAMILY_END_MAX: Duration = Duration::from_secs(5);

/// A group that is killed when dropped before `reap`.
///
/// Group and leader share a number that is ours only while the leader is not reaped. So its exit is noticed without
/// reaping it, the group is killed, and only then the number is released. For a program with a keeper, the keeper does
/// all of this.
pub(super) struct Group {
    /// The leader's process, or that of its keeper.
    pub(super) child: Child,
    pub(super) kept: Option<Keeper>,
    pub(super) watchman: Option<Child>,
    pub(super) exits: tokio::signal::unix::Signal,
    /// The mark of its processes, until none is left.
    pub(super) mark: Option<OsString>,
}

impl Group {
    /// The leader's number; `None` once reaped.
    pub(super) fn number(&self) -> Option<Pid> {
        match &self.kept {
            Some(kept) => Some(kept.leader),
            None => self.child_number(),
        }
    }

    fn child_number(&self) -> Option<Pid> {
        self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    pub(super) fn keeper(&self) -> Option<Pid> {
        self.kept.as_ref().and_then(|_| self.child_number())
    }

    /// Returns when the leader has ended.
    pub(super) async fn leader_exit(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.leader_exit().await;
            return;
        }
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(number) = self.number() {
            match rustix::process::waitid(WaitId::Pid(number), looking) {
                Ok(None) => self.exits.recv().await,
                Ok(Some(_)) | Err(_) => return,
            };
        }
    }

    /// Asks the group to end. Processes that left the group are not asked.
    pub(super) fn ask_to_end(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.ask_to_end();
        } else if let Some(number) = self.number() {
            let _ = rustix::process::kill_process_group(number, Signal::TERM);
        }
    }

    /// Kills the group. Signals fail only when no process is left to kill.
    pub(super) fn kill(&mut self) {
        // A watchman outside the group would kill a reused number, so it goes first.
        if self.mark.is_some()
            && let Some(watchman) = &mut self.watchman
        {
            let _ = watchman.start_kill();
        }
        let number = match &mut self.kept {
            Some(kept) => {
                kept.end();
                kept.forsaken()
            }
            None => self.number(),
        };
        let Some(number) = number else { return };
        // `timeout` and job-control shells give their children groups of their own.
        let family = family::descendants(number);
        let _ = rustix::process::kill_process_group(number, Signal::KILL);
        for member in family {
            let _ = rustix::process::kill_process(member, Signal::KILL);
        }
    }

    /// Also kills processes that left group and parents, until none is found.
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

    /// Reaps the leader after `kill`; a keeper ends when all processes it kept have ended.
    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        let Some(kept) = &mut self.kept else { return self.child.wait().await.ok() };
        let status = kept.leader_exit().await;
        let _ = timeout(FAMILY_END_MAX, self.child.wait()).await;
        status
    }

    /// How long a killed leader may take to be reaped.
    pub(super) fn patience(&self) -> Duration {
        if self.kept.is_some() { FAMILY_END_MAX } else { AFTER_KILL }
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
