//! Snoozes: what an actor does not want to see for a while. A snooze hides; no task changes by it.

use crate::limits::{SNOOZE_KEY_BYTES_MAX, SNOOZES_MAX};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// A row of an actor's inbox that is put off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snooze {
    /// The row's key in the inbox.
    pub key: String,
    pub until: SnoozeUntil,
}

/// The end of a snooze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnoozeUntil {
    Time(Timestamp),
    /// Lasts while the row has this fingerprint.
    Changes {
        fingerprint: String,
    },
}

impl Snooze {
    pub fn judged(self, now: Timestamp) -> Result<Self, Refusal> {
        judge_text("key", &self.key)?;
        match &self.until {
            SnoozeUntil::Time(until) if *until <= now => {
                Err(Refusal::invalid_field("until", "until must be in the future"))
            }
            SnoozeUntil::Time(_) => Ok(self),
            SnoozeUntil::Changes { fingerprint } => {
                judge_text("fingerprint", fingerprint)?;
                Ok(self)
            }
        }
    }

    /// Whether the row with this fingerprint stays hidden.
    pub fn holds(&self, now: Timestamp, fingerprint: &str) -> bool {
        match &self.until {
            SnoozeUntil::Time(until) => now < *until,
            SnoozeUntil::Changes { fingerprint: known } => known == fingerprint,
        }
    }
}

/// Refuses one more snooze of an actor who has this many.
pub fn judge_snooze_room(snoozes: usize) -> Result<(), Refusal> {
    match snoozes < SNOOZES_MAX {
        true => Ok(()),
        false => {
            let words = format!("snoozes: there are {snoozes}, and at most {SNOOZES_MAX} are kept");
            Err(Refusal::invalid_field("snoozes", words))
        }
    }
}

fn judge_text(field: &str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > SNOOZE_KEY_BYTES_MAX || text.contains(char::is_control) {
        let words =
            format!("{field} must be 1 to {SNOOZE_KEY_BYTES_MAX} bytes without control characters");
        return Err(Refusal::invalid_field(field, words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(fingerprint: &str) -> SnoozeUntil {
        SnoozeUntil::Changes { fingerprint: fingerprint.into() }
    }

    #[test]
    fn a_snooze_ends_by_the_clock_or_with_a_change() {
        for (ends, now, fingerprint, holds) in [
            (SnoozeUntil::Time(Timestamp(5)), 4, "a", true),
            (SnoozeUntil::Time(Timestamp(5)), 5, "a", false),
            (until("a"), 4, "a", true),
            (until("a"), 4_000_000, "a", true),
            (until("a"), 4, "b", false),
        ] {
            let snooze = Snooze { key: "review SHOP-1".into(), until: ends };
            assert_eq!(snooze.holds(Timestamp(now), fingerprint), holds, "{snooze:?}");
        }
    }

    #[test]
    fn a_refused_snooze_names_its_field() {
        for (key, ends, field) in [
            ("", until("a"), "key"),
            ("a\nb", until("a"), "key"),
            ("k", until(""), "fingerprint"),
            ("k", SnoozeUntil::Time(Timestamp(7)), "until"),
        ] {
            let snooze = Snooze { key: key.into(), until: ends };
            match snooze.judged(Timestamp(7)) {
                Err(Refusal::InvalidInput { field: Some(named), .. }) => assert_eq!(named, field),
                other => panic!("{field}: {other:?}"),
            }
        }
        let long = Snooze { key: "k".repeat(SNOOZE_KEY_BYTES_MAX), until: until("a") };
        assert!(long.judged(Timestamp(7)).is_ok());
        assert!(judge_snooze_room(SNOOZES_MAX).is_err());
    }
}
