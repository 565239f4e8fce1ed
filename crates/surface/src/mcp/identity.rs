//! The identity of a connection, a session or a request. Fixed for a connection and a session once settled; never an
//! argument of a call.

use std::sync::{Arc, OnceLock};

use callboard_domain::actor::Actor;
use callboard_domain::token::TokenId;
use callboard_engine::context::Principal;

use crate::error::random;

/// An actor's name has at most 100 characters; the suffix and its hyphen need five of the rest.
const NAME_CHARS: usize = 90;
const SUFFIX_CHARS: usize = 4;
/// Without i, l, o and u: a person may have to type the name.
const SUFFIX_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The identity of a stdio connection.
#[derive(Clone)]
pub enum StdioIdentity {
    Fixed(Principal),
    /// `agent:<client name>-<4 random characters>`, settled at the first request that needs it.
    FromClient(Make),
}

/// The caller of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A token or the URL names the actor.
    Named(Principal),
    /// The actor is unnamed: org and rights are the listener's, the actor comes from the client.
    Unnamed(Principal),
}

impl Caller {
    pub(super) fn token(&self) -> Option<TokenId> {
        let (Self::Named(principal) | Self::Unnamed(principal)) = self;
        principal.token
    }
}

/// Adds org and rights to an actor that was made from a client's name.
type Make = Arc<dyn Fn(Actor) -> Principal + Send + Sync>;

pub(super) enum Identity {
    Fixed(Principal),
    /// A separate actor for each connection (stdio) or session (legacy HTTP).
    FromClient {
        make: Make,
        settled: OnceLock<Principal>,
        /// Whether requests of both eras belong to one connection, as on stdio. Over HTTP only a legacy session holds
        /// requests together.
        has_connection: bool,
    },
}

impl From<StdioIdentity> for Identity {
    fn from(identity: StdioIdentity) -> Self {
        match identity {
            StdioIdentity::Fixed(principal) => Self::Fixed(principal),
            StdioIdentity::FromClient(make) => {
                Self::FromClient { make, settled: OnceLock::new(), has_connection: true }
            }
        }
    }
}

impl From<Caller> for Identity {
    fn from(caller: Caller) -> Self {
        match caller {
            Caller::Named(principal) => Self::Fixed(principal),
            Caller::Unnamed(local) => {
                let make = move |actor| Principal { actor, ..local.clone() };
                let (make, settled) = (Arc::new(make), OnceLock::new());
                Self::FromClient { make, settled, has_connection: false }
            }
        }
    }
}

impl Identity {
    /// The principal, settled now with the client's name unless an earlier request did.
    ///
    /// A modern HTTP request belongs to no session, and all instances of a client send the same client info. Its actor
    /// is the client's bare name, which is marked as shared.
    pub(super) fn settle(
        &self,
        client_name: impl FnOnce() -> Option<String>,
        is_modern: bool,
    ) -> Principal {
        let named = || client_name().unwrap_or_default();
        match self {
            Self::Fixed(principal) => principal.clone(),
            Self::FromClient { make, has_connection: false, .. } if is_modern => {
                // A shared actor may not hold tasks: two instances of a client could not be told apart (decision 0015).
                Principal { is_shared: true, ..make(shared_actor(&named())) }
            }
            Self::FromClient { make, settled, .. } => {
                settled.get_or_init(|| make(actor_for(&named()))).clone()
            }
        }
    }

    /// The principal before any request named the client; settles nothing.
    pub(super) fn so_far(&self) -> Principal {
        match self {
            Self::Fixed(principal) => principal.clone(),
            Self::FromClient { make, settled, .. } => {
                // Serves only reads. A request that writes settles the name first.
                settled.get().cloned().unwrap_or_else(|| make(actor_for("")))
            }
        }
    }
}

/// The part of a client's name that an actor may have.
fn cleaned(client_name: &str) -> String {
    Actor::name_from(client_name.trim()).chars().take(NAME_CHARS).collect()
}

/// One actor for all instances of a client.
fn shared_actor(client_name: &str) -> Actor {
    let name = cleaned(client_name);
    format!("agent:{name}").parse().expect("a cleaned name makes an actor")
}

/// An actor of its own for one connection: about a million suffixes tell instances of a client apart.
fn actor_for(client_name: &str) -> Actor {
    let mut name = cleaned(client_name);
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
        let first = identity.settle(|| Some("Claude Code (beta)".into()), true);
        let second = identity.settle(|| Some("other".into()), false);
        assert_eq!(first.actor, second.actor);
        assert_eq!(first.actor, identity.so_far().actor);
        let name = first.actor.as_str();
        assert!(name.starts_with("agent:Claude-Code--beta--"), "{name}");
    }

    #[test]
    fn only_a_modern_http_request_shares_its_name() {
        let local = Principal::local("human:ana".parse().expect("an actor"));
        let http = || Identity::from(Caller::Unnamed(local.clone()));
        let named = || Some("Claude Code".to_owned());
        let (modern, legacy) = (http().settle(named, true), http().settle(named, false));
        assert_eq!((modern.actor.as_str(), modern.is_shared), ("agent:Claude-Code", true));
        assert!(legacy.actor.as_str().starts_with("agent:Claude-Code-") && !legacy.is_shared);
        let fixed = Identity::from(Caller::Named(local.clone()));
        assert_eq!(fixed.settle(named, true), local);
    }

    #[test]
    fn any_client_name_makes_an_actor() {
        for name in ["", "  ", "ü", &"x".repeat(300)] {
            assert!(actor_for(name).as_str().len() <= "agent:".len() + 100);
            assert!(shared_actor(name).as_str().len() <= "agent:".len() + 100);
        }
    }
}
