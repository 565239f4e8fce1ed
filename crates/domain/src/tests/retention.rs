//! Which rows may go, as tables.

use crate::policy::Phase;
use crate::retention::{Growing, LogFloor, Retention, WorkEnd, may_go};
use crate::time::Timestamp;

/// In days: the age of the row; how its work stands, with the days since it ended; the setting; whether the row goes.
const ROWS: &str = "
    31   alone        30   goes    older than the setting
    30   alone        30   stays   not older
    29   alone        30   stays   younger
    900  open         30   stays   open work keeps its rows, however old
    900  closed:31    30   goes    closed for longer than the setting
    900  closed:30    30   stays   closed for exactly as long
    900  closed:1     30   stays   closed lately: an old row of it stays
    900  removed:31   30   goes    a removed task ended when it was removed
    900  removed:1    30   stays   removed lately, though closed long ago
    29   closed:31    30   stays   a late comment on a closed task is young itself
    900  closed:900   -    stays   without a setting nothing goes
    900  alone        -    stays   without a setting nothing goes
";

#[test]
fn a_row_goes_when_it_and_its_work_are_over_for_long_enough() {
    let now = Timestamp(1_700_000_000_000_000);
    let ago = |days: &str| now.plus_ms(-days.parse::<i64>().expect("days") * 86_400_000);
    for row in ROWS.lines().filter(|row| !row.trim().is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let ended = match words[1].split_once(':') {
            None if words[1] == "alone" => WorkEnd::Alone,
            None => WorkEnd::of_task(Phase::Review, ago("400"), None),
            Some(("closed", days)) => WorkEnd::of_task(Phase::ClosedDone, ago(days), None),
            Some((_, days)) => WorkEnd::of_task(Phase::ClosedCanceled, ago("400"), Some(ago(days))),
        };
        let kept = Retention { events_days: words[2].parse().ok(), ..Retention::default() };
        let before = kept.before(Growing::Event, now);
        let goes = before.is_some_and(|before| may_go(ago(words[0]), ended, before));
        assert_eq!(goes, words[3] == "goes", "{row}");
    }
}

#[test]
fn each_kind_has_a_setting_of_its_own() {
    let kept = Retention {
        events_days: Some(1),
        mail_days: Some(2),
        decisions_days: Some(3),
        deliveries_days: Some(4),
        ..Retention::default()
    };
    assert_eq!(Growing::ALL.map(|kind| kept.days(kind)), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(Growing::ALL.map(|kind| Retention::default().days(kind)), [None; 4]);
}

/// The floor; the last event that a reader saw; the newest event of its org; whether events may be missing.
const READERS: &str = "
    1     0     0     whole    an empty log
    1     0     90    whole    nothing was removed
    50    49    90    whole    the next event is the first kept one
    50    48    90    hidden   the next event may be gone
    50    0     90    hidden   the beginning is gone
    50    20    20    whole    a quiet org: its reader saw the newest event
    50    20    0     hidden   every event of the org is gone
    50    0     0     whole    an org that never had an event
    50    95    90    whole    a number of another log
";

#[test]
fn a_reader_is_told_when_events_after_its_place_are_gone() {
    for row in READERS.lines().filter(|row| !row.trim().is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        let floor = LogFloor { seq: number(0), at: Timestamp(0) };
        assert_eq!(floor.hides(number(1), number(2)), words[3] == "hidden", "{row}");
    }
}
