//! Ends what earlier runs left on this machine, whether or not the server that started it is alive. A
//! frozen server keeps its agents' folders locked, so the locks do not say whose turn is over: the caller
//! does.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::family::{self, Stat};

/// A killed process is gone after a millisecond or two; one in the middle of a disk access takes longer.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills the processes whose mark `is_theirs`, and those of the leaders that are written down in
/// `records`, until none is left or the time is up. Returns what is left, each by number and name.
pub(crate) fn end_earlier(
    is_theirs: impl Fn(&OsStr) -> bool,
    records: &[PathBuf],
    within: Duration,
) -> Vec<String> {
    let deadline = Instant::now() + within;
    let leaders: Vec<_> = records.iter().filter_map(|record| family::read_leader(record)).collect();
    let find = || members(&is_theirs, &leaders);
    loop {
        if family::kill_found(find) == 0 {
            return Vec::new();
        }
        if Instant::now() >= deadline {
            return find().into_iter().map(family::named).collect();
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether there is such a process.
pub(crate) fn is_left(is_theirs: impl Fn(&OsStr) -> bool, records: &[PathBuf]) -> bool {
    let leaders: Vec<_> = records.iter().filter_map(|record| family::read_leader(record)).collect();
    !members(&is_theirs, &leaders).is_empty()
}

/// Without ourselves, and without those that ended and wait for a frozen parent to notice.
fn members(is_theirs: &impl Fn(&OsStr) -> bool, leaders: &[(Pid, u64)]) -> Vec<Pid> {
    // A leader that ended and was not reaped keeps its number, and with it the number of its group.
    let is_same = |(pid, started): &&(Pid, u64)| {
        *started != 0 && Stat::of(*pid).is_some_and(|stat| stat.started == *started)
    };
    let leaders: Vec<Pid> = leaders.iter().filter(is_same).map(|(pid, _)| *pid).collect();
    let follows = |stat: &Stat| {
        let numbers = [stat.group, stat.session];
        leaders.iter().any(|leader| numbers.contains(&leader.as_raw_nonzero().get()))
    };
    let mut found: Vec<Pid> =
        leaders.iter().flat_map(|leader| family::descendants(*leader)).collect();
    found.extend(family::all().filter(|pid| {
        Stat::of(*pid).is_some_and(|stat| follows(&stat))
            || family::mark_of(*pid).is_some_and(|mark| is_theirs(&mark))
    }));
    found.sort_by_key(|pid| pid.as_raw_nonzero());
    found.dedup();
    let ourselves = rustix::process::getpid();
    found.retain(|pid| *pid != ourselves && Stat::of(*pid).is_some_and(|stat| stat.is_alive));
    found
}
