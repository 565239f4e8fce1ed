//! Outgoing connections: HTTP/1.1, over TLS with the certificates this machine trusts.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// The requests of one operation share a connection; the next operation comes much later.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// The system itself would wait two minutes for a machine that is switched off.
const CONNECT_MAX: Duration = Duration::from_secs(10);

pub(crate) type Wire<R = GaiResolver> = Client<HttpsConnector<HttpConnector<R>>, Full<Bytes>>;

/// A client. It reads the trusted certificates, so it is created on first use and off the runtime.
pub(crate) async fn wire(is_tls: bool) -> io::Result<Wire> {
    by_way_of(GaiResolver::new(), is_tls).await
}

/// A client with another resolver of names.
pub(crate) async fn by_way_of<R>(resolver: R, is_tls: bool) -> io::Result<Wire<R>>
where
    R: Clone + Send + Sync + 'static,
    HttpsConnector<HttpConnector<R>>: Connect,
{
    let trusted = tokio::task::spawn_blocking(move || trusted(is_tls)).await;
    let config = trusted.map_err(io::Error::other).flatten()?;
    let mut http = HttpConnector::new_with_resolver(resolver);
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_MAX));
    let connector = HttpsConnectorBuilder::new().with_tls_config(config);
    let connector = if is_tls { connector.https_only() } else { connector.https_or_http() };
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build(connector.enable_http1().wrap_connector(http)))
}

fn trusted(is_tls: bool) -> io::Result<ClientConfig> {
    let mut authorities = RootCertStore::empty();
    if is_tls {
        authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if authorities.is_empty() {
            let words = "this machine has no trusted certificates; install ca-certificates";
            return Err(io::Error::other(words));
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(authorities)
        .with_no_client_auth())
}

/// An error with its causes, outermost first: the outer ones alone only say "connect".
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The innermost cause alone, for readers who cannot act on the rest.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
