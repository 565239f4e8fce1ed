//! Durations as people type them.

use std::time::Duration;

/// Reads `50s`, `10m`, `2h`, `30d`, `500ms`, or a number of seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write 50s, 10m, 2h or 30d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let ms = match &text[digits..] {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(24 * 3_600_000),
        _ => None,
    };
    // A hundred years: the limit of what a clock can add up.
    ms.filter(|ms| *ms <= 100 * 366 * 24 * 3_600_000).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("50s", 50_000),
            ("7", 7_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5w", "-1s", "1.5s", "99999999999999999999s", "99999999h", "5 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
