//! Outgoing lines. A caller with a line queues it and, unless another caller is writing, writes the whole queue: no
//! separate task has to be woken, and many answers go out in one write.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// Above this many unread bytes, callers wait for the client.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A buffer that grew beyond this is released after use.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;
/// How long `close` waits for a client that does not read.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// The outgoing lines of one connection.
pub(super) struct Outbox<W> {
    /// Lines that no write has taken yet. Locked only to append or to swap, never across a write.
    waiting: Mutex<Vec<u8>>,
    /// Held while bytes go out, so that two callers never mix their lines.
    writer: tokio::sync::Mutex<OutputWriter<W>>,
    /// Cancelled when the output is gone.
    unheard: CancellationToken,
}

/// The output while one caller writes. `None` in `output`: closed or broken.
struct OutputWriter<W> {
    output: Option<W>,
    /// The bytes being written. It changes places with `waiting`, so that neither is allocated again for each write.
    ready: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(super) fn new(output: W, unheard: CancellationToken) -> Self {
        let writer = OutputWriter { output: Some(output), ready: Vec::new() };
        Self { waiting: Mutex::default(), writer: tokio::sync::Mutex::new(writer), unheard }
    }

    /// Queues a line and its line end.
    pub(super) fn put(&self, line: &[u8]) {
        let mut waiting = locked(&self.waiting);
        waiting.extend_from_slice(line);
        waiting.push(b'\n');
    }

    /// Ensures that all queued lines are written: by this call, or by one that is writing now.
    pub(super) async fn flush(&self) -> io::Result<()> {
        while self.waiting_bytes() > 0 {
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                // The current writer looks again after it releases the lock, so it finds our line.
                Err(_) if self.waiting_bytes() < WAITING_BYTES_MAX => return Ok(()),
                // Backpressure: a client that does not read makes its callers wait instead of filling the memory.
                Err(_) => self.writer.lock().await,
            };
            if let Err(error) = writer.write_all(&self.waiting).await {
                // Part of a line may be out; another write after it would not begin at a line's start.
                writer.output = None;
                self.unheard.cancel();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes the rest, unless the client has not read for a while, and releases the output.
    pub(super) async fn close(&self) -> io::Result<()> {
        let last = async {
            let mut writer = self.writer.lock().await;
            let written = writer.write_all(&self.waiting).await;
            writer.output = None;
            written
        };
        let closed = tokio::time::timeout(LAST_WRITE, last).await;
        closed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn waiting_bytes(&self) -> usize {
        locked(&self.waiting).len()
    }
}

fn locked(waiting: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: AsyncWrite + Unpin> OutputWriter<W> {
    /// Writes until the queue is empty, with lines that were queued meanwhile.
    async fn write_all(&mut self, waiting: &Mutex<Vec<u8>>) -> io::Result<()> {
        loop {
            self.ready.clear();
            self.ready.shrink_to(BUFFER_BYTES_KEPT);
            std::mem::swap(&mut self.ready, &mut *locked(waiting));
            if self.ready.is_empty() {
                return Ok(());
            }
            let output = self.output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            output.write_all(&self.ready).await?;
            output.flush().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_line_arrives_once_and_whole() {
        let (ours, theirs) = tokio::io::duplex(100);
        let outbox = Arc::new(Outbox::new(theirs, CancellationToken::new()));
        let senders: Vec<_> = (0..200)
            .map(|number: usize| {
                let outbox = outbox.clone();
                tokio::spawn(async move {
                    outbox.put(number.to_string().as_bytes());
                    outbox.flush().await.expect("written");
                })
            })
            .collect();
        let mut lines = BufReader::new(ours).lines();
        let mut seen = Vec::new();
        while seen.len() < senders.len() {
            let line = lines.next_line().await.expect("open").expect("a line");
            seen.push(line.parse::<usize>().expect("a number"));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
        outbox.close().await.expect("closed");
        let mut rest = String::new();
        lines.into_inner().read_to_string(&mut rest).await.expect("ended");
        assert_eq!(rest, "");
    }

    #[tokio::test]
    async fn a_client_that_went_away_is_noticed() {
        let (ours, theirs) = tokio::io::duplex(100);
        let unheard = CancellationToken::new();
        let outbox = Outbox::new(theirs, unheard.clone());
        drop(ours);
        outbox.put(b"line");
        assert!(outbox.flush().await.is_err());
        assert!(unheard.is_cancelled());
    }
}
