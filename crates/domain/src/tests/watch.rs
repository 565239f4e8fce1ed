//! Which holders get grace after the watch over the leases was interrupted, as a table.

use crate::task::attempt::Lease;
use crate::task::watch::{Watcher, grace};
use crate::time::Timestamp;

/// In seconds: how long the lease was granted for, the last heartbeat, when the lease ends, the last tick, now;
/// then which watcher looks, and when the lease ends instead.
const TABLE: &str = "
    30    0     30    0     40  stays   -    watched: a minute without a tick is no interruption
    30    0     30    0     60  stays   -    exactly a minute
    30    0     30    0     61  stays   121  slept past its end
    30    0     30    0   9000  stays   9060 however long
    30    0     30   29   9000  stays   9060 live at the last tick
    30    0     30   30   9000  stays   -    over while a process watched
    30    0     30   40   9000  stays   -    over before the last tick
   900    0    900  100    850  stays   910  the time left is shorter than the grace
   900    0    900  100    800  stays   -    the time left is long enough
    30  500    530  100    600  stays   660  a heartbeat after the last tick shows a watch
    30  500    530  100    559  stays   -    and it was less than a minute ago
    30    0     30    0    100  passes  160  a command gives time too
    30    0    160    0    200  passes  -    but only once
    30    0    160  100    200  stays   260  a server gives time after each sleep
    30    0    160  150    200  stays   -    a server that ticks gives none
    30  300    330    0    400  passes  460  after a heartbeat again
";

#[test]
fn who_was_live_when_the_watch_stopped_gets_a_minute() {
    for row in TABLE.lines().filter(|row| !row.trim().is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let at = |place: usize| Timestamp::default().plus_s(words[place].parse().expect("seconds"));
        let lease = Lease { granted_s: words[0].parse().expect("seconds"), expires_at: at(2) };
        let watcher = match words[5] {
            "stays" => Watcher::Stays,
            _ => Watcher::Passes,
        };
        let until = (words[6] != "-").then(|| at(6));
        assert_eq!(grace(lease, at(1), at(3), watcher, at(4)), until, "{row}");
    }
}
