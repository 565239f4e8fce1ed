//! Request bodies: read whole up to a limit, and drained when no handler reads them.
//!
//! A server that closes a connection while its client still sends resets it, and the client may lose the answer. So the
//! rest that a handler leaves unread is read and dropped after the answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{Stream, StreamExt};
use tokio::time::Sleep;

/// How long a client may go on sending unread bytes, and how long it may pause in between.
const SENDS_MAX: Duration = Duration::from_secs(30);
const PAUSES_MAX: Duration = Duration::from_secs(5);

/// Why a body was not read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLarge,
    /// The connection broke, or the client closed its side, before the end.
    CutShort,
    /// The end did not come in time.
    TooSlow,
}

/// The deadline of a body.
#[derive(Clone, Copy)]
pub(super) struct Within(pub(super) Duration);

/// Marks the deadline inside the body's error, so that `whole` can tell it from a broken connection.
#[derive(Debug, thiserror::Error)]
#[error("the body took too long")]
struct TooSlow;

/// The whole body, if it has at most `bytes_max` bytes. A body with a larger declared length is not read at all.
pub(crate) async fn whole(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Unread> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0_u64);
    // A wrong or missing length is no loophole: the loop below counts the bytes that really come.
    if length > bytes_max as u64 {
        return Err(Unread::TooLarge);
    }
    let mut read = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| match is_too_slow(&error) {
            true => Unread::TooSlow,
            false => Unread::CutShort,
        })?;
        if chunk.len() > bytes_max - read.len() {
            return Err(Unread::TooLarge);
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read.into())
}

/// Whether the deadline is among the causes; axum wraps the error of a body.
fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<TooSlow>() || error.source().is_some_and(is_too_slow)
}

/// Gives a body its deadline, and drains the unread rest of a request after the answer. For a body that is too large or
/// too slow only the answer matters, so the connection ends with it.
pub(super) async fn read_on(
    State(Within(within)): State<Within>,
    request: Request,
    next: Next,
) -> Response {
    // A request without a body needs neither a deadline nor a drain.
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let left = Left::default();
    // Reading the rest of such a body would make hyper send `100 Continue` and so invite the bytes that we drop.
    let waits = request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| {
        let rest = Some(body.into_data_stream());
        let late = Box::pin(tokio::time::sleep(within));
        Body::from_stream(Watched { rest, late, waits, left: left.clone() })
    });
    let mut response = next.run(request).await;
    let is_of_no_use = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT];
    if is_of_no_use.contains(&response.status()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let rest = left.lock().take();
    if let Some(rest) = rest {
        tokio::spawn(drop_rest(rest));
    }
    response
}

/// Reads what is left, at most for `SENDS_MAX`, and forgets it.
async fn drop_rest(mut rest: BodyDataStream) {
    let all = async {
        while let Ok(Some(Ok(_))) = tokio::time::timeout(PAUSES_MAX, rest.next()).await {}
    };
    // A client that goes on for longer loses the connection.
    let _ = tokio::time::timeout(SENDS_MAX, all).await;
}

/// The rest of a body when its reader dropped it.
#[derive(Clone, Default)]
struct Left(Arc<Mutex<Option<BodyDataStream>>>);

impl Left {
    fn lock(&self) -> MutexGuard<'_, Option<BodyDataStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body with its deadline, which hands its unread rest over when it is dropped.
struct Watched {
    /// `None` once the body is over or broken.
    rest: Option<BodyDataStream>,
    late: Pin<Box<Sleep>>,
    /// The client sends nothing before a read (`Expect: 100-continue`).
    waits: bool,
    left: Left,
}

impl Stream for Watched {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.waits = false;
        let this = &mut *self;
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        // Data that has arrived counts, even after the deadline; only waiting for more is limited.
        let Poll::Ready(chunk) = rest.poll_next_unpin(context) else {
            ready!(this.late.as_mut().poll(context));
            this.rest = None;
            return Poll::Ready(Some(Err(Error::new(TooSlow))));
        };
        if !matches!(chunk, Some(Ok(_))) {
            this.rest = None;
        }
        Poll::Ready(chunk)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.waits {
            *self.left.lock() = self.rest.take();
        }
    }
}
