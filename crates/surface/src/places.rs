//! The number of long calls, streams or sessions that each token may have at a time, in this process. A caller without
//! a token is the local user, who is not counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::token::TokenId;

/// A number of places for each token.
pub struct Places {
    /// Places per token; 0 is no limit.
    max: usize,
    /// Taken places by token; a token without any has no entry.
    taken: Mutex<HashMap<TokenId, usize>>,
}

/// All places of a token are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    pub(crate) max: usize,
}

impl Places {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    pub fn unlimited() -> Arc<Self> {
        Self::new(0)
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TokenId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; `None` for a caller that is not counted.
    pub(crate) fn take(
        self: &Arc<Self>,
        token: Option<TokenId>,
    ) -> Result<Option<TakenPlace>, NoPlace> {
        let Some(token) = token.filter(|_| self.max > 0) else { return Ok(None) };
        let mut taken = self.taken();
        let count = taken.entry(token).or_default();
        if *count >= self.max {
            return Err(NoPlace { max: self.max });
        }
        *count += 1;
        Ok(Some(TakenPlace { places: self.clone(), token }))
    }
}

/// A place that is released when dropped.
/// Dropping it also covers calls that were cancelled in the middle.
pub(crate) struct TakenPlace {
    places: Arc<Places>,
    token: TokenId,
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::ids::Id;

    use super::*;

    #[test]
    fn each_token_has_its_places_and_gets_them_back() {
        let (one, other) = (Some(TokenId(Id(1))), Some(TokenId(Id(2))));
        let places = Places::new(2);
        let held = [places.take(one).ok(), places.take(one).ok()];
        assert_eq!(places.take(one).err(), Some(NoPlace { max: 2 }));
        assert!(places.take(other).is_ok() && places.take(None).is_ok());
        drop(held);
        assert!(places.taken().is_empty());
        assert!(places.take(one).is_ok());
        let unlimited = Places::unlimited();
        let held: Vec<_> = (0..100).map(|_| unlimited.take(one)).collect();
        assert!(held.iter().all(Result::is_ok));
    }
}
