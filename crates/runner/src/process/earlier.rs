//! Ends processes that earlier runs left on this machine, whether or not the server that started them is alive. A
//! frozen server keeps its agents' folders locked, so the locks do not say which run is over: the caller does.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::family::{self, Recorded, Stat};

/// A killed process is gone after a millisecond or two; one in the middle of a disk access takes longer.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills the processes whose mark `is_theirs`, and those of the leaders recorded in `records`, until none is left or
/// the time is up. Returns the remaining processes, each by number and name.
pub(crate) fn end_earlier(
    is_theirs: impl Fn(&OsStr) -> bool,
    records: &[PathBuf],
    within: Duration,
) -> Vec<String> {
    let deadline = Instant::now() + within;
    let leaders: Vec<_> = records.iter().flat_map(|record| family::read_leaders(record)).collect();
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

/// Whether such a process is left.
pub(crate) fn is_left(is_theirs: impl Fn(&OsStr) -> bool, records: &[PathBuf]) -> bool {
    let leaders: Vec<_> = records.iter().flat_map(|record| family::read_leaders(record)).collect();
    !members(&is_theirs, &leaders).is_empty()
}

/// All such processes, without this one and without zombies of a frozen parent.
fn members(is_theirs: &impl Fn(&OsStr) -> bool, recorded: &[Recorded]) -> Vec<Pid> {
    let there = recorded.iter().filter(|one| one.is_there());
    let leaders: Vec<Pid> = there.clone().map(|one| one.pid).collect();
    let keepers: Vec<Pid> = there.filter(|one| one.is_keeper).map(|one| one.pid).collect();
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
    // A keeper that ended first would release its family; a keeper without a family does nothing.
    found.retain(|pid| !keepers.contains(pid));
    found
}
