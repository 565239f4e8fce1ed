//! Resolves names to addresses; a connection goes only to an address that was checked.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use callboard_domain::relay::is_public_address;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub allow_private: bool,
}

impl Addresses {
    pub fn judge(self, address: IpAddr) -> Result<(), String> {
        if self.allow_private || is_public_address(address) {
            return Ok(());
        }
        Err(format!("{address} is a loopback, private or link-local address"))
    }
}

/// A host that is an address itself and needs no lookup.
/// The resolver below never sees such a host, so it is judged apart.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

type Found = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for Addresses {
    type Response = Found;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Found>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Resolves a name to all of its addresses or fails: a name with one private address is no public server.
    fn call(&mut self, name: Name) -> Self::Future {
        // Judged where the connection is made: a name that is asked twice may answer differently (DNS rebinding).
        let addresses = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            for address in &found {
                addresses.judge(address.ip()).map_err(io::Error::other)?;
            }
            Ok(found.into_iter())
        })
    }
}
