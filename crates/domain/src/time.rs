//! A moment in microseconds since 1970. Nothing here reads a clock.

use serde::{Deserialize, Serialize};

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    pub fn plus_s(self, s: u32) -> Self {
        self.plus_ms(i64::from(s) * 1000)
    }

    pub fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}

/// A span for people, in one or two units: `48 s`, `9 min`, `1 h 12`, `3 d`. A negative span is `0 s`.
pub fn span_words(ms: i64) -> String {
    let s = ms.max(0) / 1000;
    let (min, h, d) = (s / 60, s / 3600, s / 86_400);
    match (d, h, min) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, min) => format!("{min} min"),
        (0, h, min) if min % 60 == 0 => format!("{h} h"),
        (0, h, min) => format!("{h} h {:02}", min % 60),
        (d, ..) => format!("{d} d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_units_that_matter() {
        for (s, words) in [
            (-5, "0 s"),
            (0, "0 s"),
            (48, "48 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h"),
            (3660, "1 h 01"),
            (4320, "1 h 12"),
            (86_399, "23 h 59"),
            (86_400, "1 d"),
            (300_000, "3 d"),
        ] {
            assert_eq!(span_words(s * 1000), words, "{s}");
        }
    }
}
