//! `/readyz`: one word for every caller, because load balancers ask without a token and under any name. The reason why
//! the server is not ready is in its log.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;

use super::ReadyProbe;

/// How long an answer of the store is cached, however many ask.
const BELIEVED: Duration = Duration::from_secs(1);

/// The last answer of the probe, with its time.
pub(super) struct Readiness {
    probe: ReadyProbe,
    seen: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    pub(super) fn new(probe: ReadyProbe) -> Self {
        Self { probe, seen: Mutex::default() }
    }

    pub(super) async fn answer(&self) -> Response {
        match self.is_ready().await {
            true => "ok\n".into_response(),
            false => (StatusCode::SERVICE_UNAVAILABLE, "unavailable\n").into_response(),
        }
    }

    /// Asks the store, one question at a time; concurrent callers share the answer.
    async fn is_ready(&self) -> bool {
        // Held while the store is asked: a hundred balancers that ask at once cost one question.
        let mut seen = self.seen.lock().await;
        if let Some((at, is_ready)) = *seen
            && at.elapsed() < BELIEVED
        {
            return is_ready;
        }
        let probed = (self.probe)().await;
        if let Err(reason) = &probed {
            tracing::warn!(reason, "not ready");
        }
        *seen = Some((Instant::now(), probed.is_ok()));
        probed.is_ok()
    }
}
