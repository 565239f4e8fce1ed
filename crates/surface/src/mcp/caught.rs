//! A panic in one call becomes that call's error; the connection and the process live on.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Names one failure in the answer and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId(u64);

impl TraceId {
    pub(super) fn new() -> Self {
        Self(random())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The standard library's only source of randomness; good for names, not for secrets.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Runs `work`; when it panics, the panic is logged and named.
///
/// Unwind safety: what a call shares with others is behind locks that their owners judge.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, TraceId> {
    let mut work = pin!(work);
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(logged(&*panic))),
        }
    })
    .await
}

fn logged(panic: &(dyn Any + Send)) -> TraceId {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)");
    let trace_id = TraceId::new();
    tracing::error!(%trace_id, panic = text, "a call panicked");
    trace_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_rest_passes_through() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let panicked = caught(async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "on purpose");
        });
        assert!(panicked.await.is_err());
    }
}
