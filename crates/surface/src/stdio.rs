//! MCP over standard input and output: one client, one process, nothing else on stdout.
//!
//! Chooses the byte streams; their messages belong to `mcp/`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::front::Front;
use crate::mcp::{self, McpOptions};

pub use crate::mcp::{NoProject, OpenedProject, ProjectRequest, StdioIdentity, UnplacedOptions};

#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("cannot open standard input and output: {0}")]
    Open(#[from] io::Error),
    #[error("the connection broke: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// Serves standard input and output until input ends or `stop` is cancelled.
pub async fn serve_stdio(
    front: Arc<Front>,
    options: McpOptions,
    identity: StdioIdentity,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let (input, output) = open()?;
    serve_streams(front, options, identity, input, output, stop).await
}

/// Serves standard input and output for a client that was started outside every project.
pub async fn serve_unplaced(
    options: UnplacedOptions,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let (input, output) = open()?;
    Ok(mcp::serve_unplaced(options, input, output, stop).await?)
}

/// Serves any two byte streams like standard input and output.
pub async fn serve_streams(
    front: Arc<Front>,
    options: McpOptions,
    identity: StdioIdentity,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    Ok(mcp::serve_lines(front, options, identity, input, output, stop).await?)
}

pub type Input = Box<dyn AsyncRead + Send + Unpin>;
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output as byte streams. Node starts its servers on sockets, most others on pipes; both can be
/// polled, which saves two thread switches per message. Files and terminals are read by a blocking thread.
pub fn open() -> io::Result<(Input, Output)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if is_socket(&input)? && is_socket(&output)? {
        return Ok((Box::new(polled(input)?), Box::new(polled(output)?)));
    }
    let (input, output) = mcp::pipes();
    Ok((Box::new(input), Box::new(output)))
}

fn is_socket(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_socket())
}

fn polled(socket: File) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(OwnedFd::from(socket));
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
