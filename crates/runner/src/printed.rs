//! The output of a running program, both streams in the order in which they came.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::tail::Tail;

/// How much of the end of the output is shown.
const BYTES_MAX: usize = 32 * 1024;

/// How much output may wait to be written live; a larger flood is not readable live.
const FRESH_BYTES_MAX: usize = 1024 * 1024;

pub(crate) struct Printed {
    tail: Mutex<Tail>,
    /// Output that was not taken yet.
    fresh: Mutex<Tail>,
    grown: Notify,
}

impl Printed {
    pub(crate) fn new() -> Self {
        let (tail, fresh) = (Tail::with_head(0, BYTES_MAX), Tail::with_head(0, FRESH_BYTES_MAX));
        Self { tail: Mutex::new(tail), fresh: Mutex::new(fresh), grown: Notify::new() }
    }

    pub(crate) fn push(&self, chunk: &[u8]) {
        if !chunk.is_empty() {
            self.tail().push(chunk);
            self.fresh.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
            self.grown.notify_one();
        }
    }

    /// Returns when output came since the last return.
    pub(crate) async fn grown(&self) {
        self.grown.notified().await;
    }

    /// The end of the output, and whether output before it is missing.
    pub(crate) fn end(&self) -> (String, bool) {
        let tail = self.tail();
        let (bytes, is_cut) = tail.end();
        (String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}"), is_cut)
    }

    /// The output since the last call, and whether its beginning is missing.
    pub(crate) fn fresh(&self) -> (Vec<u8>, bool) {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::replace(&mut *fresh, Tail::with_head(0, FRESH_BYTES_MAX));
        let (bytes, dropped) = taken.finish();
        (bytes, dropped > 0)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
