//! A panic in one call becomes that call's error; the connection and the process live on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::error::TraceId;

/// Runs `work`; a panic is logged and returned as a trace id.
///
/// Unwind safety: state shared with other calls is behind locks whose owners handle poisoning.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, TraceId> {
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
    TraceId::of(&format!("panic: {text}"))
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
