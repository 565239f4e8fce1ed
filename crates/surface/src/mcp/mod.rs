//! The protocol edge: the only place that names the MCP SDK. Both protocol eras, stdio and HTTP.
//!
//! It translates between `front` and the wire. No tool, no task and no rule lives here; `front` decides what a client
//! may see, `identity` and the callers of `streamable` who a client is.

mod answers;
mod call;
mod caught;
mod conformance;
mod handler;
mod identity;
mod lines;
mod notices;
mod outbox;
mod render;
mod replay;
mod sessions;
mod streamable;
mod subscriptions;
mod tasks;
mod unplaced;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::service::serve_server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::front::Front;
use answers::Answers;
use conformance::Fixtures;
use handler::Handler;
use lines::Lines;
use subscriptions::Hearing;
use unplaced::Unplaced;

pub(crate) use caught::caught;
pub(crate) use identity::Caller;
pub use identity::StdioIdentity;
pub use sessions::SessionLimits;
pub(crate) use streamable::{McpRequest, Streamable};
pub use unplaced::{NoProject, OpenedProject, ProjectRequest, UnplacedOptions};

/// A directive for log filters: the SDK logs every client that hangs up during a call as an error.
pub const HANG_UPS_UNSAID: &str = "rmcp::service=off";

/// How long cancelled calls get to clean up before a connection counts as ended.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// The server's description of itself, identical on every transport.
#[derive(Clone, Debug)]
pub struct McpOptions {
    pub version: String,
    /// Instructions for agents that connect, after the toolsets' own.
    pub instructions: String,
    /// Answer long calls with a task where the client knows the extension.
    pub task_handles: bool,
    /// Serve the fixtures of the official conformance suite, besides the normal catalogue.
    pub fixtures: bool,
}

impl McpOptions {
    fn fixtures(&self) -> Option<Arc<Fixtures>> {
        self.fixtures.then(|| Arc::new(Fixtures::new()))
    }
}

/// Standard input and output, polled when both are pipes.
pub(crate) fn pipes() -> (impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin) {
    rmcp::transport::stdio_pipes()
}

/// Serves one connection of JSON lines until its input ends or `stop` is cancelled. Calls in
/// flight then get a few seconds to answer, and every computed answer is written out.
pub(crate) async fn serve_lines(
    front: Arc<Front>,
    options: McpOptions,
    identity: StdioIdentity,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), tokio::task::JoinError> {
    let handler = |line: Line| line.handler(front, options, identity);
    serve(handler, input, output, stop).await
}

/// Serves one connection as `serve_lines` does, with a project that is found later.
pub(crate) async fn serve_unplaced(
    options: UnplacedOptions,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), tokio::task::JoinError> {
    let handler = |line: Line| {
        let place = move |opened: OpenedProject| {
            line.clone().handler(opened.front, opened.options, opened.identity)
        };
        Unplaced::new(options, Box::new(place))
    };
    serve(handler, input, output, stop).await
}

/// The parts of one connection that its handler holds.
#[derive(Clone)]
struct Line {
    closing: CancellationToken,
    running: mpsc::Sender<()>,
    answers: Arc<Answers>,
}

impl Line {
    fn handler(self, front: Arc<Front>, options: McpOptions, identity: StdioIdentity) -> Handler {
        let fixtures = options.fixtures();
        Handler::new(
            front,
            Arc::new(options),
            identity.into(),
            fixtures,
            self.closing,
            Some(self.running),
            Hearing::Line(self.answers),
        )
    }
}

async fn serve<H: ServerHandler>(
    handler: impl FnOnce(Line) -> H,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), tokio::task::JoinError> {
    let closing = CancellationToken::new();
    let (running, mut all_done) = mpsc::channel(1);
    let answers = Arc::new(Answers::default());
    let handler = handler(Line { closing: closing.clone(), running, answers: answers.clone() });
    let lines = Lines::new(input, output, stop, closing, answers);
    // An error here means that the input ended before the client said anything.
    if let Ok(service) = serve_server(handler, lines).await {
        service.waiting().await?;
    }
    // Each call holds a sender, so the channel ends when the last one has cleaned up.
    let _ = tokio::time::timeout(CLEAN_UP, all_done.recv()).await;
    Ok(())
}
