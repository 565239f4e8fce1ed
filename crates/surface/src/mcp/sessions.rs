//! Legacy HTTP sessions: their number, their idle limit, their owners. The modern era has none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    EventStream, ServerSseMessage, SessionId, SessionManager,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::identity::Caller;
use super::replay::{KeptBytes, Replay, SharedReplay};
use crate::metrics::{Counted, HTTP_SESSIONS};
use crate::places::{NoPlace, Places, TakenPlace};

/// The id of the event that opens a standalone stream; nothing came before it.
const FIRST_EVENT: &str = "0";

/// The limits of sessions on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    pub sessions_max: usize,
    /// Sessions per token; 0 is no limit.
    pub per_token: usize,
    /// A session without any message for this long is closed.
    pub idle: Duration,
}

/// The opener of a session: caller, token and place. A session serves no other caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) caller: Caller,
    /// The list of toolsets in the path. `/mcp` and `/mcp/NAMES` are different places, with different tools.
    pub(super) toolsets: String,
}

/// All open sessions, with the places that are left.
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, OpenSession>>,
    places: Arc<Semaphore>,
    by_token: Arc<Places>,
    idle: Duration,
    /// Shared by the replays of all sessions, so that their memory has one limit.
    kept_bytes: KeptBytes,
    closing: CancellationToken,
}

/// One session. Its places are given back when it is dropped.
struct OpenSession {
    owner: Owner,
    /// The SDK's own manager with this one session, so that each session has its own replay.
    manager: Arc<LocalSessionManager>,
    streams: Streams,
    /// One of `sessions_max` places.
    _place: OwnedSemaphorePermit,
    /// One of the token's places; `None` for a caller without a token.
    _of_token: Option<TakenPlace>,
    _counted: Counted,
}

impl Sessions {
    /// Standalone streams end when `closing` is cancelled.
    pub(super) fn new(limits: SessionLimits, closing: CancellationToken) -> Self {
        Self {
            open: Mutex::default(),
            places: Arc::new(Semaphore::new(limits.sessions_max)),
            by_token: Places::new(limits.per_token),
            idle: limits.idle,
            kept_bytes: KeptBytes::default(),
            closing,
        }
    }

    /// `false` only for a session of another owner.
    pub(super) fn may_use(&self, id: &str, owner: &Owner) -> bool {
        // An unknown session passes: the SDK answers it with 404, on which clients open a new one.
        self.open().get(id).is_none_or(|open| open.owner == *owner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self, id: &SessionId) -> Result<Streams, SessionFault> {
        let open = self.open();
        open.get(id).map(|open| open.streams.clone()).ok_or(SessionFault::Gone)
    }

    fn manager(&self, id: &SessionId) -> Result<Arc<LocalSessionManager>, SessionFault> {
        let open = self.open();
        open.get(id).map(|open| open.manager.clone()).ok_or(SessionFault::Gone)
    }
}

/// A fault as the SDK passes it on. Its HTTP status is decided in `streamable.rs`.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionFault {
    #[error("too many sessions are open")]
    Full,
    #[error("the session has ended")]
    Gone,
    #[error(transparent)]
    Sdk(#[from] LocalSessionManagerError),
}

/// The sessions as one HTTP request sees them.
pub(super) struct SessionsFor {
    sessions: Arc<Sessions>,
    owner: Owner,
    /// Set when this request got no session.
    refused: OnceLock<Full>,
    /// Set when this request ended a session.
    ended_one: AtomicBool,
    /// The streams of the session that this request opens, if it opens one.
    streams: Streams,
}

/// Whose limit of sessions is reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    Server,
    Token(NoPlace),
}

/// The number of open streams of a session for unsolicited messages.
#[derive(Clone)]
pub(super) struct Streams(Arc<watch::Sender<usize>>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Streams {
    pub(super) fn subscribe(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }

    fn open(&self) -> OpenStream {
        self.0.send_modify(|open| *open += 1);
        OpenStream(self.clone())
    }
}

struct OpenStream(Streams);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}

impl SessionsFor {
    pub(super) fn new(sessions: Arc<Sessions>, owner: Owner, streams: Streams) -> Self {
        let (refused, ended_one) = Default::default();
        Self { sessions, owner, refused, ended_one, streams }
    }

    /// Whether this request ended a session that was open.
    pub(super) fn ended_one(&self) -> bool {
        self.ended_one.load(Ordering::Relaxed)
    }

    /// Why this request got no session, if it wanted one.
    pub(super) fn refused(&self) -> Option<Full> {
        self.refused.get().copied()
    }

    /// Remembers why there is no session: the SDK passes no reason on.
    fn refuse(&self, full: Full) -> SessionFault {
        // A request opens one session at most.
        let _ = self.refused.set(full);
        SessionFault::Full
    }
}

type Events = Result<EventStream, SessionFault>;

fn boxed(events: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static) -> EventStream {
    Box::pin(events)
}

#[allow(refining_impl_trait, reason = "the boxed stream is the same promise with a name")]
impl SessionManager for SessionsFor {
    type Error = SessionFault;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    // The token's place is taken first, so that a token at its limit costs the server no place.
    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionFault> {
        let of_token = self.sessions.by_token.take(self.owner.caller.token());
        let of_token = of_token.map_err(|full| self.refuse(Full::Token(full)))?;
        let place = self.sessions.places.clone().try_acquire_owned();
        let place = place.map_err(|_| self.refuse(Full::Server))?;
        let replay = Arc::new(Replay::new(self.sessions.kept_bytes.clone()));
        let mut manager =
            LocalSessionManager::default().with_event_store(Arc::new(SharedReplay(replay)));
        // The SDK's own limit of idle time; without one a client that never sends DELETE holds its place for ever.
        manager.session_config.keep_alive = Some(self.sessions.idle);
        let manager = Arc::new(manager);
        let (id, transport) = manager.create_session().await?;
        let counted = Counted::one(HTTP_SESSIONS);
        let (owner, streams) = (self.owner.clone(), self.streams.clone());
        let (_place, _of_token, _counted) = (place, of_token, counted);
        let open = OpenSession { owner, manager, streams, _place, _of_token, _counted };
        self.sessions.open().insert(id.clone(), open);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionFault> {
        Ok(self.sessions.manager(id)?.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionFault> {
        Ok(self.sessions.open().contains_key(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionFault> {
        let closed = self.sessions.open().remove(id);
        match closed {
            Some(open) => {
                self.ended_one.store(true, Ordering::Relaxed);
                Ok(open.manager.close_session(id).await?)
            }
            None => Ok(()),
        }
    }

    async fn create_stream(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Events {
        let manager = self.sessions.manager(id)?;
        let events = manager.create_stream(id, message).await?;
        Ok(boxed(events))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionFault> {
        Ok(self.sessions.manager(id)?.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(&self, id: &SessionId) -> Events {
        let manager = self.sessions.manager(id)?;
        let events = manager.create_standalone_stream(id).await?;
        let open = self.sessions.streams(id)?.open();
        let events = events.inspect(move |_| {
            let _until_dropped = &open;
        });
        Ok(boxed(events.take_until(self.sessions.closing.clone().cancelled_owned())))
    }

    async fn resume(&self, id: &SessionId, last_event: String) -> Events {
        // The replay knows no event 0, and would refuse a client that lost its stream before the first message.
        if last_event == FIRST_EVENT {
            return self.create_standalone_stream(id).await;
        }
        let manager = self.sessions.manager(id)?;
        let events = manager.resume(id, last_event).await?;
        Ok(boxed(events.take_until(self.sessions.closing.clone().cancelled_owned())))
    }

    // `event_store` is not implemented on purpose: with one, the SDK would keep modern requests running after their
    // client hung up, and there hanging up means cancel.
}
