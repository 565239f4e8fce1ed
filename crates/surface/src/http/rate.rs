//! How often one token may ask: so many requests a minute, all of them at once if it likes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::token::TokenId;

const MINUTE: Duration = Duration::from_secs(60);
/// Above this many tokens, those that are not in debt are forgotten.
const KEPT_MAX: usize = 10_000;

pub(super) struct RateLimit {
    /// What one request costs; `None` without a limit.
    cost: Option<Duration>,
    /// When each token will have paid for what it asked so far.
    paid_at: Mutex<HashMap<TokenId, Instant>>,
}

impl RateLimit {
    pub(super) fn per_minute(requests: u32) -> Self {
        let cost = (requests > 0).then(|| MINUTE / requests);
        Self { cost, paid_at: Mutex::default() }
    }

    /// Counts one request, or says how long to wait.
    pub(super) fn count(&self, token: TokenId) -> Result<(), Duration> {
        self.count_at(token, Instant::now())
    }

    fn count_at(&self, token: TokenId, now: Instant) -> Result<(), Duration> {
        let Some(cost) = self.cost else { return Ok(()) };
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        if paid_at.len() >= KEPT_MAX {
            paid_at.retain(|_, at| *at > now);
        }
        let next = paid_at.get(&token).copied().unwrap_or(now).max(now) + cost;
        let wait = next.duration_since(now).saturating_sub(MINUTE);
        if !wait.is_zero() {
            return Err(Duration::from_secs(wait.as_millis().div_ceil(1000) as u64));
        }
        paid_at.insert(token, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::ids::Id;

    use super::*;

    #[test]
    fn a_minutes_worth_at_once_then_one_by_one() {
        let limit = RateLimit::per_minute(6);
        let (one, other) = (TokenId(Id(1)), TokenId(Id(2)));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for n in 0..6 {
            assert_eq!(limit.count_at(one, at(0)), Ok(()), "request {n}");
        }
        assert_eq!(limit.count_at(one, at(0)), Err(Duration::from_secs(10)));
        assert_eq!(limit.count_at(one, at(4)), Err(Duration::from_secs(6)));
        assert_eq!(limit.count_at(other, at(4)), Ok(()));
        assert_eq!(limit.count_at(one, at(10)), Ok(()));
        assert_eq!(limit.count_at(one, at(10)), Err(Duration::from_secs(10)));
        assert_eq!(RateLimit::per_minute(0).count_at(one, at(0)), Ok(()));
    }
}
