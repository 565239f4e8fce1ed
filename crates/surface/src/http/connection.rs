//! One TCP connection: its address, what the server waits for on it, and the deadline of that wait. A connection
//! without an admitted request is a stranger's.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::peer::{self, Owner};

/// The address by which limits are counted. The owner of one IPv6 address has the whole /64.
/// Counted by single addresses, one host could be 2^64 sources and pass every limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
            }
            address => address,
        })
    }
}

/// Both addresses of a connection.
#[derive(Clone, Copy)]
pub(super) struct ConnectionAddresses {
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

/// Requests in progress, and since when the server waits if there are none.
#[derive(Clone, Copy)]
struct ConnectionState {
    /// Requests whose body or answer is not over yet.
    requests: usize,
    waits: Waits,
}

/// What the server waits for, and since when.
#[derive(Clone, Copy)]
enum Waits {
    /// Part of a head was sent, or nothing at all on a new connection.
    ForHead(Instant),
    /// Nothing was sent since the last answer.
    ForNext(Instant),
}

/// What is known of one TCP connection while it is open.
pub(crate) struct Connection {
    source: Source,
    /// Both addresses, by which the kernel finds the peer's socket; `None` when the local one could not be read.
    ends: Option<ConnectionAddresses>,
    /// Asked once: after the peer closes its socket, the kernel cannot tell its owner any more.
    owner: OnceLock<Owner>,
    /// A watch, so that `overdue` sleeps until the state changes instead of polling.
    turn: watch::Sender<ConnectionState>,
    /// Released when a request of this connection passes the gate.
    place: Mutex<Option<StrangerPlace>>,
}

impl Connection {
    pub(super) fn new(
        source: Source,
        ends: Option<ConnectionAddresses>,
        place: StrangerPlace,
    ) -> Arc<Self> {
        let turn = ConnectionState { requests: 0, waits: Waits::ForHead(Instant::now()) };
        let place = Mutex::new(Some(place));
        let turn = watch::Sender::new(turn);
        Arc::new(Self { source, ends, owner: OnceLock::new(), turn, place })
    }

    /// The user at the other end. The kernel is asked once, by the first request that needs the answer.
    pub(super) fn owner(&self) -> Owner {
        let ask = |ConnectionAddresses { peer, local }| peer::owner(peer, local);
        *self.owner.get_or_init(|| self.ends.map_or(Owner::Unknown, ask))
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Records that a request of this connection was admitted.
    pub(super) fn admitted(&self) {
        let place = self.place().take();
        drop(place);
    }

    fn place(&self) -> MutexGuard<'_, Option<StrangerPlace>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request after its head was read. The request lasts until the guard and all its clones are dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<InRequest> {
        self.turn.send_modify(|turn| turn.requests += 1);
        Arc::new(InRequest(self.clone()))
    }

    /// The first bytes after an answer begin a new head, and its deadline.
    fn bytes_came(&self) {
        self.turn.send_if_modified(|turn| {
            let begins = turn.requests == 0 && matches!(turn.waits, Waits::ForNext(_));
            if begins {
                turn.waits = Waits::ForHead(Instant::now());
            }
            begins
        });
    }

    /// Returns when a head took longer than `head_within`. A stranger gets no more time than that between two requests;
    /// an admitted client may keep a connection for its next request.
    pub(super) async fn overdue(&self, head_within: Duration) {
        let mut turn = self.turn.subscribe();
        loop {
            let ConnectionState { requests, waits } = *turn.borrow_and_update();
            // `header_read_timeout` of hyper also runs between requests and would end kept connections (decision 0023).
            let since = match waits {
                // A call may wait for minutes. The deadline is for clients that send nothing, not for slow answers.
                _ if requests > 0 => None,
                Waits::ForHead(since) => Some(since),
                Waits::ForNext(since) => self.place().is_some().then_some(since),
            };
            let late = async {
                match since {
                    Some(since) => tokio::time::sleep_until(since + head_within).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = late => return,
                changed = turn.changed() => drop(changed),
            }
        }
    }
}

/// A request is in progress: its body is still read, or its answer still written.
pub(super) struct InRequest(Arc<Connection>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.turn.send_modify(|turn| {
            turn.requests -= 1;
            turn.waits = Waits::ForNext(Instant::now());
        });
    }
}

/// A body that keeps its request in progress.
/// Both directions hold the guard: a request ends when its body was read and its answer was written.
pub(super) struct HeldBody<B> {
    body: B,
    _request: Arc<InRequest>,
}

impl<B> HeldBody<B> {
    pub(super) fn new(body: B, request: Arc<InRequest>) -> Self {
        Self { body, _request: request }
    }
}

impl<B: HttpBody + Unpin> HttpBody for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells its connection when bytes arrive.
pub(super) struct Watched {
    pub(super) stream: TcpStream,
    pub(super) connection: Arc<Connection>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.bytes_came();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }
}

/// The connections that did not pass the gate yet, oldest first. Beyond `max` of one address the oldest is closed: a
/// real client sends its request at once, so the oldest ones only hold a place.
pub(super) struct Strangers {
    max: usize,
    open: Mutex<OpenConnections>,
}

/// Connections by address, each numbered in the order of its arrival.
#[derive(Default)]
struct OpenConnections {
    next: u64,
    by_source: HashMap<Source, BTreeMap<u64, CancellationToken>>,
}

impl Strangers {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a new connection, and the token that is cancelled when another connection needs the place.
    pub(super) fn enter(self: &Arc<Self>, source: Source) -> (StrangerPlace, CancellationToken) {
        let evicted = CancellationToken::new();
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        // The new connection always gets in. Refusing it would let one client lock out all others behind its address.
        let strangers = open.by_source.entry(source).or_default();
        strangers.insert(number, evicted.clone());
        if strangers.len() > self.max
            && let Some((_, oldest)) = strangers.pop_first()
        {
            tracing::debug!(
                ?source,
                "too many unauthenticated connections of one address; the oldest is closed"
            );
            oldest.cancel();
        }
        (StrangerPlace { strangers: self.clone(), source, number }, evicted)
    }
}

/// A place among the strangers, given back when it is dropped.
pub(super) struct StrangerPlace {
    strangers: Arc<Strangers>,
    source: Source,
    number: u64,
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        let mut open = self.strangers.open();
        if let Some(strangers) = open.by_source.get_mut(&self.source) {
            strangers.remove(&self.number);
            // An address without strangers leaves no entry, so the map does not grow with every address ever seen.
            if strangers.is_empty() {
                open.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().expect("an address"))
    }

    #[test]
    fn an_address_is_its_network_where_somebody_has_many() {
        assert_eq!(source("2001:db8:1:2::7"), source("2001:db8:1:2:ffff::1"));
        assert_ne!(source("2001:db8:1:2::7"), source("2001:db8:1:3::7"));
        assert_eq!(source("::ffff:192.0.2.7"), source("192.0.2.7"));
        assert_ne!(source("192.0.2.7"), source("192.0.2.8"));
    }

    #[test]
    fn the_oldest_of_the_same_address_leaves() {
        let strangers = Strangers::new(2);
        let (here, there) = (source("192.0.2.7"), source("192.0.2.8"));
        let (first, first_evicted) = strangers.enter(here);
        let (_other, other_evicted) = strangers.enter(there);
        let (second, second_evicted) = strangers.enter(here);
        assert!(!first_evicted.is_cancelled());
        let (_third, third_evicted) = strangers.enter(here);
        assert!(first_evicted.is_cancelled() && !second_evicted.is_cancelled());
        drop((first, second));
        let (_fourth, _) = strangers.enter(here);
        assert!(!third_evicted.is_cancelled() && !other_evicted.is_cancelled());
    }
}
