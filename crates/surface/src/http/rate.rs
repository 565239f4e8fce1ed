//! A rate limit for requests of a token, or for faults of an address: a number per minute, which may come in one burst.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// Above this many keys, those without debt are forgotten.
const KEPT_MAX: usize = 10_000;

/// A debt for each key (the "generic cell rate algorithm"): one time stamp a key instead of a window of events.
pub(super) struct RateLimit<K> {
    /// The cost of one event; `None` without a limit.
    cost: Option<Duration>,
    /// When each key will have paid for its events so far.
    paid_at: Mutex<HashMap<K, Instant>>,
}

impl<K: Copy + Eq + Hash> RateLimit<K> {
    pub(super) fn per_minute(times: u32) -> Self {
        let cost = (times > 0).then(|| MINUTE / times);
        Self { cost, paid_at: Mutex::default() }
    }

    /// Counts one event, or says how long to wait.
    pub(super) fn count(&self, who: K) -> Result<(), Duration> {
        self.look(who, Instant::now(), true)
    }

    /// Judges like `count`, without counting.
    pub(super) fn judge(&self, who: K) -> Result<(), Duration> {
        self.look(who, Instant::now(), false)
    }

    /// A debt of up to one minute is allowed, which is the burst; beyond it the key has to wait for the excess.
    fn look(&self, who: K, now: Instant, counts: bool) -> Result<(), Duration> {
        let Some(cost) = self.cost else { return Ok(()) };
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        if paid_at.len() >= KEPT_MAX {
            paid_at.retain(|_, at| *at > now);
        }
        let next = paid_at.get(&who).copied().unwrap_or(now).max(now) + cost;
        let wait = next.duration_since(now).saturating_sub(MINUTE);
        if !wait.is_zero() {
            // Whole seconds, rounded up: `Retry-After` has no fractions, and 0 would invite a retry at once.
            return Err(Duration::from_secs(wait.as_millis().div_ceil(1000) as u64));
        }
        if counts {
            paid_at.insert(who, next);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_at_once_then_one_by_one() {
        let limit = RateLimit::per_minute(6);
        let (one, other) = (1, 2);
        let start = Instant::now();
        let count = |who, seconds| limit.look(who, start + Duration::from_secs(seconds), true);
        let judge = |who, seconds| limit.look(who, start + Duration::from_secs(seconds), false);
        for n in 0..6 {
            assert_eq!((judge(one, 0), count(one, 0)), (Ok(()), Ok(())), "time {n}");
        }
        assert_eq!(count(one, 0), Err(Duration::from_secs(10)));
        assert_eq!(judge(one, 4), Err(Duration::from_secs(6)));
        assert_eq!(count(one, 4), Err(Duration::from_secs(6)));
        assert_eq!(count(other, 4), Ok(()));
        assert_eq!((judge(one, 10), count(one, 10)), (Ok(()), Ok(())));
        assert_eq!(count(one, 10), Err(Duration::from_secs(10)));
        assert_eq!(RateLimit::per_minute(0).look(one, start, true), Ok(()));
    }
}
