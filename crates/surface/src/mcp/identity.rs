//! Who a connection speaks for. Fixed for the process once settled; never an argument of a call.

use std::sync::{Arc, OnceLock};

use callboard_domain::actor::Actor;
use callboard_engine::context::Principal;

use crate::error::random;

const NAME_CHARS: usize = 90;
const SUFFIX_CHARS: usize = 4;
const SUFFIX_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The identity of a stdio connection.
#[derive(Clone)]
pub enum StdioIdentity {
    Fixed(Principal),
    /// `agent:<client name>-<4 random characters>`, settled at the first request that needs it.
    FromClient(Arc<dyn Fn(Actor) -> Principal + Send + Sync>),
}

pub(super) enum Identity {
    Fixed(Principal),
    FromClient { make: Arc<dyn Fn(Actor) -> Principal + Send + Sync>, settled: OnceLock<Principal> },
}

impl From<StdioIdentity> for Identity {
    fn from(identity: StdioIdentity) -> Self {
        match identity {
            StdioIdentity::Fixed(principal) => Self::Fixed(principal),
            StdioIdentity::FromClient(make) => Self::FromClient { make, settled: OnceLock::new() },
        }
    }
}

impl Identity {
    /// The principal, settled now with the client's name if it was not before.
    pub(super) fn settle(&self, client_name: impl FnOnce() -> Option<String>) -> Principal {
        match self {
            Self::Fixed(principal) => principal.clone(),
            Self::FromClient { make, settled } => settled
                .get_or_init(|| make(actor_for(client_name().as_deref().unwrap_or_default())))
                .clone(),
        }
    }

    /// The principal for a look at something before any request named the client; settles nothing.
    pub(super) fn so_far(&self) -> Principal {
        match self {
            Self::Fixed(principal) => principal.clone(),
            Self::FromClient { make, settled } => {
                settled.get().cloned().unwrap_or_else(|| make(actor_for("")))
            }
        }
    }
}

fn actor_for(client_name: &str) -> Actor {
    let mut name: String = Actor::name_from(client_name.trim()).chars().take(NAME_CHARS).collect();
    name.push('-');
    let mut bits = random();
    for _ in 0..SUFFIX_CHARS {
        name.push(char::from(SUFFIX_ALPHABET[(bits % 32) as usize]));
        bits /= 32;
    }
    format!("agent:{name}").parse().expect("a cleaned name and a suffix make an actor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_stays() {
        let identity = Identity::from(StdioIdentity::FromClient(Arc::new(Principal::local)));
        let first = identity.settle(|| Some("Claude Code (beta)".into()));
        let second = identity.settle(|| Some("other".into()));
        assert_eq!(first.actor, second.actor);
        assert_eq!(first.actor, identity.so_far().actor);
        let name = first.actor.as_str();
        assert!(name.starts_with("agent:Claude-Code--beta--"), "{name}");
    }

    #[test]
    fn any_client_name_makes_an_actor() {
        for name in ["", "  ", "ü", &"x".repeat(300)] {
            assert!(actor_for(name).as_str().len() <= "agent:".len() + 100);
        }
    }
}
