//! Requests to a collector. A collector that cannot be reached is named once in the log, and once more when it answers
//! again. Headers and the address's password are never logged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::{Request, StatusCode};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::proto::Proto;
use super::settings::OtlpTarget;
use crate::wire::{self, Wire, cause, chain};

/// The answer is read for the connection's sake; what a collector says in it is not used.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The pause before the second try; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

pub(super) struct CollectorClient {
    /// `traces` or `metrics`.
    signal: &'static str,
    target: OtlpTarget,
    wire: OnceCell<Wire>,
    is_down: AtomicBool,
}

/// A request that was not accepted.
struct PostFault {
    words: String,
    /// A repeat may succeed.
    is_transient: bool,
    /// How long the collector wants to be left alone.
    pause: Option<Duration>,
}

impl CollectorClient {
    pub(super) fn new(signal: &'static str, target: OtlpTarget) -> Self {
        Self { signal, target, wire: OnceCell::new(), is_down: AtomicBool::new(false) }
    }

    /// Sends a message, again and again while the fault is transient, `within` and `stop` allow it. Returns whether the
    /// collector took it. After `stop` there is one try.
    pub(super) async fn send(
        &self,
        message: &Proto,
        within: Duration,
        stop: &CancellationToken,
    ) -> bool {
        let body = self.target.format.encode(message);
        let (deadline, mut pause) = (Instant::now() + within, FIRST_PAUSE);
        loop {
            let tried = tokio::time::timeout(self.target.timeout, self.post(body.clone())).await;
            let fault = match tried {
                Ok(Ok(())) => {
                    self.say_up();
                    return true;
                }
                Ok(Err(fault)) => fault,
                Err(_) => PostFault {
                    words: format!("no answer within {:?}", self.target.timeout),
                    is_transient: true,
                    pause: None,
                },
            };
            self.say_down(&fault.words);
            let next = Instant::now() + fault.pause.unwrap_or(pause);
            if !fault.is_transient || stop.is_cancelled() || next >= deadline {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), PostFault> {
        let is_tls = self.target.uri.scheme_str() == Some("https");
        let wire = self.wire.get_or_try_init(|| wire::wire(is_tls)).await;
        let wire = wire.map_err(|error| PostFault::lasting(chain(&error)))?;
        let mut request = Request::post(self.target.uri.clone())
            .header(CONTENT_TYPE, self.target.format.content_type())
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| PostFault::lasting(chain(&error)))?;
        let answer = wire.request(request).await.map_err(|error| PostFault {
            words: cause(&error),
            is_transient: true,
            pause: None,
        })?;
        let status = answer.status();
        let pause = answer.headers().get(RETRY_AFTER);
        let pause = pause.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        // An answer that cannot be read costs a connection, and nothing else.
        let _ = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        if status.is_success() {
            return Ok(());
        }
        let is_transient = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        let (words, pause) = (format!("answered {status}"), pause.map(Duration::from_secs));
        Err(PostFault { words, is_transient, pause })
    }

    fn say_down(&self, cause: &str) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            let (signal, host) = (self.signal, self.target.uri.host().unwrap_or_default());
            let port = self.target.uri.port_u16();
            tracing::warn!(
                signal,
                host,
                port,
                cause,
                "cannot export; further failures are not logged"
            );
        }
    }

    fn say_up(&self) {
        if self.is_down.swap(false, Ordering::Relaxed) {
            tracing::info!(signal = self.signal, "the export works again");
        }
    }
}

impl PostFault {
    fn lasting(words: String) -> Self {
        Self { words, is_transient: false, pause: None }
    }
}
