//! Recent messages of a legacy HTTP session, so that a client which lost its connection gets the results that finished
//! meanwhile. Memory only, bounded, one per session.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::stream;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{
    EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use tokio::sync::watch;

/// Messages of one stream; a client that missed more has lost the oldest.
/// A request sends progress and one answer, so the oldest message is progress.
const EVENTS_PER_STREAM_MAX: usize = 64;
/// Answered requests whose messages are kept.
const FINISHED_STREAMS_MAX: usize = 64;
/// How long a client has to come back for a result.
const FINISHED_KEPT: Duration = Duration::from_secs(300);
/// The cap of one session; when all sessions together exceed theirs, the smaller one holds.
/// Both caps bind finished streams alone: `trim` never forgets a stream whose answer is still to come.
const SESSION_BYTES_MAX: usize = 1024 * 1024;
const SESSION_BYTES_CROWDED: usize = 64 * 1024;
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes kept by all sessions of one server.
pub(super) type KeptBytes = Arc<AtomicUsize>;

/// The kept messages of one session. Dropping it gives its bytes back to the others.
pub(super) struct Replay {
    log: Mutex<Log>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    all: KeptBytes,
}

/// The streams of a session with their messages.
#[derive(Default)]
struct Log {
    newest: u64,
    bytes: usize,
    /// The streams, oldest first.
    streams: VecDeque<Stream>,
}

/// The messages of one request, until its answer and for a while after it.
struct Stream {
    id: String,
    events: VecDeque<Event>,
    /// When the answer was stored; `None` while the request runs.
    finished: Option<Instant>,
}

struct Event {
    number: u64,
    bytes: usize,
    message: ServerSseMessage,
}

/// The next step of a reader that has seen all events up to some number.
enum NextEvent {
    Event(u64, ServerSseMessage),
    Wait,
    End,
}

impl Replay {
    pub(super) fn new(all: KeptBytes) -> Self {
        Self { log: Mutex::default(), newest: watch::Sender::new(0), all }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message and numbers it. Numbers are unique within the session, so that an id alone finds the stream.
    fn store(&self, stream: &str, message: &ServerSseMessage) -> u64 {
        let bytes = message.message.as_deref().map_or(0, json_bytes);
        let finishes = message.message.as_deref().is_some_and(is_answer);
        let mut log = self.log();
        let before = log.bytes;
        log.newest += 1;
        let number = log.newest;
        let mut message = message.clone();
        // The client sends this id back as `Last-Event-ID`.
        message.event_id = Some(number.to_string());
        log.push(stream, Event { number, bytes, message }, finishes);
        let crowded = self.all.load(Ordering::Relaxed) > ALL_BYTES_MAX;
        // Only the session that stores now is trimmed: others keep what they have until their next message.
        log.trim(if crowded { SESSION_BYTES_CROWDED } else { SESSION_BYTES_MAX });
        if log.bytes >= before {
            self.all.fetch_add(log.bytes - before, Ordering::Relaxed);
        } else {
            self.all.fetch_sub(before - log.bytes, Ordering::Relaxed);
        }
        drop(log);
        self.newest.send_replace(number);
        number
    }

    /// The stream of an event id that a client came back with.
    fn stream_of(&self, number: u64) -> Option<String> {
        let log = self.log();
        let of = |stream: &&Stream| stream.events.iter().any(|event| event.number == number);
        log.streams.iter().find(of).map(|stream| stream.id.clone())
    }

    /// What a reader does next. A stream that was forgotten is at its end.
    fn next_after(&self, stream: &str, seen: u64) -> NextEvent {
        let log = self.log();
        let Some(stream) = log.streams.iter().find(|kept| kept.id == stream) else {
            return NextEvent::End;
        };
        match stream.events.iter().find(|event| event.number > seen) {
            Some(event) => NextEvent::Event(event.number, event.message.clone()),
            None if stream.finished.is_some() => NextEvent::End,
            None => NextEvent::Wait,
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let bytes = self.log().bytes;
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Log {
    /// Appends an event to its stream, which it may begin or finish.
    fn push(&mut self, id: &str, event: Event, finishes: bool) {
        let at = self.streams.iter().position(|stream| stream.id == id).unwrap_or_else(|| {
            let stream = Stream { id: id.into(), events: VecDeque::new(), finished: None };
            self.streams.push_back(stream);
            self.streams.len() - 1
        });
        let stream = &mut self.streams[at];
        self.bytes += event.bytes;
        stream.events.push_back(event);
        if stream.events.len() > EVENTS_PER_STREAM_MAX
            && let Some(oldest) = stream.events.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
        if finishes {
            stream.finished = Some(Instant::now());
        }
    }

    /// Forgets finished streams, oldest first, but never the newest one.
    fn trim(&mut self, bytes_max: usize) {
        loop {
            let mut finished = self
                .streams
                .iter()
                .enumerate()
                .filter_map(|(at, stream)| stream.finished.map(|when| (at, when)));
            let Some((oldest, when)) = finished.next() else { return };
            let others = finished.count();
            let too_much = others >= FINISHED_STREAMS_MAX
                || self.bytes > bytes_max
                || when.elapsed() > FINISHED_KEPT;
            if others == 0 || !too_much {
                return;
            }
            if let Some(stream) = self.streams.remove(oldest) {
                self.bytes -= stream.events.iter().map(|event| event.bytes).sum::<usize>();
            }
        }
    }
}

/// Whether the message ends its stream.
fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    match message {
        ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => true,
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => false,
    }
}

/// The size of a message as JSON, without building the text.
fn json_bytes(message: &ServerJsonRpcMessage) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a message that cannot be written is not kept long either.
    let _ = serde_json::to_writer(&mut count, message);
    count.0
}

/// The SDK wants one store for all sessions; ours belongs to one session.
pub(super) struct SharedReplay(pub(super) Arc<Replay>);

#[async_trait]
impl EventStore for SharedReplay {
    async fn store_event(
        &self,
        stream: &str,
        event: &ServerSseMessage,
    ) -> Result<String, EventStoreError> {
        Ok(self.0.store(stream, event).to_string())
    }

    /// The events after one on its stream, then new ones, until the answer.
    async fn replay_events_after(&self, last: &str) -> Result<EventStream, EventStoreError> {
        let seen: u64 = last.parse()?;
        let stream = self.0.stream_of(seen).ok_or("that event is no longer kept")?;
        let replay = self.0.clone();
        let newest = self.0.newest.subscribe();
        Ok(Box::pin(stream::unfold(
            (replay, stream, seen, newest),
            async |(replay, stream, mut seen, mut newest)| loop {
                // Before the look: a message stored between the look and the wait wakes the wait.
                newest.mark_unchanged();
                match replay.next_after(&stream, seen) {
                    NextEvent::Event(number, message) => {
                        seen = number;
                        return Some((message, (replay, stream, seen, newest)));
                    }
                    NextEvent::End => return None,
                    NextEvent::Wait => newest.changed().await.ok()?,
                }
            },
        )))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use rmcp::model::{EmptyObject, RequestId, ServerResult};

    use super::*;

    fn answer(id: i64) -> ServerSseMessage {
        let result = ServerResult::EmptyResult(EmptyObject {});
        ServerSseMessage::from_message(ServerJsonRpcMessage::response(
            result,
            RequestId::Number(id),
        ))
    }

    fn numbers(events: &[ServerSseMessage]) -> Vec<&str> {
        events.iter().filter_map(|event| event.event_id.as_deref()).collect()
    }

    #[tokio::test]
    async fn a_result_that_came_while_the_client_was_away_is_replayed() {
        let store = SharedReplay(Arc::new(Replay::new(KeptBytes::default())));
        let first = ServerSseMessage::retry(Duration::from_secs(3));
        let seen = store.store_event("a", &first).await.expect("stored");
        store.store_event("b", &first).await.expect("stored");
        let replay = store.replay_events_after(&seen).await.expect("known");
        store.store_event("a", &answer(1)).await.expect("stored");
        let events: Vec<_> = replay.collect().await;
        assert_eq!(numbers(&events), ["3"]);
        assert!(store.replay_events_after("77").await.is_err());
    }

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let all = KeptBytes::default();
        let replay = Replay::new(all.clone());
        for number in 0..1000 {
            replay.store(&number.to_string(), &answer(number));
        }
        assert!(replay.log().streams.len() <= FINISHED_STREAMS_MAX + 1);
        assert_eq!(all.load(Ordering::Relaxed), replay.log().bytes);
        drop(replay);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
