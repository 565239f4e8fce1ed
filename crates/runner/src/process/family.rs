//! Who belongs to a run: its children and theirs, as long as their parents live, and whoever
//! carries its mark in the environment, wherever they went. Linux tells; elsewhere nobody is found.
//!
//! A process that left its parents and emptied its environment as well is not found here.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Every process of a run inherits this variable.
pub(crate) const MARK: &str = "CALLBOARD_RUN";

/// Children, their children and so on.
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

/// Kills whoever carries the mark, and answers how many did. One that is dying may be counted;
/// one that was just born may be missed, so ask until there is none.
pub(super) fn kill_marked(mark: &OsStr) -> usize {
    let marked = marked(mark);
    for pid in &marked {
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
    marked.len()
}

/// Gives those that carry the mark time to end by themselves.
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

/// Without ourselves.
fn marked(mark: &OsStr) -> Vec<Pid> {
    let mut wanted = format!("{MARK}=").into_bytes();
    wanted.extend_from_slice(mark.as_bytes());
    let carries = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        let environment = environment.unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    let ourselves = rustix::process::getpid();
    all().filter(|pid| *pid != ourselves && carries(pid)).collect()
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw)
}

/// Writes down who leads a run, so that a later process can find it.
pub(super) fn write_leader(record: &Path, leader: Pid) -> io::Result<()> {
    let started = start_time(leader).unwrap_or_default();
    fs::write(record, format!("{} {started}\n", leader.as_raw_nonzero()))
}

/// Kills the group of the leader that was written down. A number is not given to another process
/// while any process is in its group, so a number whose process started at another time, or that
/// cannot be compared, has no group of ours.
pub(crate) fn kill_leftovers(record: &Path, mark: &OsStr) {
    if let Some((leader, started)) = read_leader(record) {
        let reused = start_time(leader).is_some_and(|now| now != started || started == 0);
        if !reused {
            for member in descendants(leader) {
                let _ = rustix::process::kill_process(member, Signal::KILL);
            }
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
    for _ in 0..PASSES_MAX {
        if kill_marked(mark) == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// A look at all processes takes about a millisecond; a killed one is gone after one or two.
pub(super) const PASSES_MAX: usize = 200;

fn read_leader(record: &Path) -> Option<(Pid, u64)> {
    let text = fs::read_to_string(record).ok()?;
    let (pid, started) = text.trim().split_once(' ')?;
    Some((Pid::from_raw(pid.parse().ok()?)?, started.parse().ok()?))
}

/// In the kernel's ticks since it started.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in the second field may hold anything, also spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
