//! A process between this server and a program, which the program's family cannot leave.
//!
//! The keeper is the parent of the program and adopts every process whose own parent ends (`PR_SET_CHILD_SUBREAPER`),
//! whatever session, group or environment that process has. It ends the family when our end of its lifeline closes:
//! because the call is over, or because this server is gone.
//!
//! The keeper is a fork of this process that never calls `exec`, so it costs the memory that this process writes to
//! meanwhile. The program enters its sandbox after the fork: the keeper stands outside, where a confined program can
//! neither signal nor inspect it. An unconfined program of the same user can kill it.

#![allow(unsafe_code, reason = "a process that is forked and not replaced has no safe interface")]

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group,
    pidfd_open, wait, waitid,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::family;

pub(super) const IS_THERE: bool = true;

/// The byte on the lifeline that asks the family to end.
const ASKED: u8 = b'T';

/// How often adopted processes that ended are reaped. The end of the program is noticed at once.
const COLLECT_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const FILES_MAX: RawFd = 65_536;

/// Our side of a keeper.
pub(super) struct Keeper {
    lifeline: Option<PipeWriter>,
    news: pipe::Receiver,
    pub(super) leader: Pid,
    /// When the leader started: a number alone may be reused.
    started: Option<u64>,
    /// The inner `None`: the keeper was killed, so the status is unknown.
    ended: Option<Option<ExitStatus>>,
}

/// Our ends of the pipes before the program runs.
pub(super) struct KeeperPipes {
    lifeline: PipeWriter,
    news: PipeReader,
}

/// Puts a keeper before the program. Every other `pre_exec` must be registered after this one; the program's process
/// alone executes it.
pub(super) fn post(command: &mut Command) -> io::Result<KeeperPipes> {
    let (theirs, lifeline) = io::pipe()?;
    let (news, tell) = io::pipe()?;
    let keep = move || {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // SAFETY: this process has one thread; both sides only make system calls from here on.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(()),
            child => match Pid::from_raw(child) {
                Some(leader) => keep(leader, &theirs, &tell),
                None => leave(),
            },
        }
    };
    // SAFETY: between fork and exec this makes system calls and asks for no memory.
    unsafe { command.pre_exec(keep) };
    Ok(KeeperPipes { lifeline, news })
}

impl Keeper {
    /// For a program that runs: its keeper has reported its number by then, or does so at once.
    pub(super) fn new(ends: KeeperPipes) -> io::Result<Self> {
        let KeeperPipes { lifeline, mut news } = ends;
        let mut number = [0; 4];
        news.read_exact(&mut number)?;
        let leader = Pid::from_raw(i32::from_ne_bytes(number));
        let leader = leader.ok_or_else(|| io::Error::other("the keeper names no process"))?;
        let news = pipe::Receiver::from_owned_fd(OwnedFd::from(news))?;
        let started = family::start_time(leader);
        Ok(Self { lifeline: Some(lifeline), news, leader, started, ended: None })
    }

    /// The program whose keeper was killed, if the program still runs.
    pub(super) fn forsaken(&self) -> Option<Pid> {
        let is_there = self.started.is_some() && family::start_time(self.leader) == self.started;
        (self.ended == Some(None) && is_there).then_some(self.leader)
    }

    /// Returns when the program has ended. Cancel safe.
    pub(super) async fn leader_exit(&mut self) -> Option<ExitStatus> {
        if let Some(ended) = self.ended {
            return ended;
        }
        let mut status = [0; 4];
        // The four bytes are written at once, so they are read at once.
        let length = self.news.read(&mut status).await.unwrap_or(0);
        let known = (length == status.len()).then(|| i32::from_ne_bytes(status));
        *self.ended.insert(known.map(ExitStatus::from_raw))
    }

    /// Asks the program to end. The keeper forwards this only while the program is its child, so no other group is
    /// asked.
    pub(super) fn ask_to_end(&mut self) {
        if let Some(lifeline) = &mut self.lifeline {
            // The write fails when the keeper is gone.
            let _ = lifeline.write_all(&[ASKED]);
        }
    }

    pub(super) fn end(&mut self) {
        self.lifeline = None;
    }
}

/// The rest of the keeper's life. It allocates no memory: another thread of the forking process may have held the
/// allocator's lock.
fn keep(leader: Pid, mut lifeline: &PipeReader, mut tell: &PipeWriter) -> ! {
    block_signals();
    // Pipes and locks of the forking process must end with that process.
    close_all_but(lifeline.as_raw_fd(), tell.as_raw_fd());
    let _ = rustix::thread::set_name(c"cb-keeper");
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir(c"/");
    let _ = tell.write_all(&leader.as_raw_nonzero().get().to_ne_bytes());
    let program = pidfd_open(leader, PidfdFlags::empty()).ok();
    let mut is_running = true;
    loop {
        let heard = listen(lifeline, program.as_ref().filter(|_| is_running), is_running);
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == leader {
                is_running = false;
                let _ = tell.write_all(&status.as_raw().to_ne_bytes());
            }
        }
        if !has_children() {
            leave();
        }
        if heard {
            match lifeline.read(&mut [0]) {
                Ok(0) | Err(_) => end(leader, is_running, tell),
                Ok(_) if is_running => drop(kill_process_group(leader, Signal::TERM)),
                Ok(_) => {}
            }
        }
    }
}

/// Waits a while for a byte on the lifeline, or for the end of the program.
fn listen(lifeline: &PipeReader, program: Option<&OwnedFd>, is_running: bool) -> bool {
    let word = PollFd::new(lifeline, PollFlags::IN);
    let Some(program) = program else {
        let mut ends = [word];
        // Kernels before 5.3 cannot notify of a process's end.
        let _ = poll(&mut ends, Some(if is_running { &LOOK_EVERY } else { &COLLECT_EVERY }));
        return !ends[0].revents().is_empty();
    };
    let mut ends = [word, PollFd::new(program, PollFlags::IN)];
    let _ = poll(&mut ends, Some(&COLLECT_EVERY));
    !ends[0].revents().is_empty()
}

/// Kills children until there are none. Children of a killed process become children here.
fn end(leader: Pid, mut is_running: bool, mut tell: &PipeWriter) -> ! {
    loop {
        // Its number is also its group's until it is reaped.
        if is_running {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        if !kill_children() && !is_running {
            // Without a list of children, only the group can be ended.
            leave();
        }
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == leader => {
                is_running = false;
                let _ = tell.write_all(&status.as_raw().to_ne_bytes());
            }
            Err(rustix::io::Errno::CHILD) => leave(),
            Ok(_) | Err(_) => {}
        }
    }
}

fn has_children() -> bool {
    let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, looking), Err(rustix::io::Errno::CHILD))
}

/// Kills all children; `false` when the kernel has no list of them.
fn kill_children() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let list = rustix::fs::open(c"/proc/thread-self/children", flags, Mode::empty());
    let Ok(list) = list else { return false };
    let (mut chunk, mut number) = ([0; 1024], 0_i32);
    while let Ok(length @ 1..) = rustix::io::read(&list, &mut chunk[..]) {
        for byte in chunk.iter().take(length) {
            if byte.is_ascii_digit() {
                number = number.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else if let Some(child) = Pid::from_raw(std::mem::take(&mut number)) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }
    true
}

/// Blocks all signals, so that neither a signal nor a pipe without a reader ends the keeper.
fn block_signals() {
    // SAFETY: the set is filled before it is used, and the calls write nothing but the set.
    unsafe {
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}

fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: this process uses none of the files that are closed.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if closed != 0 {
            // Kernels before 5.9 close one at a time.
            for file in first..=last.min(FILES_MAX) {
                // SAFETY: as above.
                unsafe { libc::close(file) };
            }
        }
    }
}

fn leave() -> ! {
    // SAFETY: the process ends without running any code inherited by the fork.
    unsafe { libc::_exit(0) }
}
