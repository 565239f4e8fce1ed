//! The pipes of a program.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

use crate::printed::Printed;
use crate::tail::Tail;

pub(super) struct Streams {
    pub(super) stdin: Stdin,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
}

impl Streams {
    pub(super) async fn read_to_end(&mut self) {
        tokio::join!(self.stdout.read_to_end(), self.stderr.read_to_end());
    }

    /// Feeds and reads, and never returns: a program may close its output and go on.
    pub(super) async fn serve(&mut self) -> Infallible {
        tokio::join!(self.stdin.feed(), self.stdout.read_to_end(), self.stderr.read_to_end());
        std::future::pending().await
    }
}

/// The input still to be written. A program that does not want it may close its end.
pub(super) struct Stdin {
    pub(super) pipe: Option<ChildStdin>,
    pub(super) rest: Vec<u8>,
}

impl Stdin {
    /// Writes the rest. Cancel safe: written bytes are taken off the rest.
    async fn feed(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.write(&self.rest).await {
                Ok(written @ 1..) => drop(self.rest.drain(..written)),
                Ok(0) | Err(_) => self.pipe = None,
            }
            if self.rest.is_empty() {
                self.pipe = None;
            }
        }
    }
}

pub(super) struct Stream {
    pub(super) pipe: pipe::Receiver,
    pub(super) tail: Tail,
    printed: Option<Arc<Printed>>,
}

impl Stream {
    pub(super) fn open(
        tail: Tail,
        printed: Option<Arc<Printed>>,
    ) -> io::Result<(Self, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok((Self { pipe, tail, printed }, writer))
    }

    /// Reads to the end. Cancel safe: a chunk is read and kept, or neither.
    pub(super) async fn read_to_end(&mut self) {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = self.pipe.read(&mut chunk).await {
            self.tail.push(&chunk[..length]);
            if let Some(printed) = &self.printed {
                printed.push(&chunk[..length]);
            }
        }
    }
}
