//! Times as text for people and agents.

use callboard_domain::time::Timestamp;

/// RFC 3339 in UTC with milliseconds.
pub fn rfc3339_ms(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => at.0.to_string(),
    }
}

/// RFC 3339 in UTC with microseconds.
pub fn rfc3339_us(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => format!("{at:.6}"),
        Err(_) => at.0.to_string(),
    }
}

/// Reads an RFC 3339 time; `None` for any other text.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.trim().parse().ok()?;
    Some(Timestamp(at.as_microsecond()))
}
