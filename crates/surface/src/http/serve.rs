//! The accept loop: a task per connection, deadlines for incomplete requests, and an orderly end. The router answers.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::connection::{Connection, ConnectionAddresses, HeldBody, Source, Strangers, Watched};

/// How long calls in flight may run after a shutdown was requested.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept, most likely for lack of descriptors.
const ACCEPTS_AGAIN: Duration = Duration::from_secs(1);

/// Limits of connections before their client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// How long a client may take for the head of a request.
    pub head_within: Duration,
    /// Connections of one address without an admitted request.
    pub strangers_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { head_within: Duration::from_secs(10), strangers_max: 1024 }
    }
}

/// Serves until `shutdown` is cancelled; calls in flight then get `GRACE` to finish.
pub async fn serve_http(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let strangers = Strangers::new(limits.strangers_max);
    // Each connection holds a sender; the channel ends with the last connection.
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                tokio::select! {
                    () = tokio::time::sleep(ACCEPTS_AGAIN) => continue,
                    () = shutdown.cancelled() => break,
                }
            }
        };
        let source = Source::of(peer.ip());
        // Every connection begins as a stranger's, because nothing is known of its client before the first head.
        let (place, evicted) = strangers.enter(source);
        let ends = stream.local_addr().ok().map(|local| ConnectionAddresses { peer, local });
        let connection = Connection::new(source, ends, place);
        let (router, shutdown, open) = (router.clone(), shutdown.clone(), open.clone());
        tokio::spawn(async move {
            let _open = open;
            let serving = converse(stream, connection.clone(), router, shutdown);
            // The three ends of a connection: it is over, its head is late, or its place is needed.
            tokio::select! {
                () = serving => {}
                () = connection.overdue(limits.head_within) => {}
                () = evicted.cancelled() => {}
            }
        });
    }
    drop((listener, open));
    // Connections that are not done by then are cut off.
    let _ = tokio::time::timeout(GRACE, all_closed.recv()).await;
    Ok(())
}

/// Serves the requests of one connection until it ends.
async fn converse(
    stream: TcpStream,
    connection: Arc<Connection>,
    router: Router,
    shutdown: CancellationToken,
) {
    // With Nagle's algorithm a streamed answer waits 40 ms for an acknowledgement.
    drop(stream.set_nodelay(true));
    let io = TokioIo::new(Watched { stream, connection: connection.clone() });
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut router, held) = (router.clone(), connection.begin());
        let mut request = request.map(|body| Body::new(HeldBody::new(body, held.clone())));
        // The gate finds the peer's address and user through the connection.
        request.extensions_mut().insert(connection.clone());
        async move {
            let response = router.call(request).await?;
            Ok::<_, Infallible>(response.map(|body| HeldBody::new(body, held)))
        }
    });
    let mut serving = pin!(http1::Builder::new().serve_connection(io, service).with_upgrades());
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = shutdown.cancelled() => {
            // Finishes the request in progress and reads no further one.
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke");
    }
}

/// Whether the client went away before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
