//! Times: relative for people on a terminal, RFC 3339 otherwise.

use callboard_domain::time::Timestamp;
use callboard_engine::time::rfc3339_ms;

use super::Out;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// From here on a date tells more than a number of days.
const DATES_AFTER: i64 = 60 * DAY;

impl Out {
    /// A moment as it is printed: `3 min ago`, or `2026-01-02T03:04:05.678Z` without a terminal.
    pub fn when(&self, at: Timestamp, now: Timestamp) -> String {
        if self.terminal { relative(at, now) } else { rfc3339_ms(at) }
    }
}

/// `3 min ago`, `in 11 min`, `just now`; a date for a moment that is months away.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.ms_since(at) / 1000;
    let amount = match seconds.abs() {
        0..5 => return "just now".into(),
        s if s < MINUTE => format!("{s} s"),
        s if s < HOUR => format!("{} min", s / MINUTE),
        s if s < DAY => format!("{} h", s / HOUR),
        s if s < 2 * DAY => "1 day".into(),
        s if s < DATES_AFTER => format!("{} days", s / DAY),
        _ => return rfc3339_ms(at).chars().take(10).collect(),
    };
    if seconds > 0 { format!("{amount} ago") } else { format!("in {amount}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_from_now() {
        let now = Timestamp(1_700_000_000_000_000);
        let table = [
            (0, "just now"),
            (-4, "just now"),
            (-5, "5 s ago"),
            (-59, "59 s ago"),
            (-200, "3 min ago"),
            (-2 * HOUR, "2 h ago"),
            (-DAY, "1 day ago"),
            (-5 * DAY, "5 days ago"),
            (660, "in 11 min"),
            (-90 * DAY, "2023-08-16"),
        ];
        for (seconds, words) in table {
            assert_eq!(relative(now.plus_ms(seconds * 1000), now), words);
        }
    }
}
