//! What a program printed so far, for whoever looks before it is over. Both of its streams as they came.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::tail::Tail;

/// So much of its end is shown.
const BYTES_MAX: usize = 32 * 1024;

/// So much may wait to be written live; more is a flood that nobody reads.
const FRESH_BYTES_MAX: usize = 1024 * 1024;

pub(crate) struct Printed {
    tail: Mutex<Tail>,
    /// What nobody took yet.
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

    /// Returns when something was printed since it last did.
    pub(crate) async fn grown(&self) {
        self.grown.notified().await;
    }

    /// The end of it, and whether that is not all.
    pub(crate) fn end(&self) -> (String, bool) {
        let tail = self.tail();
        let (bytes, is_cut) = tail.end();
        (String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}"), is_cut)
    }

    /// What was printed since this was last asked, and whether the beginning of it is missing.
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
