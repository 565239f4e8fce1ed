//! The processes of a run: the descendants of its leader, as long as their parents live, and every process that carries
//! the run's mark in its environment, wherever it went. Linux lists them; on other systems none is found.
//!
//! A process that left its parents and emptied its environment as well is a child of the keeper (`keeper.rs`), as long
//! as the keeper lives.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Every process of a run inherits this variable.
pub(crate) const MARK: &str = "CALLBOARD_RUN";

/// All descendants of a process.
pub(super) fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        next += 1;
        let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
            found.extend(ids.filter_map(Pid::from_raw));
        }
    }
    found.split_off(1)
}

/// Kills the processes that `find` names, and returns how many there were. A dying process may be counted and a new one
/// may be missed, so callers repeat until the count is zero. A process is pinned before it is looked up a second time:
/// a number that was reused meanwhile is not signalled.
pub(super) fn kill_found(find: impl Fn() -> Vec<Pid>) -> usize {
    let found = find();
    if found.is_empty() {
        return 0;
    }
    let held: Vec<(Pid, ProcessHandle)> =
        found.iter().filter_map(|pid| Some((*pid, ProcessHandle::of(*pid)?))).collect();
    let still = find();
    for (_, held) in held.iter().filter(|(pid, _)| still.contains(pid)) {
        held.kill();
    }
    found.len()
}

/// A process that stays identified even when its number is reused.
enum ProcessHandle {
    #[cfg(target_os = "linux")]
    Process(std::os::fd::OwnedFd),
    /// Kernels before 5.3 and other systems identify processes by number alone.
    Number(Pid),
}

impl ProcessHandle {
    #[cfg(target_os = "linux")]
    fn of(pid: Pid) -> Option<Self> {
        match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(process) => Some(Self::Process(process)),
            Err(rustix::io::Errno::SRCH) => None,
            Err(_) => Some(Self::Number(pid)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(pid: Pid) -> Option<Self> {
        Some(Self::Number(pid))
    }

    /// Fails only for a process that has ended, or that belongs to another user.
    fn kill(&self) {
        let _ = match self {
            #[cfg(target_os = "linux")]
            Self::Process(process) => rustix::process::pidfd_send_signal(process, Signal::KILL),
            Self::Number(pid) => rustix::process::kill_process(*pid, Signal::KILL),
        };
    }
}

pub(super) fn kill_marked(mark: &OsStr) -> usize {
    kill_found(|| marked(mark))
}

/// Gives processes with the mark time to end by themselves.
pub(crate) async fn end_marked(mark: &OsStr, grace: Duration) {
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline && !marked(mark).is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    for _ in 0..PASSES_MAX {
        if kill_marked(mark) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// All processes with the mark, without this one.
fn marked(mark: &OsStr) -> Vec<Pid> {
    let ourselves = rustix::process::getpid();
    let carries = |pid: &Pid| mark_of(*pid).is_some_and(|its| its == mark);
    all().filter(|pid| *pid != ourselves && carries(pid)).collect()
}

/// The mark that a process carries. An ended process carries none.
pub(super) fn mark_of(pid: Pid) -> Option<OsString> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    Some(OsString::from_vec(mark.to_vec()))
}

pub(super) fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw)
}

/// A process in words, so that a person can find it.
pub(super) fn named(pid: Pid) -> String {
    let number = pid.as_raw_nonzero();
    match fs::read(format!("/proc/{number}/comm")) {
        Ok(name) => format!("process {number} ({})", String::from_utf8_lossy(&name).trim()),
        Err(_) => format!("process {number}"),
    }
}

/// Records the leader and the keeper of a run, so that a later process can find them.
pub(super) fn write_leader(record: &Path, leader: Pid, keeper: Option<Pid>) -> io::Result<()> {
    let line = |pid: Pid| {
        let started = start_time(pid).unwrap_or_default();
        format!("{} {started}\n", pid.as_raw_nonzero())
    };
    fs::write(record, line(leader) + &keeper.map(line).unwrap_or_default())
}

/// Kills the groups and descendants of the recorded processes. A number is not reused while any process is in its
/// group, so a number whose process started at another time, or cannot be compared, has no group of ours.
pub(crate) fn kill_leftovers(record: &Path, mark: &OsStr) {
    // The keeper comes last: its family is found through it.
    for Recorded { pid: leader, started, .. } in read_leaders(record) {
        let reused = start_time(leader).is_some_and(|now| now != started || started == 0);
        if !reused {
            for member in descendants(leader) {
                let _ = rustix::process::kill_process(member, Signal::KILL);
            }
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
    kill_marked_all(mark);
}

/// Kills processes with the mark until none is left.
pub(crate) fn kill_marked_all(mark: &OsStr) {
    for _ in 0..PASSES_MAX {
        if kill_marked(mark) == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// A look at all processes takes about a millisecond; a killed one is gone after one or two.
pub(super) const PASSES_MAX: usize = 200;

/// A recorded process.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) pid: Pid,
    started: u64,
    pub(super) is_keeper: bool,
}

impl Recorded {
    /// Whether the number still belongs to the recorded process. A leader that ended and was not reaped keeps its
    /// number, and with it the number of its group.
    pub(super) fn is_there(&self) -> bool {
        self.started != 0 && start_time(self.pid) == Some(self.started)
    }
}

/// The recorded leader, and then its keeper.
pub(super) fn read_leaders(record: &Path) -> Vec<Recorded> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let read = |(n, line): (usize, &str)| {
        let (pid, started) = line.split_once(' ')?;
        let (pid, started) = (Pid::from_raw(pid.parse().ok()?)?, started.parse().ok()?);
        Some(Recorded { pid, started, is_keeper: n > 0 })
    };
    text.lines().enumerate().filter_map(read).collect()
}

pub(super) fn start_time(pid: Pid) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.started)
}

/// The kernel's facts about a process.
pub(super) struct Stat {
    /// `false` for a zombie.
    pub(super) is_alive: bool,
    pub(super) group: i32,
    pub(super) session: i32,
    /// The start time in the kernel's ticks.
    pub(super) started: u64,
}

impl Stat {
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name in the second field may hold anything, including spaces and brackets.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            is_alive: !matches!(*fields.first()?, "Z" | "X"),
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}
